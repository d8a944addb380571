//! The signals that ask a server to end, or to read its configuration again.

use std::{fs::File, io, thread, time::Duration};

use rustix::io::Errno;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::{Handle, Signals},
};

/// Called on SIGHUP.
pub type Reload = Box<dyn FnMut() + Send>;

/// How often the terminal is looked at after SIGHUP: the kernel sends the signal first, and then takes the
/// terminal away.
const LOOKS: u32 = 10;

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// The signals of a server: SIGTERM and SIGINT ask it to end. SIGHUP makes it reload what there is to reload; it
/// asks it to end only if the terminal that it was started at is gone.
pub struct EndSignals {
    signals: Signals,
    terminal: Option<Terminal>,
    /// What SIGHUP reloads.
    pub reload: Option<Reload>,
    /// What is dropped when the first signal asks to end, or with this if none comes.
    pub until_end: Option<Box<dyn Send>>,
}

impl EndSignals {
    /// Takes these signals from now on. The server ends with `terminal`, if it has one.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(terminal: Option<Terminal>) -> io::Result<Self> {
        Ok(Self {
            signals: Signals::new([SIGTERM, SIGINT, SIGHUP])?,
            terminal,
            reload: None,
            until_end: None,
        })
    }

    /// A handle that ends [`Self::wait`].
    pub fn handle(&self) -> Handle {
        self.signals.handle()
    }

    /// Waits for the next signal that asks to end; `None` when the handle is closed.
    pub fn wait(&mut self) -> Option<i32> {
        let asks_to_end = |signal: &i32| {
            if *signal != SIGHUP {
                return true;
            }
            if let Some(reload) = &mut self.reload {
                reload();
            }
            self.terminal.as_ref().is_some_and(Terminal::hangs_up)
        };
        let signal = self.signals.forever().find(asks_to_end);
        self.until_end = None;
        signal
    }
}

/// The terminal that this process was started at: its controlling terminal.
#[derive(Debug)]
pub struct Terminal(());

impl Terminal {
    /// The file by which it is found to be gone.
    pub const PATH: &str = "/dev/tty";

    /// The terminal of this process, if it has one.
    pub fn controlling() -> Option<Self> {
        open().is_ok().then_some(Self(()))
    }

    /// Whether it is gone, or goes within a moment.
    fn hangs_up(&self) -> bool {
        (0..LOOKS).any(|look| {
            if look > 0 {
                thread::sleep(PAUSE);
            }
            // Any other error, such as too few descriptors, says nothing of the terminal.
            open().is_err_and(|error| Errno::from_io_error(&error) == Some(Errno::NXIO))
        })
    }
}

fn open() -> io::Result<File> {
    File::open(Terminal::PATH)
}
