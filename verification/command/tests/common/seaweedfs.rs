//! SeaweedFS, an object store whose servers have different duties.

use std::{net::TcpStream, time::Duration};

use super::object_store::{Address, KEY, ObjectStore, STORAGE, Server};
use crate::prelude::*;

/// The program, and the folder where its servers have their files.
struct SeaweedFs {
    weed: PathBuf,
    folder: PathBuf,
}

/// Starts a cluster in the folder `seaweedfs` of a world; `None`, after a note, if it is not installed. Each byte is
/// on two of the servers that store data.
pub(crate) fn start(world: &World) -> Option<ObjectStore> {
    let weed = tools::find("weed")?;
    let folder = world.directory("seaweedfs");
    fs::write(folder.join("s3.json"), settings()).unwrap();
    let seaweed = SeaweedFs { weed, folder };
    let [at_master, at_filer] = [Address::free(), Address::free()];
    let (to_master, to_filer) = (
        format!("-master={}", shown(at_master)),
        format!("-filer={}", shown(at_filer)),
    );
    let master = seaweed.server(
        at_master,
        "master -ip=127.0.0.1 -mdir=. -volumeSizeLimitMB=1024 -defaultReplication=010",
    );
    let storage = (0..STORAGE).map(|number| seaweed.volume(number, &to_master));
    let storage = storage.collect();
    let filer = seaweed.server(
        at_filer,
        &format!("filer -ip=127.0.0.1 -defaultReplicaPlacement=010 {to_master}"),
    );
    make_bucket(at_filer);
    // Without what listens at a fixed port, which another cluster may have.
    let gateway = seaweed.server(
        Address::free(),
        &format!("s3 -ip.bind=127.0.0.1 -config=s3.json -port.iceberg=0 -port.lance=0 {to_filer}"),
    );
    Some(ObjectStore {
        gateway,
        storage,
        _others: vec![master, filer],
    })
}

impl SeaweedFs {
    fn server(&self, address: Address, arguments: &str) -> Server {
        let Address { port, inner } = address;
        let mut command = Command::new(&self.weed);
        command
            .args(arguments.split(' '))
            .args([format!("-port={port}"), format!("-port.grpc={inner}")]);
        Server::start(command, address, &self.folder)
    }

    /// One that stores data.
    fn volume(&self, number: usize, to_master: &str) -> Server {
        let own = format!("volume-{number}");
        fs::create_dir(self.folder.join(&own)).unwrap();
        self.server(
            Address::free(),
            &format!("volume -ip=127.0.0.1 -dir={own} -rack=r{number} -max=64 {to_master}"),
        )
    }
}

/// Makes the bucket, which is a folder of the filer, by storing an object there. The shell of SeaweedFS, which has a
/// command for it, waits for minutes for its master now and then.
fn make_bucket(filer: Address) {
    eventually("an object can be stored", || {
        let mut answer = String::new();
        let asked = TcpStream::connect(("127.0.0.1", filer.port)).and_then(|mut filer| {
            filer.set_read_timeout(Some(Duration::from_secs(10)))?;
            filer.write_all(
                b"PUT /buckets/images/first HTTP/1.0\r\nContent-Length: 5\r\n\r\nfirst",
            )?;
            filer.read_to_string(&mut answer)
        });
        asked.is_ok() && answer.contains(" 201 Created")
    });
}

/// An address as SeaweedFS writes it.
fn shown(Address { port, inner }: Address) -> String {
    format!("127.0.0.1:{port}.{inner}")
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
