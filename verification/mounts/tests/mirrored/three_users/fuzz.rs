//! One run: operations, and the comparison after each.

mod judge;
mod likely;

use std::os::fd::AsFd;

use rustix::fs::{StatxFlags, statx};

use self::judge::{Judged, shown};
use super::{
    documented::Compared,
    generate::Generator,
    operation::{Operation, SLOTS},
    remembered::Changes,
    tree::{Tree, remove},
    user::{Outcome, ROOT_USER, Side, USERS, User},
};
use crate::prelude::*;

/// Operations on one tree, after which there is a new one.
const OPERATIONS_PER_TREE: usize = 150;

/// How many failures of different kinds are shown.
const MAX_FAILURES: usize = 20;

/// A file that is open on both sides.
struct Pair {
    mirrored: Arc<OwnedFd>,
    native: Arc<OwnedFd>,
    /// Its inode in the source.
    inode: u64,
    /// Its names when it was opened.
    names: Vec<String>,
    /// Whether it has lost one since. The number can be another file's then.
    is_gone: bool,
    /// Which of [`USERS`] opened it, and when.
    opener: usize,
    since: Instant,
}

/// Where the two trees are, and where the first one is mounted.
struct Roots {
    source: PathBuf,
    native: PathBuf,
    mount: PathBuf,
}

pub(super) struct Fuzz {
    roots: Roots,
    /// How long the kernel may remember what has changed in the source.
    bound: Option<Duration>,
    /// Whether files are passed through.
    passes: bool,
    users: Vec<User>,
    generator: Generator,
    /// Which tree it is.
    tree_number: usize,
    tree: Tree,
    changes: Changes,
    open: [Option<Pair>; SLOTS],
    /// What was done since the trees were made.
    log: Vec<String>,
    done: usize,
    excused: BTreeMap<String, usize>,
    failures: BTreeMap<String, (usize, Vec<String>)>,
}

impl Fuzz {
    pub(super) fn new(
        [source, native, mount]: [PathBuf; 3],
        bound: Option<Duration>,
        passes: bool,
        seed: u64,
    ) -> Self {
        let mut fuzz = Self {
            roots: Roots {
                source,
                native,
                mount,
            },
            bound,
            passes,
            users: USERS.into_iter().map(User::new).collect(),
            generator: Generator {
                random: Random::new(seed),
                known: Vec::new(),
                open: Vec::new(),
                recent: Vec::new(),
            },
            tree_number: 0,
            tree: Tree::default(),
            changes: Changes::default(),
            open: Default::default(),
            log: Vec::new(),
            done: 0,
            excused: BTreeMap::new(),
            failures: BTreeMap::new(),
        };
        fuzz.plant();
        fuzz
    }

    /// Makes new trees. Their names are new to the kernel, which so remembers nothing.
    fn plant(&mut self) {
        self.open = Default::default();
        let last = self.tree_number.to_string();
        if self.tree_number > 0 {
            remove(&self.roots.source.join(&last));
            remove(&self.roots.native.join(&last));
        }
        self.tree_number += 1;
        self.log.clear();
        let planted = self.generator.planting();
        let sides = self.source_and_native();
        for side in &sides {
            fs::create_dir(&side.root).unwrap();
            for operation in &planted {
                self.users[ROOT_USER].does(operation, side).unwrap();
            }
        }
        self.log
            .extend(planted.iter().map(|done| format!("root plants {done:?}")));
        let [source, native] = sides.map(|side| Tree::of(&side.root));
        assert_eq!(source.differences(&native), Vec::<String>::new());
        self.tree = source;
        self.changes = Changes::default();
    }

    fn side(&self, root: &std::path::Path, file: impl Fn(&Pair) -> Option<&Arc<OwnedFd>>) -> Side {
        let open = self.open.iter();
        let open = open.map(|pair| pair.as_ref().and_then(&file).cloned());
        Side {
            root: root.join(self.tree_number.to_string()),
            open: open.collect(),
        }
    }

