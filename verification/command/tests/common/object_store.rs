//! An object store of several servers, whatever engine they run.

use std::{
    hash::{BuildHasher, RandomState},
    net::{TcpListener, TcpStream},
};

use crate::prelude::*;

/// The key that a store accepts: its id and its secret, in the form that Garage demands.
pub(crate) const KEY: [&str; 2] = [
    "GK5fa1c0de5fa1c0de5fa1c0de",
    "76657279207365637265742076657279207365637265742076657279207365c7",
];

/// The id of [`KEY`] with another secret.
pub(crate) const WRONG: [&str; 2] = [
    KEY[0],
    "77726f6e672073656372657477726f6e672073656372657477726f6e672073e7",
];

/// The region of every store.
pub(crate) const REGION: &str = "us-east-1";

/// How many servers store data.
pub(crate) const STORAGE: usize = 3;

/// A store with the bucket `images`, which outlives the loss of one server that stores data.
pub(crate) struct ObjectStore {
    /// What speaks the protocol of S3. It stores no data.
    pub(crate) gateway: Server,
    /// Those that store data.
    pub(crate) storage: Vec<Server>,
    /// Whatever else the engine needs; it runs until the end.
    pub(crate) _others: Vec<Server>,
}

impl ObjectStore {
    /// The name of an object in the bucket.
    pub(crate) fn object(&self, key: &str) -> String {
        format!("s3://images/{key}")
    }

    /// The command as this user, who has this key.
    pub(crate) fn command(&self, user: &User, [id, secret]: [&str; 2]) -> Command {
        let mut command = user.command();
        let endpoint = format!("http://127.0.0.1:{}", self.gateway.address.port);
        command
            .env("AWS_ENDPOINT_URL", endpoint)
            .env("AWS_REGION", REGION)
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
}

/// The ports where a server listens: for clients, and for the other servers.
#[derive(Clone, Copy)]
pub(crate) struct Address {
    pub(crate) port: u16,
    pub(crate) inner: u16,
}

impl Address {
    pub(crate) fn free() -> Self {
        let [port, inner] = [lasting_port(), lasting_port()];
        Self { port, inner }
    }

    fn answers(self) -> bool {
        [self.port, self.inner]
            .iter()
            .all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok())
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

/// A server of a store. It can be killed and started again.
pub(crate) struct Server {
    command: Command,
    address: Address,
    log: PathBuf,
    /// While it runs.
    process: Option<Child>,
}

impl Server {
    /// Starts the server of this command, which listens at `address`, in a folder where it has its files.
    pub(crate) fn start(mut command: Command, address: Address, folder: &Path) -> Self {
        let path = folder.join("log");
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(&path)
            .unwrap();
        command
            .current_dir(folder)
            .env("HOME", folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let mut server = Self {
            command,
            address,
            log: path,
            process: None,
        };
        server.run();
        server
    }

    /// Starts it again after it was killed, and waits until it listens.
    pub(crate) fn run(&mut self) {
        assert!(self.process.is_none(), "{:?} runs", self.command);
        let process = self.process.insert(self.command.spawn().unwrap());
        eventually("a server of the store listens", || {
            let answers = self.address.answers();
            assert!(
                process.try_wait().unwrap().is_none(),
                "{:?} has ended: {:?}",
                self.command,
                fs::read_to_string(&self.log)
            );
            answers
        });
    }

    /// Kills it, which can do nothing about it.
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.kill().unwrap();
        process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
