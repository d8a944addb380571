//! Random operations: on few names, so that they meet.

use rustix::fs::{IFlags, RenameFlags};

use super::{
    operation::{At, Change, Linked, Made, Object, Operation, SLOTS},
    tree::join,
};
use crate::prelude::*;

const DIRECTORIES: [&str; 5] = ["", "d", "e", "t", "d/s"];
const FILES: [&str; 3] = ["a", "b", "c"];
const NAMES: [&str; 8] = ["a", "b", "c", "l", "n", "d", "s", "t"];

const FILE_MODES: [u32; 12] = [
    0o644, 0o600, 0o666, 0o755, 0o777, 0o000, 0o640, 0o664, 0o444, 0o4755, 0o2775, 0o6777,
];
const DIRECTORY_MODES: [u32; 10] = [
    0o755, 0o777, 0o1777, 0o3777, 0o2777, 0o700, 0o711, 0o770, 0o2775, 0o1770,
];
const UIDS: [u32; 5] = [0, 1001, 1002, 1003, 1004];
const GIDS: [u32; 6] = [0, 2001, 2002, 2003, 3001, 3002];

const ACL_ACCESS: &str = "system.posix_acl_access";
const ACL_DEFAULT: &str = "system.posix_acl_default";

pub(super) struct Generator {
    pub(super) random: Random,
    /// Paths that exist.
    pub(super) known: Vec<String>,
    /// Paths of open files.
    pub(super) open: Vec<String>,
    /// Paths that were changed in the source of late: there, results are most likely to differ.
    pub(super) recent: Vec<String>,
}

impl Generator {
    /// An operation that a user tries through the mount; `open` are the slots in use.
    pub(super) fn attempt(&mut self, open: &[usize]) -> Operation {
        match self.random.below(100) {
            _ if open.is_empty() => self.open(open),
            0..20 => self.open(open),
            20..26 => Operation::Reopen {
                from: self.random.choose(open),
                flags: self.open_flags(),
                slot: self.random.below(SLOTS),
            },
            26..28 => Operation::Close(self.random.choose(open)),
            28..43 => Operation::Change(Object::Name(self.path()), self.change()),
            43..57 => Operation::Change(Object::Open(self.random.choose(open)), self.change()),
            57..63 => Operation::Write {
                slot: self.random.choose(open),
                offset: self.random.below(20) as u64,
                data: self.data(),
            },
            63..66 => self.allocate(open),
            66..69 => Operation::Store {
                slot: self.random.choose(open),
                byte: b'A' + self.random.below(26) as u8,
            },
            69..71 => Operation::ClearAppend(self.random.choose(open)),
            71..94 => self.names(open),
            94..96 => Operation::List(self.random.choose(&DIRECTORIES).to_owned()),
            96..98 => Operation::ReadLink(self.path()),
            _ => Operation::Stat(self.path()),
        }
    }

    /// A change of the source.
    pub(super) fn source_change(&mut self, is_root: bool) -> Operation {
        // What is open is the most likely to be remembered.
        self.recent.clone_from(&self.open);
        match self.random.below(10) {
            0..2 if is_root => {
                let flags = [IFlags::APPEND, IFlags::IMMUTABLE, IFlags::empty()];
                Operation::SetFlags(self.path(), self.random.choose(&flags))
            }
            0..6 => Operation::Change(Object::Name(self.path()), self.change()),
            6 => Operation::Open {
                at: self.at(&[]),
                flags: OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY,
                mode: self.random.choose(&FILE_MODES),
                slot: 0,
            },
            _ => self.names(&[]),
        }
    }

    /// The creation of something with this name.
    pub(super) fn taking(&mut self, at: &At) -> Operation {
        match self.random.below(4) {
            0 => {
                let mode = self.random.choose(&DIRECTORY_MODES);
                Operation::Make(at.clone(), Made::Directory(mode))
            }
            _ => Operation::Open {
                at: at.clone(),
                flags: OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY,
                mode: self.random.choose(&FILE_MODES),
                slot: 0,
            },
        }
    }

