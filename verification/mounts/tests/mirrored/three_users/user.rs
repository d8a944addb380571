//! Users: each is a thread with their own ids and groups, since Linux has these per thread.

use std::{
    io::IoSlice,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd},
    sync::mpsc::{Receiver, Sender, channel},
};

use rustix::{
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
    process::{Gid, Uid, umask},
    thread::{
        CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities, set_thread_gid,
        set_thread_groups, set_thread_uid,
    },
};
use verimount_sys::unshare_umask;

use super::{operation::Operation, perform::perform};
use crate::prelude::*;

/// What one side of a comparison shows: a tree and files opened in it.
#[derive(Clone)]
pub(super) struct Side {
    pub(super) root: PathBuf,
    pub(super) open: Vec<Option<Arc<OwnedFd>>>,
}

/// Success, with the file if it opened one, or an error.
pub(super) type Outcome = Result<Option<OwnedFd>, Errno>;

/// The users: three ordinary ones, two with some of root's capabilities, and root.
pub(super) const USERS: [Ids; 6] = [
    Ids::new(1001, &[3001], 0o022),
    Ids::new(1002, &[3001, 3002], 0o002),
    Ids::new(1003, &[], 0),
    Ids {
        capabilities: CapabilitySet::CHOWN.union(CapabilitySet::FOWNER),
        capability_names: "+chown,+fowner",
        ..Ids::new(1004, &[], 0)
    },
    Ids {
        capabilities: CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::FSETID),
        capability_names: "+dac_override,+fsetid",
        ..Ids::new(1005, &[3002], 0)
    },
    Ids {
        uid: 0,
        gid: 0,
        groups: &[],
        umask: 0,
        capabilities: CapabilitySet::all(),
        capability_names: "",
    },
];

/// How many of [`USERS`] have no capabilities.
pub(super) const ORDINARY_USERS: usize = 3;

/// Which of [`USERS`] root is.
pub(super) const ROOT_USER: usize = 5;

#[derive(Debug, Clone, Copy)]
pub(super) struct Ids {
    pub(super) uid: u32,
    gid: u32,
    groups: &'static [u32],
    umask: u32,
    capabilities: CapabilitySet,
    /// As `setpriv` takes them; root has them anyway.
    capability_names: &'static str,
}

impl Ids {
    const fn new(uid: u32, groups: &'static [u32], umask: u32) -> Self {
        Self {
            uid,
            gid: uid + 1000,
            groups,
            umask,
            capabilities: CapabilitySet::empty(),
            capability_names: "",
        }
    }

    /// Whether writing to a file natively leaves its set-ID bits.
    pub(super) fn keeps_set_ids(&self) -> bool {
        self.capabilities.contains(CapabilitySet::FSETID)
    }

    /// Gives the calling thread these ids, with nothing else of root's rights.
    fn assume(&self) {
        unshare_umask().unwrap();
        umask(Mode::from_raw_mode(self.umask));
        let groups: Vec<_> = self.groups.iter().map(|id| Gid::from_raw(*id)).collect();
        set_thread_groups(&groups).unwrap();
        set_thread_gid(Gid::from_raw(self.gid)).unwrap();
        if self.uid != 0 {
            set_keep_capabilities(true).unwrap();
            set_thread_uid(Uid::from_raw(self.uid)).unwrap();
            let sets = CapabilitySets {
                effective: self.capabilities,
                permitted: self.capabilities,
                inheritable: CapabilitySet::empty(),
            };
            set_capabilities(None, sets).unwrap();
        }
    }
}

pub(super) struct User {
    pub(super) ids: Ids,
    jobs: Sender<(Operation, Side)>,
    outcomes: Receiver<Outcome>,
}

impl User {
    pub(super) fn new(ids: Ids) -> Self {
        let (jobs, received) = channel::<(Operation, Side)>();
        let (answers, outcomes) = channel();
        thread::spawn(move || {
            let helper = Helper::new(ids);
            ids.assume();
            for (operation, side) in received {
                let outcome = perform(&operation, &side, &helper);
                drop(side);
                if answers.send(outcome).is_err() {
                    break;
                }
            }
        });
        Self {
            ids,
            jobs,
            outcomes,
        }
    }

    /// Has the user do this.
    pub(super) fn does(&self, operation: &Operation, side: &Side) -> Outcome {
        self.jobs.send((operation.clone(), side.clone())).unwrap();
        self.outcomes.recv().unwrap()
    }
}

/// A process of the same user, see `mapper.py`.
pub(super) struct Helper {
    socket: UnixStream,
    process: Child,
}

impl Helper {
    fn new(ids: Ids) -> Self {
        let (socket, other) = UnixStream::pair().unwrap();
        let setpriv = tools::find("setpriv").expect("util-linux is part of every system");
        let groups: Vec<_> = ids.groups.iter().map(u32::to_string).collect();
        let mut command = Command::new(setpriv);
        // Only root may run programs that root has installed for itself.
        command
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .arg(format!("--reuid={}", ids.uid))
            .arg(format!("--regid={}", ids.gid));
        match groups[..] {
            [] => command.arg("--clear-groups"),
            _ => command.arg(format!("--groups={}", groups.join(","))),
        };
        if !ids.capability_names.is_empty() {
            command
                .args(["--inh-caps", ids.capability_names])
                .args(["--ambient-caps", ids.capability_names]);
        }
        command.args(["--", "python3", "-c", include_str!("mapper.py")]);
        let process = command.stdin(OwnedFd::from(other)).spawn().unwrap();
        Self { socket, process }
    }

    fn ask(&self, command: &[u8], file: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let file: Vec<_> = file.into_iter().collect();
        if !file.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&file)));
        }
        let flags = SendFlags::empty();
        sendmsg(
            &self.socket,
            &[IoSlice::new(command)],
            &mut ancillary,
            flags,
        )
        .unwrap();
        let mut answer = [0; 8];
        let len = (&self.socket).read(&mut answer).unwrap();
        let number = str::from_utf8(&answer[..len]).unwrap().parse().unwrap();
        match number {
            0 => Ok(()),
            number => Err(Errno::from_raw_os_error(number)),
        }
    }

    /// Truncates a file that is not open.
    pub(super) fn truncate(&self, path: &std::path::Path, len: u64) -> Result<(), Errno> {
        let mut command = format!("truncate {len} ").into_bytes();
        command.extend_from_slice(path.as_os_str().as_encoded_bytes());
        self.ask(&command, None)
    }

    /// Stores a byte through a shared mapping.
    pub(super) fn store(&self, file: impl AsFd, byte: u8) -> Result<(), Errno> {
        self.ask(format!("store {byte} ").as_bytes(), Some(file.as_fd()))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let _ = self.process.wait();
    }
}
