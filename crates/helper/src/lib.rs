//! A process that does for a sandboxed one what the sandbox forbids, and nothing else.
//!
//! [`start`] makes it, with the list of its [`Task`]s; [`ask`] names one of them. It is a copy of the process that starts
//! it, made while that has a single thread and has read nothing of others. It ends when that process ends. Until [`detach`],
//! it is in the same session and process group.

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod apart;
mod message;
mod removal;
mod serve;
mod session;
mod task;

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::OnceLock,
};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use verimount_sys::{Forked, HeldSignals, fork};

pub use message::receive_file;
pub use removal::{remove_file, removing};
pub use session::detach;
pub use task::{Answer, Task};

/// The socket to the helper of this process.
static HELPER: OnceLock<OwnedFd> = OnceLock::new();

/// Starts the helper of this process, which must have one thread only. From now on, [`ask`] asks it.
///
/// # Errors
/// An error if there are other threads, or a helper; otherwise the system's.
pub fn start(mut tasks: Vec<Task>) -> io::Result<()> {
    tasks.push(session::leaving());
    let socket = fork_apart(|socket| serve::serve(&socket, tasks))?;
    let second = |_| io::Error::other("the process has a helper already");
    HELPER.set(socket).map_err(second)
}

/// Makes a copy of this process, which must have one thread only, that does this `work` at one end of a pair of sockets and then
/// ends. Returns the other end. The sockets keep the borders of messages, and show the end of either process.
///
/// # Errors
/// An error if there are other threads; otherwise the system's.
pub fn fork_apart(work: impl FnOnce(OwnedFd)) -> io::Result<OwnedFd> {
    let (ours, its) = pair()?;
    // Until the new process has its handlers.
    let held = HeldSignals::hold(&apart::SIGNALS)?;
    match fork()? {
        Forked::Child => apart::run(ours, held, || work(its)),
        Forked::Parent => Ok(ours),
    }
}

/// Whether this process has a helper.
pub fn is_started() -> bool {
    HELPER.get().is_some()
}

/// Has the helper do the task with this name; `None` if this process has no helper, and can do it itself.
///
/// # Errors
/// Those of the task, with their kind and text; an error if the helper has ended.
pub fn ask(task: &str, question: &[u8]) -> Option<io::Result<Answer>> {
    let helper = HELPER.get()?;
    Some(ask_at(helper, task, question))
}

/// Has the helper do the task with this name, which opens a file; `None` if this process has no helper, and can do it
/// itself.
///
/// # Errors
/// As [`ask`], and an error if the helper has sent no file.
pub fn ask_for_file(task: &str, question: &[u8]) -> Option<io::Result<OwnedFd>> {
    let answer = ask(task, question)?;
    let none = || io::Error::other("the helper process has sent no file");
    Some(answer.and_then(|answer| answer.file.ok_or_else(none)))
}

fn ask_at(helper: impl AsFd, task: &str, question: &[u8]) -> io::Result<Answer> {
    // Each question has a socket of its own, as answers may take long.
    let ours = message::request_socket(helper)?;
    message::send_question(&ours, task, question)?;
    let answer = message::receive_answer(&ours);
    // The helper has closed its own copy of a file then, so that nobody but this process keeps it open.
    message::wait_for_end(&ours);
    answer
}

/// A pair of connected sockets that keep the borders of messages.
fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::SEQPACKET;
    Ok(socketpair(
        AddressFamily::UNIX,
        kind,
        SocketFlags::CLOEXEC,
        None,
    )?)
}
