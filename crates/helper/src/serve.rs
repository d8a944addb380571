use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    panic::{self, AssertUnwindSafe},
    sync::Arc,
    thread::{self, Scope},
};

use crate::{
    Answer, Task,
    message::{Question, receive_question, receive_request, send_answer, send_socket},
    pair,
};

/// The most tasks that are done at the same time. Those of a mount are few, and come one by one.
const MAX_AT_ONCE: usize = 16;

/// Does what is asked at `socket` until the process that asks has ended.
pub(crate) fn serve(socket: &OwnedFd, tasks: Vec<Task>) {
    // Each task has a clone as long as it works.
    let working = Arc::new(());
    thread::scope(|scope| {
        while let Ok(true) = receive_request(socket) {
            let asked = ask_back(scope, &tasks, &working);
            // None if there are too many, or the system has no socket or thread for it.
            let _ = send_socket(socket, asked.ok().flatten().as_ref().map(AsFd::as_fd));
        }
    });
    // What they hold is removed now.
    drop(tasks);
}

/// A socket for a question, which is answered in a thread of its own: some tasks take long, as they run programs. `None`
/// while there are too many.
fn ask_back<'scope>(
    scope: &'scope Scope<'scope, '_>,
    tasks: &'scope [Task],
    working: &Arc<()>,
) -> io::Result<Option<OwnedFd>> {
    if Arc::strong_count(working) > MAX_AT_ONCE {
        return Ok(None);
    }
    let (ours, its) = pair()?;
    let working = working.clone();
    thread::Builder::new().spawn_scoped(scope, move || {
        let Ok(question) = receive_question(&ours) else {
            return;
        };
        // A task that panics must not take the others with it.
        let done = panic::catch_unwind(AssertUnwindSafe(|| done(tasks, &question)));
        let failed = |_| Err(io::Error::other("the helper process has failed"));
        let answer = done.unwrap_or_else(failed);
        // The process that asked may have ended.
        let _ = send_answer(&ours, &answer);
        // Before the socket is closed, for which that process waits.
        drop((answer, working));
    })?;
    Ok(Some(its))
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
