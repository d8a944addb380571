use std::io;

use rustix::process::setsid;

use crate::{Answer, Task, ask};

const NAME: &str = "detach";

/// The task of leaving the session, which every helper has.
pub(crate) fn leaving() -> Task {
    Task::new(NAME, |_| {
        // Fails only in the leader of a group, which a helper becomes by this.
        let _ = setsid();
        Ok(Answer::default())
    })
}

/// Has the helper of this process, if there is one, leave the session and the process group that it was started in.
///
/// Before, the kernel takes it for a part of the automounter for which this process mounts: autofs knows that by the
/// process group, and lets all others wait for the mount at each look-up of the mount point. So it comes last, when all
/// is mounted and nothing can fail.
///
/// # Errors
/// If the helper has ended.
pub fn detach() -> io::Result<()> {
    ask(NAME, &[]).map_or(Ok(()), |answer| answer.map(drop))
}
