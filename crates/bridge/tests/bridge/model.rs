//! Two users concurrently do random operations on names: nothing that the policy denies is ever read or
//! changed.
//!
//! A file's permission bits record what its path denied to each user when it was created; nothing here
//! changes them. So any open file shows what must stay denied, whatever its names are now.
//! [`Case::denies`] knows the rules independently of the policy.

use std::{
    collections::BTreeMap,
    fs::{self, File, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

use rustix::{
    fs::{FileType, OFlags, RenameFlags, fstat},
    io::{Errno, ReadWriteFlags},
};
use verimount_bridge::{
    BridgedFile, Caller, Changes, DeviceNumber, NewFile, NodeId, Passthrough,
    policy::{Access, Policy},
};

use crate::{
    kernel::ToKernel,
    support::{Bench, Dice},
};

/// The number of operations of all users in each case; overridden by `VERIMOUNT_POLICY_OPERATIONS`.
const OPERATIONS: usize = 2000;

/// The number of operations in a round.
const ROUND: usize = 400;

const USERS: [u32; 2] = [1001, 1002];

/// Each user has two threads.
const THREADS: usize = 4;

/// The initial directories, each with a file of each name. Others appear only by moves.
const DIRECTORIES: [&str; 10] = [
    "pub",
    "pub/d",
    "secrets",
    "secrets/d",
    "fixed",
    "fixed/d",
    "one",
    "one/d",
    "pub/keys",
    "pub/d/e",
];

/// The directories where most operations are allowed.
const FREE: [&str; 4] = ["pub", "pub/d", "pub/keys", "pub/d/e"];

/// Where directories may be later; the first is the source itself.
const MOVED: [&str; 8] = ["", "", "d", "e", "pub/d/d", "secrets/e", "fixed/e", "one/e"];

const FILES: [&str; 3] = ["a", "b", "x.key"];

/// A policy, and its meaning expressed independently.
struct Case {
    policy: &'static str,
    denies: fn(uid: u32, access: Access, path: &str) -> bool,
}

const DENIED: Case = Case {
    policy: r#"
        [[rule]]
        action = "deny"
        path = "secrets/**"
        [[rule]]
        action = "deny"
        access = "write"
        path = "fixed/**"
        [[rule]]
        action = "deny"
        path = "one/**"
        caller_uid = 1001
        [[rule]]
        action = "deny"
        path = "**/*.key"
    "#,
    denies: |uid, access, path| {
        path.starts_with("secrets/")
            || path.starts_with("fixed/") && access == Access::Write
            || path.starts_with("one/") && uid == 1001
            || path.ends_with(".key")
    },
};

/// An allow list: everything else is denied. One size condition does not affect the other rules, and one
/// allows before them.
const ALLOWED: Case = Case {
    policy: r#"
        default = "deny"
        [[rule]]
        action = "deny"
        path = "**/*.key"
        size = "0.."
        [[rule]]
        action = "relay"
        path = ["pub/**", "d/**", "e/**"]
        [[rule]]
        action = "passthrough"
        path = "fixed/**"
        access = "read"
        [[rule]]
        action = "relay"
        path = "one/**"
        caller_uid = 1002
    "#,
    denies: |uid, access, path| {
        let is_free = ["pub/", "d/", "e/"]
            .iter()
            .any(|free| path.starts_with(free))
            || path.starts_with("fixed/") && access == Access::Read
            || path.starts_with("one/") && uid == 1002;
        !is_free || path.ends_with(".key")
    },
};

impl Case {
    /// What a path denies to each user, as bits.
    fn denials(&self, path: &str) -> u32 {
        let all = USERS.iter().flat_map(|uid| {
            [Access::Read, Access::Write].map(|access| (self.denies)(*uid, access, path))
        });
        all.enumerate()
            .fold(0, |bits, (bit, denied)| bits | u32::from(denied) << bit)
    }

    /// The permission bits that record this; the owner's are unchanged.
    fn mode(&self, path: &str) -> u32 {
        0o600 | self.denials(path)
    }
}

/// Whether a file that was created with these permission bits was denied to a user.
fn was_denied(mode: u32, uid: u32, access: Access) -> bool {
    let user = USERS.iter().position(|user| *user == uid).unwrap();
    mode >> (2 * user + usize::from(access == Access::Write)) & 1 == 1
}

/// The actions of a user.
struct User<'a> {
    bench: &'a Bench,
    case: &'a Case,
    caller: Caller,
    dice: Dice,
    /// Files that were looked up earlier: the kernel does not look up each name again.
    known: Vec<NodeId>,
    /// The number of operations of all users that had an effect.
    done: &'a AtomicUsize,
}

/// A directory that was looked up, and the name in it.
struct Place {
    /// The nodes of the path; the last one is the directory.
    way: Vec<NodeId>,
    name: &'static str,
    path: String,
}

impl Place {
    fn parent(&self) -> NodeId {
        self.way.last().copied().unwrap_or(NodeId::ROOT)
    }
}

impl User<'_> {
    /// Somewhere that the directories may have been moved to.
    fn directory(&mut self) -> &'static str {
        match self.dice.below(6) {
            0 => self.dice.one_of(&MOVED),
            1..4 => self.dice.one_of(&FREE),
            _ => self.dice.one_of(&DIRECTORIES),
        }
    }

    fn place(&mut self, names: &[&'static str]) -> Result<Place, Errno> {
        let directory = self.directory();
        let name = self.dice.one_of(names);
        let mut place = Place {
            way: Vec::new(),
            name,
            path: Path::new(directory).join(name).to_str().unwrap().to_owned(),
        };
        for step in Path::new(directory) {
            match self.bench.bridge.lookup(place.parent(), step) {
                Ok(entry) => place.way.push(entry.node),
                Err(errno) => {
                    self.forget(place);
                    return Err(errno);
                }
            }
        }
        Ok(place)
    }

    fn forget(&self, place: Place) {
        for node in place.way {
            self.bench.bridge.forget(node, 1);
        }
    }

    /// Does a random operation on a place.
    fn at<T>(
        &mut self,
        names: &[&'static str],
        work: impl FnOnce(&mut Self, &Place) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let place = self.place(names)?;
        let done = work(self, &place);
        self.forget(place);
        done
    }

    /// A file: one just found, or one found before.
    fn file(&mut self) -> Result<NodeId, Errno> {
        if self.known.len() > 4 || !self.known.is_empty() && self.dice.below(2) == 0 {
            let index = self.dice.below(self.known.len());
            return Ok(self.known.swap_remove(index));
        }
        self.at(&FILES, |user, place| {
            let found = user
                .bench
                .bridge
                .lookup(place.parent(), place.name.as_ref());
            found.map(|entry| entry.node)
        })
    }

    fn with_file<T>(
        &mut self,
        work: impl FnOnce(&mut Self, NodeId) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let node = self.file()?;
        let done = work(self, node);
        match self.dice.below(2) {
            0 => self.known.push(node),
            _ => self.bench.bridge.forget(node, 1),
        }
        done
    }

    fn step(&mut self) {
        let done = match self.dice.below(16) {
            0 | 1 => self.link(),
            2..5 => self.rename(&FILES),
            5..8 => self.rename(&["d", "e", "keys", "pub", "one", "fixed", "secrets"]),
            8 => self.make(),
            9 => self.create(),
            10 => self.unlink(),
            11 => self.truncate(),
            12 => self.open(OFlags::RDWR | OFlags::TRUNC),
            13 => self.open(OFlags::RDWR),
            14 => self.open(OFlags::RDONLY),
            _ => self.make_directory(),
        };
        match done {
            Ok(()) => drop(self.done.fetch_add(1, Relaxed)),
            Err(
                Errno::ACCESS
                | Errno::NOENT
                | Errno::EXIST
                | Errno::STALE
                | Errno::NOTDIR
                | Errno::ISDIR
                | Errno::INVAL
                | Errno::NOTEMPTY
                | Errno::PERM
                | Errno::OPNOTSUPP,
            ) => {}
            Err(errno) => panic!("{errno}"),
        }
    }

    fn link(&mut self) -> Result<(), Errno> {
        self.with_file(|user, node| {
            user.at(&FILES, |user, to| {
                let (bridge, name) = (&user.bench.bridge, to.name.as_ref());
                let made = bridge.link(user.caller, node, to.parent(), name)?;
                bridge.forget(made.node, 1);
                Ok(())
            })
        })
    }

    fn rename(&mut self, names: &[&'static str]) -> Result<(), Errno> {
        let flags = match self.dice.below(3) {
            0 => RenameFlags::EXCHANGE,
            1 => RenameFlags::NOREPLACE,
            _ => RenameFlags::empty(),
        };
        self.at(names, |user, from| {
            user.at(names, |user, to| {
                let [old, new] = [from, to].map(|place| (place.parent(), place.name.as_ref()));
                user.bench.bridge.rename(user.caller, old, new, flags)
            })
        })
    }

    fn make(&mut self) -> Result<(), Errno> {
        self.at(&FILES, |user, place| {
            let (new, device) = (user.new_file(place), DeviceNumber { major: 0, minor: 0 });
            let (parent, name) = (place.parent(), place.name.as_ref());
            let bridge = &user.bench.bridge;
            let made = bridge.mknod(parent, name, new, FileType::RegularFile, device)?;
            bridge.forget(made.node, 1);
            Ok(())
        })
    }

    fn create(&mut self) -> Result<(), Errno> {
        self.at(&FILES, |user, place| {
            let new = user.new_file(place);
            let bridge = &user.bench.bridge;
            let (made, file) =
                bridge.create(place.parent(), place.name.as_ref(), new, OFlags::RDWR)?;
            file.write(b"new", 0, ReadWriteFlags::empty())?;
            drop(file);
            bridge.forget(made.node, 1);
            Ok(())
        })
    }

    /// The mode of a new file at a place. If the directory has moved meanwhile, the file may be denied less
    /// than its mode says, which cannot be detected, or more, which the policy enforces.
    fn new_file(&self, place: &Place) -> NewFile {
        NewFile {
            caller: self.caller,
            mode: match (self.case.denies)(self.caller.uid, Access::Write, &place.path) {
                // If it is made all the same, nothing is said of it.
                true => 0o600,
                false => self.case.mode(&place.path),
            },
            umask: 0,
        }
    }

    fn make_directory(&mut self) -> Result<(), Errno> {
        self.at(&["d", "e"], |user, place| {
            let new = NewFile {
                mode: 0o700,
                ..user.new_file(place)
            };
            let (parent, name) = (place.parent(), place.name.as_ref());
            let made = user.bench.bridge.mkdir(parent, name, new)?;
            user.bench.bridge.forget(made.node, 1);
            Ok(())
        })
    }

    fn unlink(&mut self) -> Result<(), Errno> {
        self.at(&FILES, |user, place| {
            let (parent, name) = (place.parent(), place.name.as_ref());
            user.bench.bridge.unlink(user.caller, parent, name)
        })
    }

    fn truncate(&mut self) -> Result<(), Errno> {
        self.with_file(|user, node| {
            let changes = Changes {
                size: Some(3),
                ..Changes::default()
            };
            let attr = user
                .bench
                .bridge
                .setattr(node, user.caller, &changes, None)?;
            user.check(attr.mode, Access::Write);
            Ok(())
        })
    }

    fn open(&mut self, flags: OFlags) -> Result<(), Errno> {
        self.with_file(|user, node| {
            let file: BridgedFile<ToKernel> = user.bench.bridge.open(node, user.caller, flags)?;
            let mode = fstat(file.file().fd()?)?.st_mode;
            if flags == OFlags::RDONLY {
                user.check(mode, Access::Read);
                return Ok(());
            }
            user.check(mode, Access::Write);
            file.write(b"new", 0, ReadWriteFlags::empty())?;
            Ok(())
        })
    }

    fn check(&self, mode: u32, access: Access) {
        let uid = self.caller.uid;
        assert!(
            !was_denied(mode, uid, access),
            "{uid} had {access} access to a file of mode {mode:o}"
        );
    }
}

/// All files of a directory, by their paths below it.
fn files(source: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut directories = vec![source.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => directories.push(path),
                false => {
                    let below = path.strip_prefix(source).unwrap().to_str().unwrap();
                    found.insert(below.to_owned(), path);
                }
            }
        }
    }
    found
}

