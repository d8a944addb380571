//! What a request does not say of its caller, and `/proc` does: groups and capabilities.
//!
//! The caller is a thread that waits for the answer to its request. So its credentials cannot change
//! meanwhile, and its id cannot become another's.

use std::{
    ffi::CStr,
    os::fd::{AsFd, OwnedFd},
    str::FromStr,
    sync::{Arc, OnceLock},
};

use quick_cache::sync::Cache;
use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::{Errno, pread, read},
    process::Gid,
    thread::CapabilitySet,
};

use crate::{Attr, Caller};

/// The longest text that is read, in bytes: with more groups than any process can have.
const MAX_TEXT: usize = 1 << 20;

/// Most texts are shorter, in bytes.
const USUAL_TEXT: usize = 2048;

/// How many callers are remembered. Each takes two descriptors.
const MAX_CALLERS: usize = 64;

/// Finds the credentials of callers.
///
/// Opening a file in `/proc` takes longer than reading it, so that files of recent callers are kept open. They
/// stay those of a thread that has ended, whatever thread has its id then.
#[derive(Debug)]
pub(crate) struct Callers {
    recent: Cache<u32, Arc<Process>>,
    /// The ids of this process's user namespace.
    own: OnceLock<Option<IdMaps>>,
}

/// What `/proc` tells of a thread.
#[derive(Debug)]
struct Process {
    /// `/proc/PID`.
    directory: OwnedFd,
    /// `/proc/PID/status`.
    status: OwnedFd,
}

/// `/proc/PID/uid_map` and `/proc/PID/gid_map`.
#[derive(Debug, PartialEq, Eq)]
struct IdMaps {
    users: String,
    groups: String,
}

/// What the source needs to know of a caller to check its access.
#[derive(Debug)]
pub(crate) struct Credentials {
    /// The supplementary groups.
    pub(crate) groups: Vec<Gid>,
    /// The effective capabilities.
    pub(crate) capabilities: CapabilitySet,
    /// The ids of the caller's user namespace; `None` if it has all.
    pub(crate) ids: Option<MappedIds>,
}

/// The user and group ids that exist in a user namespace. Its capabilities have an effect only on files
/// with such an owner and group.
#[derive(Debug)]
pub(crate) struct MappedIds {
    users: Vec<IdRange>,
    groups: Vec<IdRange>,
}

/// The owner and group of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl From<&Attr> for Owner {
    fn from(attr: &Attr) -> Self {
        let Attr { uid, gid, .. } = *attr;
        Self { uid, gid }
    }
}

/// Ids from `first` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct IdRange {
    first: u32,
    count: u32,
}

/// All ids: those of the initial user namespace.
const ALL_IDS: IdRange = IdRange {
    first: 0,
    count: u32::MAX,
};

impl Default for Callers {
    fn default() -> Self {
        Self {
            recent: Cache::new(MAX_CALLERS),
            own: OnceLock::new(),
        }
    }
}

impl Callers {
    /// The credentials of a caller. `None` if they are not those with which it makes the request: the
    /// process is in another pid namespace, or acts with the rights of somebody else, as overlayfs and
    /// a server in the kernel do.
    pub(crate) fn credentials(&self, caller: Caller) -> Option<Credentials> {
        if caller.pid == 0 {
            return None;
        }
        if let Some(process) = self.recent.get(&caller.pid)
            && let Ok(status) = process.status()
        {
            return self.read(caller, &process, &status);
        }
        let process = Process::open(caller.pid).ok()?;
        let found = self.read(caller, &process, &process.status().ok()?);
        self.recent.insert(caller.pid, Arc::new(process));
        found
    }

    fn read(&self, caller: Caller, process: &Process, status: &str) -> Option<Credentials> {
        let mut lines = status.lines();
        let mut field = |name| lines.find_map(|line| line.strip_prefix(name));
        // In this order. Of real, effective, saved and file system id the last.
        let uid = field("Uid:")?.split_whitespace().next_back()?.parse();
        let gid = field("Gid:")?.split_whitespace().next_back()?.parse();
        if (uid, gid) != (Ok(caller.uid), Ok(caller.gid)) {
            return None;
        }
        let groups = numbers(field("Groups:")?)?;
        let bits = u64::from_str_radix(field("CapEff:")?.trim(), 16).ok()?;
        let capabilities = CapabilitySet::from_bits_retain(bits);
        let ids = if capabilities.is_empty() {
            None
        } else {
            self.ids(IdMaps::of(&process.directory).ok()?)?
        };
        Some(Credentials {
            groups: groups.into_iter().map(Gid::from_raw).collect(),
            capabilities,
            ids,
        })
    }

    /// The ids of a process's user namespace, as this process sees them; `None` inside if it has all.
    fn ids(&self, maps: IdMaps) -> Option<Option<MappedIds>> {
        let own = || {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let own = openat(CWD, c"/proc/self", flags, Mode::empty()).ok()?;
            IdMaps::of(own).ok()
        };
        // Only those who may trace a process learn which namespace it is in. But its ids tell: our own are shown as the
        // namespace around ours sees them, those of another one as we do. So if they are equal, they are all of ours.
        if self.own.get_or_init(own).as_ref() == Some(&maps) {
            Some(None)
        } else {
            MappedIds::parse(&maps)
        }
    }
}

impl IdMaps {
    /// Those of the process in whose directory of `/proc` this is.
    fn of(directory: impl AsFd) -> Result<Self, Errno> {
        let map = |name: &CStr| {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let file = openat(&directory, name, flags, Mode::empty())?;
            text(|buffer, _| read(&file, buffer))
        };
        Ok(Self {
            users: map(c"uid_map")?,
            groups: map(c"gid_map")?,
        })
    }
}