    fn source_and_native(&self) -> [Side; 2] {
        [&self.roots.source, &self.roots.native].map(|root| self.side(root, |_| None))
    }

    pub(super) fn step(&mut self) {
        if self.log.len() > OPERATIONS_PER_TREE {
            self.plant();
        }
        self.done += 1;
        // With a cache without limit, nearly everything differs after some changes.
        let seldom = match self.bound {
            Some(bound) if bound > Duration::from_secs(60) => 30,
            _ => 6,
        };
        match self.generator.random.below(seldom) {
            0 => self.change_source(),
            _ => self.attempt(),
        }
    }

    fn change_source(&mut self) {
        let by_root = self.generator.random.coin();
        let open = self.open.iter().flatten();
        let open = open.filter_map(|pair| self.tree.path_of(pair.inode));
        self.generator.open = open.map(str::to_owned).collect();
        self.generator.known = self.known();
        let operation = self.generator.source_change(by_root);
        let user = if by_root {
            ROOT_USER
        } else {
            self.likely_user(&operation)
        };
        self.does_in_source(user, &operation);
        // As by somebody else who takes the name that was removed.
        if let Operation::Remove { at, .. } = &operation
            && self.generator.random.coin()
        {
            let user = self.generator.random.below(USERS.len());
            let operation = self.generator.taking(at);
            self.does_in_source(user, &operation);
        }
    }

    fn does_in_source(&mut self, user: usize, operation: &Operation) {
        let [source, native] = self.source_and_native();
        let outcomes = [&source, &native].map(|side| self.users[user].does(operation, side));
        self.log(user, "in the source", operation, &outcomes);
        let [source, native] = [source, native].map(|side| Tree::of(&side.root));
        let [here, there] = outcomes.map(|outcome| outcome.map(drop));
        assert_eq!(here, there, "{operation:?}");
        let differences = source.differences(&native);
        assert!(differences.is_empty(), "{operation:?}: {differences:?}");
        self.changes.note(&self.tree, &source);
        self.sees(source);
        let changed = operation.paths().into_iter().map(str::to_owned);
        self.generator.recent = changed.collect();
    }

    fn sees(&mut self, tree: Tree) {
        for pair in self.open.iter_mut().flatten() {
            let mut names = pair.names.iter();
            pair.is_gone |= names.any(|name| tree.inode(name) != Some(pair.inode));
        }
        self.tree = tree;
    }

    fn attempt(&mut self) {
        self.generator.known = self.known();
        let slots = self.likely_slots();
        let operation = self.generator.attempt(&slots);
        let user = self.likely_user(&operation);
        let before = self.before(&operation);
        let sides = [
            self.side(&self.roots.mount, |pair| Some(&pair.mirrored)),
            self.side(&self.roots.native, |pair| Some(&pair.native)),
        ];
        let began = Instant::now();
        let outcomes = sides
            .each_ref()
            .map(|side| self.users[user].does(&operation, side));
        self.log(user, "through the mount", &operation, &outcomes);
        if let (Operation::ClearAppend(slot), [Ok(_), Err(_)]) = (&operation, &outcomes) {
            self.try_to_overwrite(user, *slot, &sides);
        }
        let (mut differences, mut native) = (Vec::new(), None);
        let mut is_unchanged = true;
        if !operation.only_looks() {
            let [source, other] = self.source_and_native().map(|side| Tree::of(&side.root));
            differences = source.differences(&other);
            is_unchanged = source.differences(&self.tree).is_empty();
            self.sees(source);
            native = Some(other);
        }
        let [here, there] = outcomes;
        let seen =
            [&here, &there].map(|outcome| outcome.as_ref().map(drop).map_err(|error| *error));
        if let (Ok(Some(mirrored)), Ok(Some(other)), Some(native)) = (&here, &there, &native)
            && !before.is_gone
            && self.are_different(mirrored, other, native)
        {
            differences.push("other files were opened".to_owned());
        }
        let only_set_ids = native.is_some_and(|native| {
            let [here, there] = [&self.tree, &native].map(Tree::without_set_ids);
            here.differences(&there).is_empty()
        });
        let result = Compared {
            outcomes: seen,
            is_unchanged,
            is_other: !differences.is_empty(),
            only_set_ids,
            is_gone: before.is_gone,
            is_older: before.is_older,
            is_directory: before.is_directory,
            passes: self.passes,
            keeps_set_ids: self.users[user].ids.keeps_set_ids(),
        };
        let judged = self.judge(&operation, &before.remembered, &result, began);
        match judged {
            Judged::Same => {
                if operation.is_rename() && here.is_ok() {
                    self.changes.carry(&before.remembered.refuses);
                }
                self.keep(&operation, user, here, there);
            }
            Judged::Excused(kind) => {
                *self.excused.entry(kind).or_default() += 1;
                self.plant();
            }
            Judged::Failure(kind) => {
                self.log.extend(differences);
                let first = || (0, self.log.clone());
                self.failures.entry(kind).or_insert_with(first).0 += 1;
                self.plant();
            }
        }
    }