/// The files that no user may write to: name, inode number and content. Their directories may be moved.
fn fixed(case: &Case, source: &Path) -> Vec<(String, u64, Vec<u8>)> {
    let mut fixed: Vec<_> = files(source)
        .into_iter()
        .filter(|(path, _)| case.denials(path) & 0b1010 == 0b1010)
        .map(|(path, file)| {
            // A directory with a key in it can take another name, but not one below which all is denied.
            let is_all = ["secrets/", "fixed/"]
                .iter()
                .any(|all| path.starts_with(all));
            let name = match is_all {
                true => path,
                false => path.rsplit('/').next().unwrap().to_owned(),
            };
            let inode = fs::metadata(&file).unwrap().ino();
            (name, inode, fs::read(file).unwrap())
        })
        .collect();
    fixed.sort();
    fixed
}

/// Runs all operations of a case, in rounds: when everything has been moved to places that deny more, few
/// operations are possible.
fn run(case: &Case, operations: usize) {
    let seed = Dice::seed();
    let rounds = operations.div_ceil(ROUND);
    let done: usize = (0..rounds)
        .map(|round| run_round(case, seed + (round * THREADS) as u64))
        .sum();
    println!("{done} of {} operations did something", rounds * ROUND);
    assert!(done > rounds * ROUND / 20, "only {done}");
}