    /// Changes that make up a new tree.
    pub(super) fn planting(&mut self) -> Vec<Operation> {
        let mut planted = Vec::new();
        for directory in DIRECTORIES {
            let mode = match directory {
                "" => self.random.choose(&[0o777, 0o1777, 0o3777]),
                "t" => self.random.choose(&[0o1777, 0o3777]),
                _ => self.random.choose(&DIRECTORY_MODES),
            };
            if !directory.is_empty() {
                let at = named(directory.to_owned());
                planted.push(Operation::Make(at, Made::Directory(0o700)));
            }
            for name in FILES {
                if self.random.below(4) > 0 {
                    let path = join(directory, name);
                    planted.extend(self.plant_file(path));
                }
            }
            let link = named(join(directory, "l"));
            planted.push(Operation::Make(link, Made::Link("a".to_owned())));
            let object = || Object::Name(directory.to_owned());
            let owner = Change::Owner(Some(self.uid()), Some(self.gid()));
            planted.push(Operation::Change(object(), owner));
            planted.push(Operation::Change(object(), Change::Mode(mode)));
        }
        planted
    }

    fn plant_file(&mut self, path: String) -> Vec<Operation> {
        let object = || Object::Name(path.clone());
        vec![
            Operation::Open {
                at: named(path.clone()),
                flags: OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY,
                mode: 0o600,
                slot: 0,
            },
            Operation::Change(object(), Change::Length(12)),
            Operation::Change(object(), Change::Owner(Some(self.uid()), Some(self.gid()))),
            Operation::Change(object(), Change::Mode(self.random.choose(&FILE_MODES))),
        ]
    }

    fn uid(&mut self) -> u32 {
        self.random.choose(&UIDS)
    }

    fn gid(&mut self) -> u32 {
        self.random.choose(&GIDS)
    }

    fn path(&mut self) -> String {
        let likely = match self.random.below(8) {
            0..3 => &self.recent,
            3..6 => &self.known,
            _ => return self.any_path(),
        };
        match likely.len() {
            0 => self.any_path(),
            len => likely[self.random.below(len)].clone(),
        }
    }

    fn any_path(&mut self) -> String {
        let directory = self.random.choose(&DIRECTORIES);
        match self.random.below(6) {
            0 if !directory.is_empty() => directory.to_owned(),
            _ => join(directory, self.random.choose(&NAMES)),
        }
    }

    /// A name, sometimes in a directory that is open.
    fn at(&mut self, open: &[usize]) -> At {
        if !open.is_empty() && self.random.below(4) == 0 {
            return At {
                directory: Some(self.random.choose(open)),
                path: self.random.choose(&NAMES).to_owned(),
            };
        }
        named(self.path())
    }

    fn open(&mut self, open: &[usize]) -> Operation {
        let (at, mut flags) = (self.at(open), self.open_flags());
        let special = [
            (OFlags::CREATE, 5),
            (OFlags::CREATE | OFlags::EXCL, 8),
            (OFlags::NOFOLLOW, 8),
            (OFlags::DIRECTORY, 8),
            (OFlags::NOATIME, 12),
        ];
        for (flag, seldom) in special {
            flags.set(flag, flags.contains(flag) || self.random.below(seldom) == 0);
        }
        let (at, flags) = match self.random.below(12) {
            0 => {
                let directory = self.random.choose(&DIRECTORIES).to_owned();
                (named(directory), OFlags::TMPFILE | OFlags::RDWR)
            }
            1..4 => {
                let directory = self.random.choose(&DIRECTORIES).to_owned();
                let how = self.random.choose(&[OFlags::RDONLY, OFlags::PATH]);
                (named(directory), OFlags::DIRECTORY | how)
            }
            _ => (at, flags),
        };
        Operation::Open {
            at,
            flags,
            mode: self.random.choose(&FILE_MODES),
            slot: self.random.below(SLOTS),
        }
    }

    fn open_flags(&mut self) -> OFlags {
        let access = [OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR, OFlags::RDWR];
        let mut flags = self.random.choose(&access);
        flags.set(OFlags::APPEND, self.random.below(4) == 0);
        flags.set(OFlags::TRUNC, self.random.below(8) == 0);
        if self.random.below(8) == 0 {
            flags = OFlags::PATH;
        }
        flags
    }

