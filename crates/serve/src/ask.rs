//! Queries the status of mounts and exports.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use thiserror::Error;
use verimount_mount::{DaemonEnd, NoAnswer};
use verimount_nbd::client::{Reply, Until, ask, connect, leave, read_reply};
use verimount_sys::{Listener, listener};

use crate::{
    Status,
    export_options::{MAX_STATUS, STATUS},
};

/// Why there is no status.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AskError {
    /// The mount does not tell it.
    #[error(transparent)]
    Mount(#[from] NoAnswer),
    /// It is not an export of Verimount.
    #[error("it is not a verimount export")]
    NotOurs,
    /// Nobody listens at the socket any longer.
    #[error("nobody serves it, as its process has ended: serve again, or remove the socket")]
    DeadExport,
    /// The export has its maximum number of clients, so its status cannot be queried.
    #[error("the maximum number of clients is connected; try again later")]
    Full,
    /// It is being checked for somebody else.
    #[error("it is being checked already")]
    Checking,
    /// It ended before its check was finished.
    #[error("the check ended early: the export was ended, or it could not go on")]
    Ended,
    /// Nothing of it is verified, so that a check would find nothing.
    #[error("it is not checked: {0}; check the volume when it is closed")]
    Unchecked(String),
    /// The caller has cancelled a check.
    #[error("cancelled")]
    Cancelled,
    /// The system's error.
    #[error(transparent)]
    System(#[from] io::Error),
    /// Its answer is not a status.
    #[error("its status: {0}")]
    NoStatus(#[from] serde_json::Error),
}

/// The status of the mount on `directory`.
///
/// # Errors
/// [`AskError::Mount`] and [`AskError::NoStatus`].
pub fn ask_mount(directory: &Path) -> Result<Status, AskError> {
    let status = verimount_mount::ask_mount(directory)?;
    Ok(serde_json::from_slice(&status)?)
}

/// An export's status, and the process that sent it.
#[derive(Debug)]
pub struct Export {
    /// Its status.
    pub status: Status,
    listener: Listener,
}

/// The status of the export at `socket`, which must answer within `time`. If it must be a process of
/// `user`, no other is asked.
///
/// # Errors
/// Any [`AskError`] of exports; [`AskError::NotOurs`] for another user's, too.
pub fn ask_export(socket: &Path, user: Option<u32>, time: Duration) -> Result<Export, AskError> {
    let stream = connected(socket)?;
    let listener = listener(&stream)?;
    if user.is_some_and(|user| user != listener.user) {
        return Err(AskError::NotOurs);
    }
    let status = told_status(&mut Until::new(&stream, time))?;
    Ok(Export {
        status: serde_json::from_slice(&status)?,
        listener,
    })
}

fn told_status(server: &mut (impl Read + Write)) -> Result<Vec<u8>, AskError> {
    choose(server, STATUS)?;
    // Another server may close the connection on an unknown option.
    let reply = read_reply(server, STATUS, MAX_STATUS);
    let Reply::Told(status) = reply.map_err(|error| AskError::of(error, AskError::NotOurs))? else {
        return Err(AskError::NotOurs);
    };
    leave(server);
    Ok(status)
}

/// A connection to the export at `socket`.
pub(crate) fn connected(socket: &Path) -> Result<UnixStream, AskError> {
    connect(socket).map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => AskError::DeadExport,
        _ => error.into(),
    })
}

/// Asks an export for one of [our options](crate::export_options).
pub(crate) fn choose(server: &mut (impl Read + Write), option: u32) -> Result<(), AskError> {
    ask(server, option).map_err(|error| AskError::of(error, AskError::Full))
}

impl AskError {
    /// What an error of a connection means. If it has ended, that means `ended`.
    pub(crate) fn of(error: io::Error, ended: Self) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => ended,
            io::ErrorKind::InvalidData => Self::NotOurs,
            _ => error.downcast().unwrap_or_else(Self::System),
        }
    }
}

impl Export {
    /// A handle to wait for the end of the serving process. The process id is the kernel's, as the
    /// export could claim any.
    pub fn end(&self) -> Option<DaemonEnd> {
        let daemon = self.status.served.daemon?;
        daemon.numbered(self.listener.process?).end()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::Shutdown;

    use super::*;
    use crate::export_options::CHECK;

    pub(crate) const ACK: u32 = 1;
    pub(crate) const ERR_UNSUP: u32 = 1 << 31 | 1;
    pub(crate) const ERR_POLICY: u32 = 1 << 31 | 2;

    /// A reply to an option as it is sent.
    pub(crate) fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
        let numbers = [option, kind, data.len() as u32].map(u32::to_be_bytes);
        let magic = 0x0003_e889_0455_65a9_u64.to_be_bytes();
        [&magic[..], numbers.as_flattened(), data].concat()
    }

    /// What comes of `ask` if the server sends these bytes, whatever it receives.
    fn when_told<T>(bytes: &[u8], ask: impl FnOnce(&mut UnixStream) -> T) -> T {
        let (mut client, mut server) = UnixStream::pair().unwrap();
        server.write_all(bytes).unwrap();
        server.shutdown(Shutdown::Write).unwrap();
        ask(&mut client)
    }

    #[test]
    fn only_a_status_is_accepted() {
        let asked = |reply: &[u8]| {
            let said = [b"NBDMAGICIHAVEOPT\0\x03", reply].concat();
            when_told(&said, told_status)
        };
        assert_eq!(asked(&reply(STATUS, STATUS, b"ok")).unwrap(), b"ok");
        let left = when_told(b"", told_status);
        assert!(matches!(left, Err(AskError::Full)), "{left:?}");
        for wrong in [
            reply(STATUS, ERR_UNSUP, b""),
            reply(STATUS, ACK, b"ok"),
            reply(CHECK, CHECK, b"ok"),
            reply(STATUS, STATUS, &[0; MAX_STATUS as usize + 1]),
            // Another server ends the connection.
            Vec::new(),
        ] {
            let asked = asked(&wrong);
            assert!(matches!(asked, Err(AskError::NotOurs)), "{asked:?}");
        }
    }
}
