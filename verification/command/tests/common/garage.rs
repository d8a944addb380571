//! Garage, an object store whose servers are equal but for where data is placed.

use super::object_store::{Address, KEY, ObjectStore, REGION, STORAGE, Server};
use crate::prelude::*;

/// The name of the server that clients speak to.
const GATEWAY: &str = "gateway";

/// What the servers know each other by.
const RPC_SECRET: &str = "736861726564207365637265742073686172656420736563726574207368617e";

/// A cluster that is being started.
struct Garage {
    program: PathBuf,
    folder: PathBuf,
    /// Where the servers that run find each other, each as `ID@HOST:PORT`.
    peers: Vec<String>,
}

/// Starts a cluster in the folder `garage` of a world; `None`, after a note, if it is not installed. Each byte is on
/// all servers that store data, of which two must run.
pub(crate) fn start(world: &World) -> Option<ObjectStore> {
    let mut garage = Garage {
        program: tools::find_optional("garage")?,
        folder: world.directory("garage"),
        peers: Vec::new(),
    };
    let storage = (0..STORAGE).map(|number| garage.server(&format!("storage-{number}")));
    let storage = storage.collect();
    // The last, so that it finds all others when it is started again.
    let gateway = garage.server(GATEWAY);
    garage.place_data();
    garage.make_bucket();
    Some(ObjectStore {
        gateway,
        storage,
        _others: Vec::new(),
    })
}

impl Garage {
    /// Starts a server, which knows those that run.
    fn server(&mut self, name: &str) -> Server {
        let address = Address::free();
        let settings = settings(name, address, &self.peers);
        fs::write(self.folder.join(format!("{name}.toml")), settings).unwrap();
        let server = Server::start(self.command(name, "server"), address, &self.folder);
        let peer = finish(self.command(name, "node id --quiet"));
        self.peers.push(peer.succeeds().text().trim().to_owned());
        server
    }

    fn place_data(&self) {
        let ids: Vec<_> = self.peers.iter().map(|peer| &peer[..64]).collect();
        let (gateway, storage) = ids.split_last().unwrap();
        let storage = storage.join(" ");
        eventually("the servers know each other", || {
            let assigned = self.tell(&format!("layout assign --zone all -c 1TB {storage}"));
            assigned.status.success()
        });
        for command in [
            &format!("layout assign --zone all --gateway {gateway}"),
            "layout apply --version 1",
        ] {
            self.tell(command).succeeds();
        }
    }

    fn make_bucket(&self) {
        let [id, secret] = KEY;
        for command in [
            "bucket create images",
            &format!("key import --yes {id} {secret}"),
            &format!("bucket allow --read --write images --key {id}"),
        ] {
            self.tell(command).succeeds();
        }
    }

    /// Runs a command about the cluster.
    fn tell(&self, arguments: &str) -> Ended {
        finish(self.command(GATEWAY, arguments))
    }

    /// A command with the settings of a server.
    fn command(&self, name: &str, arguments: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg(format!("--config={name}.toml"))
            .args(arguments.split(' '))
            .current_dir(&self.folder);
        command
    }
}

/// The settings of a server, whose files are in the folder `name`.
fn settings(name: &str, Address { port, inner }: Address, peers: &[String]) -> String {
    format!(
        r#"
            metadata_dir = "{name}/metadata"
            data_dir = "{name}/data"
            db_engine = "sqlite"
            replication_factor = {STORAGE}
            compression_level = "none"
            rpc_secret = "{RPC_SECRET}"
            rpc_bind_addr = "127.0.0.1:{inner}"
            rpc_public_addr = "127.0.0.1:{inner}"
            bootstrap_peers = {peers:?}

            [s3_api]
            api_bind_addr = "127.0.0.1:{port}"
            s3_region = "{REGION}"
        "#
    )
}