impl Process {
    fn open(pid: u32) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, format!("/proc/{pid}"), flags, Mode::empty())?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let status = openat(&directory, c"status", flags, Mode::empty())?;
        Ok(Self { directory, status })
    }

    /// The present content of `status`.
    fn status(&self) -> Result<String, Errno> {
        text(|buffer, offset| pread(&self.status, buffer, offset))
    }
}

impl MappedIds {
    /// `None` inside if it has all.
    fn parse(maps: &IdMaps) -> Option<Option<Self>> {
        let (users, groups) = (ranges(&maps.users)?, ranges(&maps.groups)?);
        let has_all = users == [ALL_IDS] && groups == [ALL_IDS];
        Some((!has_all).then_some(Self { users, groups }))
    }

    /// Whether both ids of an owner exist in the namespace.
    pub(crate) fn contain(&self, owner: Owner) -> bool {
        self.contain_user(owner.uid) && contain(&self.groups, owner.gid)
    }

    /// Whether a user id exists in the namespace.
    pub(crate) fn contain_user(&self, uid: u32) -> bool {
        contain(&self.users, uid)
    }
}

fn contain(ranges: &[IdRange], id: u32) -> bool {
    ranges.iter().any(|range| range.contains(id))
}

impl IdRange {
    fn contains(self, id: u32) -> bool {
        id.checked_sub(self.first)
            .is_some_and(|index| index < self.count)
    }
}

/// A text that `read` reads from an offset on, up to its end: there it returns less than there is room for.
fn text(read: impl Fn(&mut [u8], u64) -> Result<usize, Errno>) -> Result<String, Errno> {
    let mut text = vec![0; USUAL_TEXT];
    let mut len = 0;
    loop {
        len += read(&mut text[len..], len as u64)?;
        if len < text.len() {
            break;
        }
        if len == MAX_TEXT {
            return Err(Errno::FBIG);
        }
        text.resize((2 * len).min(MAX_TEXT), 0);
    }
    text.truncate(len);
    String::from_utf8(text).map_err(|_| Errno::ILSEQ)
}

fn numbers<T: FromStr>(text: &str) -> Option<Vec<T>> {
    text.split_whitespace()
        .map(|number| number.parse().ok())
        .collect()
}

/// The ranges of a map, of which each line has the first id inside, the first id outside, and how many.
fn ranges(map: &str) -> Option<Vec<IdRange>> {
    let range = |line| match numbers(line)?[..] {
        [_, first, count] => Some(IdRange { first, count }),
        _ => None,
    };
    map.lines().map(range).collect()
}

#[cfg(test)]
mod tests {
    use rustix::{
        process::{getegid, geteuid, getgroups},
        thread::{capabilities, gettid},
    };
    use verimount_testkit::eventually;

    use super::*;

    fn this_thread() -> Caller {
        Caller {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            pid: gettid().as_raw_nonzero().get().cast_unsigned(),
            request: 0,
        }
    }

    #[test]
    fn a_thread_has_its_own_credentials() {
        let callers = Callers::default();
        for _ in 0..2 {
            let found = callers.credentials(this_thread()).unwrap();
            assert_eq!(found.groups, getgroups().unwrap());
            assert_eq!(found.capabilities, capabilities(None).unwrap().effective);
            assert!(found.ids.is_none());
        }
    }

    #[test]
    fn what_is_kept_of_a_thread_that_has_ended_is_not_used() {
        let callers = Callers::default();
        let ended = std::thread::spawn(this_thread).join().unwrap();
        let process = Process::open(this_thread().pid).unwrap();
        callers.recent.insert(ended.pid, Arc::new(process));
        // As if another thread had its id; that of this one stands for it.
        assert!(callers.credentials(ended).is_some());
        let gone = std::thread::spawn(|| Process::open(this_thread().pid).unwrap());
        let gone = Arc::new(gone.join().unwrap());
        // Who joins a thread is woken a moment before it has ended for others.
        eventually("it has ended", || gone.status().is_err());
        let here = this_thread();
        callers.recent.insert(here.pid, gone);
        assert!(callers.credentials(here).is_some());
        assert!(callers.recent.get(&here.pid).unwrap().status().is_ok());
    }

    #[test]
    fn credentials_of_somebody_else_are_not_taken() {
        let caller = this_thread();
        let callers = Callers::default();
        let other = |uid, gid, pid| {
            callers
                .credentials(Caller {
                    uid,
                    gid,
                    pid,
                    request: 0,
                })
                .is_none()
        };
        assert!(other(caller.uid + 1, caller.gid, caller.pid));
        assert!(other(caller.uid, caller.gid + 1, caller.pid));
        assert!(other(caller.uid, caller.gid, 0));
        assert!(other(caller.uid, caller.gid, u32::MAX));
    }

    #[test]
    fn ids_outside_of_a_namespace_are_not_contained() {
        let ids = MappedIds {
            users: ranges("0 100000 65536\n70000 1000 1\n").unwrap(),
            groups: ranges("         0          0 4294967295\n").unwrap(),
        };
        let contain = |uid| ids.contain(Owner { uid, gid: 0 });
        for uid in [100_000, 165_535, 1000] {
            assert!(contain(uid), "{uid}");
        }
        for uid in [0, 999, 1001, 99_999, 165_536, u32::MAX] {
            assert!(!contain(uid), "{uid}");
        }
        assert_eq!(ids.groups, [ALL_IDS]);
        assert!(!ids.contain(Owner {
            uid: 1000,
            gid: u32::MAX
        }));
    }

    #[test]
    fn malformed_maps_are_refused() {
        for map in ["0 0\n", "0 0 1 2\n", "0 0 x\n", "0 0 -1\n"] {
            assert_eq!(ranges(map), None, "{map:?}");
        }
    }
}
