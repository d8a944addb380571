//! The whole crate against a server that a script makes wrong.

mod answers;
#[cfg(feature = "clouds")]
mod clouds;
mod insecure;
mod proxies;
mod reading;
mod redirects;
mod registry;
mod retries;
mod sessions;

use std::{error::Error as _, sync::Arc, time::Duration};

use verimount_source::{Ask, Fetch, GRANULE, Given, ReadError};
use verimount_testkit::{HttpServer, noise};

use crate::{
    Error, RemoteFile, RemoteOptions, Session, budget::Budget, client::Target, engine::Engine,
    limits::Limits,
};

/// Pauses are short, but all else is as generous as in use.
fn patient() -> Limits {
    Limits {
        first_pause: Duration::from_millis(1),
        ..Limits::default()
    }
}

/// For tests in which all attempts are repeated until time is up. Where something is to come of one, [`patient`]: a
/// busy machine may take longer than this.
fn impatient() -> Limits {
    Limits {
        open: Duration::from_millis(50),
        read: Duration::from_millis(50),
        ..patient()
    }
}

fn session(limits: Limits) -> Session {
    Session::with_limits(RemoteOptions::default(), limits)
}

/// Opens a file with an engine of its own: that of the process has memory for one test only, and others run meanwhile.
fn open(server: &HttpServer, limits: Limits) -> Result<Arc<RemoteFile>, Error> {
    try_open(Budget::of_process(), server, limits)
}

fn open_within(budget: Budget, server: &HttpServer, limits: Limits) -> Arc<RemoteFile> {
    try_open(budget, server, limits).unwrap()
}

fn try_open(budget: Budget, server: &HttpServer, limits: Limits) -> Result<Arc<RemoteFile>, Error> {
    let target = Target::Url(server.url("/file").parse().unwrap());
    RemoteFile::open(&session(limits), target, Engine::new(budget))
}

/// A file of some granules, the last of them not whole.
fn content() -> Vec<u8> {
    noise(5 * GRANULE as usize + 1000, 1)
}

/// Reads a piece of [`content`], which must come.
#[track_caller]
fn reads(file: &RemoteFile, offset: u64, len: usize) {
    let expected = &content()[offset as usize..][..len];
    assert_eq!(read(file, offset, len).unwrap(), expected);
}

fn read(file: &RemoteFile, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
    let mut buf = vec![0; len];
    reason(file.fetch(&mut buf, offset, Ask::default())).map(|()| buf)
}

/// The error of this crate that a read failed with.
fn reason(read: Result<Given, ReadError>) -> Result<(), Error> {
    match read {
        Ok(_) => Ok(()),
        Err(ReadError::Io { source, .. }) => {
            let inner = source.source().or(source.get_ref().map(|inner| inner as _));
            Err(inner
                .and_then(|inner| inner.downcast_ref::<Error>())
                .unwrap()
                .clone())
        }
        Err(other) => panic!("{other}"),
    }
}
