use std::{
    fs::File,
    io,
    os::fd::OwnedFd,
    process,
    sync::{Arc, atomic::AtomicBool},
};

use rustix::{
    process::chdir,
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use verimount_sys::{HeldSignals, take_inherited};

/// The signals that ask processes to end. They are for the one that this is a copy of, at the end of which this one ends; terminals
/// and service managers send them to both.
pub(crate) const SIGNALS: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];

/// Does the work of a new process, and ends it. `others` is the other process's end of the sockets, and [`SIGNALS`] are held back
/// until now.
pub(crate) fn run(others: OwnedFd, held: HeldSignals, work: impl FnOnce()) -> ! {
    // Otherwise this process would keep itself alive.
    drop(others);
    if ignore(held).and_then(|()| let_go()).is_ok() {
        work();
    }
    process::exit(0)
}

/// Ignores [`SIGNALS`], which need not be held back any longer.
fn ignore(held: HeldSignals) -> io::Result<()> {
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in SIGNALS {
        // A handler, as programs that are run would inherit that a signal is ignored.
        signal_hook::flag::register(signal, ignored.clone())?;
    }
    drop(held);
    Ok(())
}

/// Lets go of the working directory and of all files that were inherited.
fn let_go() -> io::Result<()> {
    chdir("/")?;
    drop(take_inherited()?);
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    Ok(dup2_stderr(&nothing)?)
}