    /// Writes to the beginning of a file that is append-only: if its descriptor seems not to append any more, what
    /// follows shows whether that has an effect.
    fn try_to_overwrite(&mut self, user: usize, slot: usize, sides: &[Side; 2]) {
        let write = Operation::Write {
            slot,
            offset: 0,
            data: b"#".to_vec(),
        };
        let outcomes = sides
            .each_ref()
            .map(|side| self.users[user].does(&write, side));
        self.log(user, "through the mount", &write, &outcomes);
    }

    /// Keeps what was opened, and lets go what was closed.
    fn keep(&mut self, operation: &Operation, opener: usize, here: Outcome, there: Outcome) {
        match (operation, here, there) {
            (
                Operation::Open { slot, .. } | Operation::Reopen { slot, .. },
                Ok(Some(mirrored)),
                Ok(Some(native)),
            ) => {
                let inode = inode(&mirrored);
                let names = self.tree.names(inode);
                self.open[*slot] = Some(Pair {
                    inode,
                    is_gone: names.is_empty(),
                    names,
                    opener,
                    since: Instant::now(),
                    mirrored: Arc::new(mirrored),
                    native: Arc::new(native),
                });
            }
            (Operation::Close(slot), ..) => self.open[*slot] = None,
            // A file that is passed through still appends.
            (Operation::ClearAppend(slot), Ok(_), Ok(_)) if self.passes => self.open[*slot] = None,
            _ => {}
        }
    }

    fn log(&mut self, user: usize, way: &str, operation: &Operation, outcomes: &[Outcome; 2]) {
        let [here, there] = outcomes;
        let uid = self.users[user].ids.uid;
        let [here, there] =
            [here, there].map(|outcome| shown(outcome.as_ref().map(drop).map_err(|error| *error)));
        let line = format!("{uid} {way}: {operation:?}: {here}, natively {there}");
        self.log.push(line);
    }

    /// Prints what was done. Returns the kinds of failures.
    pub(super) fn report(&self, mount: &str) -> Vec<String> {
        eprintln!(
            "{mount}: {} operations, {} trees; other results, which the kernel's memory explains: {:#?}",
            self.done, self.tree_number, self.excused
        );
        for (kind, (count, log)) in self.failures.iter().take(MAX_FAILURES) {
            eprintln!("\nFAILURE {mount}: {kind}, {count} times. First:");
            log.iter().for_each(|line| eprintln!("  {line}"));
        }
        let failures = self.failures.iter();
        let failures = failures.map(|(kind, (count, _))| format!("{mount}: {kind}, {count} times"));
        failures.collect()
    }
}

fn inode(file: impl AsFd) -> u64 {
    let found = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::INO);
    found.map_or(0, |found| found.stx_ino)
}