/// Runs a round. Returns how many operations had an effect.
fn run_round(case: &Case, seed: u64) -> usize {
    let bench = Bench::new(case.policy, Passthrough::Never);
    let source = bench.folder.path();
    fs::remove_file(source.join("file")).unwrap();
    for directory in DIRECTORIES {
        fs::create_dir_all(source.join(directory)).unwrap();
        for name in FILES {
            let path = format!("{directory}/{name}");
            let file = source.join(&path);
            fs::write(&file, &path).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(case.mode(&path))).unwrap();
        }
    }
    let before = fixed(case, source);
    let (left, done) = (AtomicUsize::new(ROUND), AtomicUsize::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let mut user = User {
                bench: &bench,
                case,
                caller: Caller {
                    uid: USERS[thread % USERS.len()],
                    gid: 100,
                    pid: 1,
                },
                dice: Dice::new(seed + thread as u64),
                known: Vec::new(),
                done: &done,
            };
            let left = &left;
            scope.spawn(move || {
                while left
                    .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1))
                    .is_ok()
                {
                    user.step();
                }
                for node in user.known {
                    user.bench.bridge.forget(node, 1);
                }
            });
        }
    });
    assert_eq!(fixed(case, source), before, "what nobody may change");
    for (path, file) in files(source) {
        let said = File::open(&file).unwrap().metadata().unwrap().mode() & 0o77;
        let denied = case.denials(&path);
        assert_eq!(
            said & !denied,
            0,
            "{path} was denied {said:b}, and is now {denied:b}"
        );
        each_is_decided_as_it_is_called(case, &bench, &path);
    }
    assert_eq!(bench.bridge.status().remembered_files, 0);
    done.into_inner()
}

