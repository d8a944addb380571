//! An object store of several servers.

use std::{
    ffi::OsString,
    fs,
    hash::{BuildHasher, RandomState},
    io::Write,
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use verimount_testkit::tools;

use super::{
    daemon::eventually,
    run::{Ended, finish},
    user::User,
    world::World,
};

/// The key that the store accepts.
pub(crate) const KEY: [&str; 2] = ["test-key", "very-secret"];

/// The same with another secret.
pub(crate) const WRONG: [&str; 2] = ["test-key", "wrong-secret"];

/// How many servers store data. Each byte is on two of them.
const VOLUMES: usize = 3;

/// A cluster of SeaweedFS with the bucket `images`. Its own files are in the folder `seaweedfs` of a world.
pub(crate) struct SeaweedFs {
    weed: PathBuf,
    folder: PathBuf,
    master: Address,
    filer: Address,
    volumes: [Address; VOLUMES],
    gateway: Address,
    /// Those that run, with their part.
    processes: Vec<(Part, Child)>,
}

/// A process of the cluster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Part {
    Master,
    /// One of those that store data.
    Volume(usize),
    Filer,
    /// What speaks the protocol of S3.
    Gateway,
}

/// The ports where a process listens: for HTTP, and for the cluster.
#[derive(Clone, Copy)]
struct Address {
    port: u16,
    inner: u16,
}

impl Address {
    fn free() -> Self {
        let [port, inner] = [lasting_port(), lasting_port()];
        Self { port, inner }
    }

    fn shown(self) -> String {
        format!("127.0.0.1:{}.{}", self.port, self.inner)
    }

    fn answers(self) -> bool {
        [self.port, self.inner]
            .iter()
            .all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok())
    }
}

impl SeaweedFs {
    /// Starts it; `None`, after a note, if it is not installed.
    pub(crate) fn start(world: &World) -> Option<Self> {
        let weed = tools::find("weed")?;
        let folder = world.directory("seaweedfs");
        let mut cluster = Self {
            weed,
            master: Address::free(),
            filer: Address::free(),
            volumes: [(); VOLUMES].map(|()| Address::free()),
            gateway: Address::free(),
            processes: Vec::new(),
            folder,
        };
        fs::write(cluster.folder.join("s3.json"), settings()).unwrap();
        cluster.run(Part::Master);
        for volume in 0..VOLUMES {
            cluster.run(Part::Volume(volume));
        }
        cluster.run(Part::Filer);
        cluster.make_bucket();
        cluster.run(Part::Gateway);
        Some(cluster)
    }

    /// Starts a process, and waits until it listens.
    pub(crate) fn run(&mut self, part: Part) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("log"))
            .unwrap();
        let process = Command::new(&self.weed)
            .args(self.arguments(part))
            .current_dir(&self.folder)
            .env("HOME", &self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.processes.push((part, process));
        let address = self.address(part);
        eventually("a part of SeaweedFS listens", || {
            let answers = address.answers();
            let (_, process) = self.processes.last_mut().unwrap();
            assert!(
                process.try_wait().unwrap().is_none(),
                "{part:?} of SeaweedFS has ended: {:?}",
                fs::read_to_string(self.folder.join("log"))
            );
            answers
        });
    }

    /// Kills a process, which can do nothing about it.
    pub(crate) fn kill(&mut self, part: Part) {
        let at = self.processes.iter().position(|(own, _)| *own == part);
        let (_, mut process) = self.processes.remove(at.expect("it runs"));
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// The name of an object in the bucket.
    pub(crate) fn object(&self, key: &str) -> String {
        format!("s3://images/{key}")
    }

    /// The command as this user, who has this key.
    pub(crate) fn command(&self, user: &User, [id, secret]: [&str; 2]) -> Command {
        let mut command = user.command();
        let endpoint = format!("http://127.0.0.1:{}", self.gateway.port);
        command
            .env("AWS_ENDPOINT_URL", endpoint)
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", id)
            .env("AWS_SECRET_ACCESS_KEY", secret);
        command
    }

    /// Runs the command with the right key.
    pub(crate) fn verimount(&self, arguments: Vec<OsString>) -> Ended {
        let mut command = self.command(&User::Current, KEY);
        command.args(arguments);
        finish(command)
    }

    fn address(&self, part: Part) -> Address {
        match part {
            Part::Master => self.master,
            Part::Volume(volume) => self.volumes[volume],
            Part::Filer => self.filer,
            Part::Gateway => self.gateway,
        }
    }

    fn arguments(&self, part: Part) -> Vec<String> {
        let Address { port, inner } = self.address(part);
        let (master, filer) = (self.master.shown(), self.filer.shown());
        let own = match part {
            Part::Master => "master -mdir=. -volumeSizeLimitMB=1024 -defaultReplication=010".into(),
            Part::Volume(volume) => {
                let folder = format!("volume-{volume}");
                fs::create_dir_all(self.folder.join(&folder)).unwrap();
                format!("volume -dir={folder} -rack=r{volume} -max=64 -master={master}")
            }
            Part::Filer => format!("filer -master={master} -defaultReplicaPlacement=010"),
            // Without what listens at a fixed port, which another cluster may have.
            Part::Gateway => {
                format!("s3 -filer={filer} -config=s3.json -port.iceberg=0 -port.lance=0")
            }
        };
        let own = own.split(' ').map(str::to_owned);
        let address = match part {
            Part::Gateway => format!("-ip.bind=127.0.0.1 -port={port} -port.grpc={inner}"),
            _ => format!("-ip=127.0.0.1 -port={port} -port.grpc={inner}"),
        };
        own.chain(address.split(' ').map(str::to_owned)).collect()
    }

    fn make_bucket(&self) {
        eventually("a bucket can be made", || {
            let mut shell = Command::new(&self.weed)
                .args(["shell", &format!("-master={}", self.master.shown())])
                .arg(format!("-filer={}", self.filer.shown()))
                .current_dir(&self.folder)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let commands = b"s3.bucket.create -name images\ns3.bucket.list\n";
            // It may end before it reads.
            let _ = shell.stdin.take().unwrap().write_all(commands);
            let output = shell.wait_with_output().unwrap();
            String::from_utf8_lossy(&output.stdout).contains("images")
        });
    }
}

impl Drop for SeaweedFs {
    fn drop(&mut self) {
        for (_, process) in &mut self.processes {
            let _ = process.kill();
        }
        for (_, process) in &mut self.processes {
            let _ = process.wait();
        }
    }
}

/// A port that nobody uses now, and that connections do not get by chance: a server needs it again after it was
/// killed.
fn lasting_port() -> u16 {
    loop {
        let port = 10_000 + (RandomState::new().hash_one(0) % 22_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Whom the gateway answers.
fn settings() -> String {
    let [id, secret] = KEY;
    format!(
        r#"{{"identities": [{{
            "name": "test",
            "credentials": [{{"accessKey": "{id}", "secretKey": "{secret}"}}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"]
        }}]}}"#
    )
}