    fn change(&mut self) -> Change {
        match self.random.below(20) {
            0..6 => Change::Mode(if self.random.coin() {
                self.random.choose(&FILE_MODES)
            } else {
                self.random.choose(&DIRECTORY_MODES)
            }),
            6..10 => match self.random.below(3) {
                0 => Change::Owner(Some(self.uid()), None),
                1 => Change::Owner(None, Some(self.gid())),
                _ => Change::Owner(Some(self.uid()), Some(self.gid())),
            },
            10..13 => Change::Times(self.random.coin().then(|| self.random.below(1000) as i64)),
            13..15 => Change::Length(self.random.below(30) as u64),
            15..17 => Change::Set("user.x", self.data()),
            17 => Change::Remove(self.random.choose(&["user.x", ACL_ACCESS, ACL_DEFAULT])),
            _ => {
                let name = match self.random.below(4) {
                    0 => ACL_DEFAULT,
                    _ => ACL_ACCESS,
                };
                Change::Set(name, self.acl())
            }
        }
    }

    fn allocate(&mut self, open: &[usize]) -> Operation {
        let modes = [
            FallocateFlags::empty(),
            FallocateFlags::KEEP_SIZE,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            FallocateFlags::ZERO_RANGE,
        ];
        Operation::Allocate {
            slot: self.random.choose(open),
            mode: self.random.choose(&modes),
            offset: self.random.below(20) as u64,
            len: 1 + self.random.below(20) as u64,
        }
    }

    /// Something that changes names.
    fn names(&mut self, open: &[usize]) -> Operation {
        match self.random.below(20) {
            0..6 => Operation::Remove {
                at: self.at(open),
                directory: self.random.below(4) == 0,
            },
            6..12 => Operation::Rename {
                from: self.at(open),
                to: self.at(open),
                flags: self.random.choose(&[
                    RenameFlags::empty(),
                    RenameFlags::empty(),
                    RenameFlags::NOREPLACE,
                    RenameFlags::EXCHANGE,
                ]),
            },
            12..16 => Operation::Link {
                from: match open {
                    [_, ..] if self.random.below(3) == 0 => Linked::Open(self.random.choose(open)),
                    _ => Linked::Name(self.at(open)),
                },
                to: self.at(open),
            },
            _ => {
                let made = match self.random.below(3) {
                    0 => Made::Directory(self.random.choose(&DIRECTORY_MODES)),
                    1 => Made::Fifo(self.random.choose(&FILE_MODES)),
                    _ => Made::Link(self.random.choose(&FILES).to_owned()),
                };
                Operation::Make(self.at(open), made)
            }
        }
    }

    fn data(&mut self) -> Vec<u8> {
        let byte = b'a' + self.random.below(26) as u8;
        vec![byte; 1 + self.random.below(8)]
    }

    /// An access control list in the form of the attribute (`linux/posix_acl_xattr.h`).
    fn acl(&mut self) -> Vec<u8> {
        const VERSION: u32 = 2;
        const USER_OBJ: u16 = 0x01;
        const USER: u16 = 0x02;
        const GROUP_OBJ: u16 = 0x04;
        const GROUP: u16 = 0x08;
        const MASK: u16 = 0x10;
        const OTHER: u16 = 0x20;
        const NO_ID: u32 = u32::MAX;
        let mut entries = vec![(USER_OBJ, NO_ID)];
        if self.random.coin() {
            entries.push((USER, self.uid()));
        }
        entries.push((GROUP_OBJ, NO_ID));
        if self.random.coin() {
            entries.push((GROUP, self.gid()));
        }
        if entries.len() > 2 {
            entries.push((MASK, NO_ID));
        }
        entries.push((OTHER, NO_ID));
        let mut acl = VERSION.to_le_bytes().to_vec();
        for (tag, id) in entries {
            let permissions = match tag {
                MASK => 7,
                _ => self.random.choose(&[0, 4, 5, 6, 7]),
            };
            acl.extend(u16::to_le_bytes(tag));
            acl.extend(u16::to_le_bytes(permissions));
            acl.extend(u32::to_le_bytes(id));
        }
        acl
    }
}

fn named(path: String) -> At {
    At {
        directory: None,
        path,
    }
}