/// Asserts that each open is decided by the file's path, and only by that.
fn each_is_decided_as_it_is_called(case: &Case, bench: &Bench, path: &str) {
    let mut way = vec![NodeId::ROOT];
    for name in path.split('/') {
        let parent = way[way.len() - 1];
        way.push(bench.bridge.lookup(parent, name.as_ref()).unwrap().node);
    }
    for uid in USERS {
        for (access, flags) in [
            (Access::Read, OFlags::RDONLY),
            (Access::Write, OFlags::RDWR),
        ] {
            let caller = Caller {
                uid,
                gid: 100,
                pid: 1,
            };
            let opened = bench.bridge.open(way[way.len() - 1], caller, flags);
            let is_denied = opened.err() == Some(Errno::ACCESS);
            assert_eq!(
                is_denied,
                (case.denies)(uid, access, path),
                "{path} {access} {uid}"
            );
        }
    }
    for node in way.into_iter().skip(1) {
        bench.bridge.forget(node, 1);
    }
}

fn operations() -> usize {
    let given = std::env::var("VERIMOUNT_POLICY_OPERATIONS").ok();
    given.map_or(OPERATIONS, |text| text.parse().unwrap())
}

#[test]
fn denied_files_stay_denied() {
    run(&DENIED, operations());
}

#[test]
fn files_that_are_not_allowed_stay_denied() {
    run(&ALLOWED, operations());
}

/// The policies have the meaning that the cases state, before anything is moved.
#[test]
fn the_cases_are_their_policies() {
    for case in [DENIED, ALLOWED] {
        let policy = Policy::parse(case.policy, Path::new("policy.toml")).unwrap();
        assert!(policy.can_deny());
        let bench = Bench::new(case.policy, Passthrough::Never);
        for directory in DIRECTORIES {
            fs::create_dir_all(bench.folder.path().join(directory)).unwrap();
            for name in FILES {
                let path = format!("{directory}/{name}");
                fs::write(bench.folder.path().join(&path), "").unwrap();
                each_is_decided_as_it_is_called(&case, &bench, &path);
            }
        }
    }
}
