//! Checks that the server makes while clients use the disk.

use std::{ops::ControlFlow, path::Path, time::Duration};

use verimount_nbd::{AskError, Limits, Server, ask_check, ask_status};

use super::{
    client::Client,
    world::{Disk, STATUS, serving_at, serving_at_within},
};

/// How long an answer may take: far more than it does.
const PATIENCE: Duration = Duration::from_secs(60);

/// A disk whose check never ends by itself.
fn endless() -> Disk {
    Disk {
        messages: u64::MAX,
        ..Disk::default()
    }
}

/// Asks for a check, and calls `then` with the first message; then cancels it.
fn begin(socket: &Path, then: impl FnOnce()) -> Result<(), AskError> {
    let mut then = Some(then);
    ask_check(
        socket,
        PATIENCE,
        &mut |message| match message.and(then.take()) {
            Some(then) => {
                then();
                ControlFlow::Break(())
            }
            None => ControlFlow::Continue(()),
        },
    )
}

#[test]
fn all_that_a_check_finds_is_told() {
    serving_at(Disk::default(), |socket, _| {
        let mut client = Client::connect(socket).goes();
        let mut told = Vec::new();
        let checked = ask_check(socket, PATIENCE, &mut |message| {
            // Others use the disk meanwhile.
            assert!(client.reads(0, 1).is_ok());
            told.extend(message.map(<[u8]>::to_vec));
            ControlFlow::Continue(())
        });
        checked.unwrap();
        assert_eq!(told, [0_u64, 1, 2].map(u64::to_be_bytes));
    });
}

#[test]
fn one_check_at_a_time() {
    serving_at(endless(), |socket, _| {
        let cancelled = begin(socket, || {
            let second = begin(socket, || {});
            assert!(matches!(second, Err(AskError::Checking)), "{second:?}");
        });
        assert!(matches!(cancelled, Err(AskError::Cancelled)));
        // The server notices that the first one has left.
        while matches!(begin(socket, || {}), Err(AskError::Checking)) {}
    });
}

/// However many clients there are, those who only look find a place.
#[test]
fn status_and_checks_have_places_of_their_own() {
    let limits = Limits {
        clients: 2,
        visitors: 2,
        ..Limits::default()
    };
    serving_at_within(limits, endless(), |socket, _| {
        let _clients = [0, 1].map(|_| Client::connect(socket).goes());
        let checked = begin(socket, || {
            assert_eq!(ask_status(socket, None, PATIENCE).unwrap().status, STATUS);
        });
        assert!(matches!(checked, Err(AskError::Cancelled)), "{checked:?}");
    });
}

#[test]
fn a_server_that_is_stopped_ends_a_check() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let server = Server::bind(&socket).unwrap();
    let disk = endless();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve(&disk, std::num::NonZeroUsize::MIN));
        let checked = ask_check(&socket, PATIENCE, &mut |_| {
            server.stop();
            ControlFlow::Continue(())
        });
        assert!(matches!(checked, Err(AskError::Ended)), "{checked:?}");
        serving.join().unwrap();
    });
}
