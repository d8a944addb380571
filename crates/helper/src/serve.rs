use std::{
    fs::File,
    io,
    os::fd::OwnedFd,
    panic::{self, AssertUnwindSafe},
    process,
    sync::{Arc, atomic::AtomicBool},
    thread::{self, Scope},
};

use rustix::{
    process::chdir,
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use verimount_sys::{HeldSignals, take_inherited};

use crate::{
    Answer, Task,
    message::{Question, receive_question, send_answer},
};

/// The most tasks that are done at the same time. Those of a mount are few, and come one by one.
const MAX_AT_ONCE: usize = 16;

/// The signals that ask processes to end. They are for the one that asks, at the end of which this one ends; terminals and
/// service managers send them to both.
pub(crate) const SIGNALS: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];

/// Does what is asked at `socket` until the process that asks has ended. `others` is that process's end of it, and
/// [`SIGNALS`] are held back until now.
pub(crate) fn serve(socket: OwnedFd, others: OwnedFd, held: HeldSignals, tasks: Vec<Task>) -> ! {
    // Otherwise this process would keep itself alive.
    drop(others);
    if ignore(held).and_then(|()| let_go()).is_ok() {
        // Each task has a clone as long as it works.
        let working = Arc::new(());
        thread::scope(|scope| {
            while let Ok(Some(question)) = receive_question(&socket) {
                answer(scope, &tasks, question, &working);
            }
        });
        // What they hold is removed now.
        drop(tasks);
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

/// Answers in a thread of its own: some tasks take long, as they run programs.
fn answer<'scope>(
    scope: &'scope Scope<'scope, '_>,
    tasks: &'scope [Task],
    question: Question,
    working: &Arc<()>,
) {
    if Arc::strong_count(working) > MAX_AT_ONCE {
        let busy = Err(io::Error::other("the helper process is busy"));
        let _ = send_answer(&question.answer_to, &busy);
        return;
    }
    let working = working.clone();
    // Without a thread the socket for the answer is closed, which is an answer as well.
    let _ = thread::Builder::new().spawn_scoped(scope, move || {
        // A task that panics must not take the others with it.
        let done = panic::catch_unwind(AssertUnwindSafe(|| done(tasks, &question)));
        let failed = |_| Err(io::Error::other("the helper process has failed"));
        let answer = done.unwrap_or_else(failed);
        // The process that asked may have ended.
        let _ = send_answer(&question.answer_to, &answer);
        // Before the socket is closed, for which that process waits.
        drop((answer, working));
    });
}

fn done(tasks: &[Task], question: &Question) -> io::Result<Answer> {
    let (name, given) = question.parts().ok_or(io::ErrorKind::InvalidData)?;
    let task = tasks.iter().find(|task| task.name == name);
    let task = task.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the helper process may not do that",
        )
    })?;
    (task.run)(given)
}
