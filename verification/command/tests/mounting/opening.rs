//! Signals while a mount waits for what it opens.

use std::sync::atomic::Ordering::SeqCst;

use super::is_empty;
use crate::prelude::*;
use crate::progress::OnTerminal;

/// A server of an image that answers nothing for a while.
pub(super) struct SlowServer {
    server: HttpServer,
    answers: Arc<AtomicBool>,
}

impl SlowServer {
    pub(super) fn new(world: &World) -> Self {
        let image = fs::read(world.sealed_image("image")).unwrap();
        let answers = Arc::new(AtomicBool::new(false));
        let begins = answers.clone();
        let server = HttpServer::start(image, move |_, _, right| {
            eventually("it answers", || begins.load(SeqCst));
            right
        });
        Self { server, answers }
    }

    pub(super) fn url(&self) -> String {
        self.server.url("/image")
    }

    /// Waits until somebody waits for it.
    #[track_caller]
    pub(super) fn is_asked(&self) {
        eventually("it is asked", || !self.server.requests().is_empty());
    }

    /// Answers everything from now on.
    pub(super) fn answers(&self) {
        self.answers.store(true, SeqCst);
    }
}

/// A mount at a terminal whose server is asked, and which Ctrl-C has reached.
fn interrupted(world: &World, server: &SlowServer, options: &str) -> Option<OnTerminal> {
    let arguments = format!(
        "mount {options} --unpinned --no-cache '{}' '{}'",
        server.url(),
        world.path("mnt").to_str().unwrap()
    );
    let mut terminal = OnTerminal::start(&arguments)?;
    server.is_asked();
    terminal.press_control_c();
    // The terminal shows it after all processes in front have got the signal.
    terminal.shows("^C");
    Some(terminal)
}

/// The daemon unmounts as soon as it has mounted, with the help of a process that got the signal as well.
#[test]
fn ctrl_c_in_the_foreground_ends_it_in_order() {
    let world = needs!(World::with_mount_point());
    let server = SlowServer::new(&world);
    let terminal = needs!(interrupted(&world, &server, "--foreground"));
    server.answers();
    let (shown, code) = terminal.ends();
    assert_eq!(code, Some(0), "{shown}");
    assert!(is_empty(&world.path("mnt")), "{shown}");
}

/// The command is gone at once, and its terminal, too. The daemon notices when it would be ready.
#[test]
fn ctrl_c_for_a_daemon_leaves_nothing() {
    let world = needs!(World::with_mount_point());
    let mnt = world.path("mnt");
    let server = SlowServer::new(&world);
    let terminal = needs!(interrupted(&world, &server, ""));
    let (shown, code) = terminal.ends();
    assert_eq!(code, Some(128 + Signal::INT.as_raw()), "{shown}");
    server.answers();
    eventually("the daemon ends", || processes_of(&mnt).is_empty());
    assert!(is_empty(&mnt));
}
