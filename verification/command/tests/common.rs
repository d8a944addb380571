//! Shared by the tests of the command.

pub(crate) mod certificate;
pub(crate) mod daemon;
pub(crate) mod docker_registry;
pub(crate) mod garage;
pub(crate) mod latency;
pub(crate) mod nginx;
pub(crate) mod object_store;
pub(crate) mod repository;
pub(crate) mod run;
pub(crate) mod seaweedfs;
pub(crate) mod synchronous;
pub(crate) mod user;
pub(crate) mod world;

use std::net::TcpListener;

/// A port of the loopback interface that nobody uses now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}
