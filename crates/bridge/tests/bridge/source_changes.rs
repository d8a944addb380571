//! Changes made in the source, past the mirror, count from the moment they are made: a file is judged by
//! where it is, not by where it was found.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FileType, OFlags, RenameFlags},
    io::Errno,
};
use verimount_bridge::{NewFile, NodeId, Passthrough, SetAttr};

use crate::support::{Bench, CALLER};

mod deep;
mod several_names;

const SECRETS: &str = "[[rule]]\naction = \"deny\"\npath = \"secrets/**\"";

/// A policy that allows only what it lists.
const LISTED: &str = "default = \"deny\"\n[[rule]]\naction = \"relay\"\npath = \"pub/**\"";

const DENIED: Result<(), Errno> = Err(Errno::ACCESS);

const NEW: NewFile = NewFile {
    caller: CALLER,
    mode: 0o600,
    umask: 0,
};

/// With directories `pub/a/b` and `secrets/a/b`, and a file `file` in each directory. What is looked up
/// stays remembered.
fn bench(policy: &str) -> Bench {
    let bench = Bench::new(policy, Passthrough::Never);
    for top in ["pub", "secrets"] {
        let source = bench.folder.path();
        fs::create_dir_all(source.join(top).join("a/b")).unwrap();
        for directory in ["", "a", "a/b"] {
            let path = Path::new(top).join(directory).join("file");
            fs::write(source.join(&path), path.to_str().unwrap()).unwrap();
        }
    }
    bench
}

impl Bench {
    /// Moves a file in the source.
    fn shift(&self, from: &str, to: &str) {
        let source = self.folder.path();
        fs::rename(source.join(from), source.join(to)).unwrap();
    }

    fn open(&self, node: NodeId, flags: OFlags) -> Result<(), Errno> {
        self.bridge.open(node, CALLER, flags).map(drop)
    }

    fn truncate(&self, node: NodeId) -> Result<(), Errno> {
        let changes = SetAttr {
            size: Some(0),
            ..SetAttr::default()
        };
        self.bridge.setattr(node, CALLER, &changes, None).map(drop)
    }

    fn create(&self, parent: NodeId, name: &str) -> Result<(), Errno> {
        let created = self.bridge.create(parent, name.as_ref(), NEW, OFlags::RDWR);
        created.map(drop)
    }

    fn make(&self, parent: NodeId, name: &str) -> Result<(), Errno> {
        let (kind, device) = (FileType::RegularFile, 0);
        self.bridge
            .mknod(parent, name.as_ref(), NEW, kind, device)
            .map(drop)
    }

    fn rename(&self, from: (NodeId, &str), to: (NodeId, &str)) -> Result<(), Errno> {
        let [from, to] = [from, to].map(|(parent, name)| (parent, name.as_ref()));
        self.bridge.rename(CALLER, from, to, RenameFlags::empty())
    }

    fn link(&self, node: NodeId, to: (NodeId, &str)) -> Result<(), Errno> {
        self.bridge
            .link(CALLER, node, to.0, to.1.as_ref())
            .map(drop)
    }

    /// A remembered file, used before, so that it is held and found again wherever it is moved.
    fn used(&self, path: &str) -> NodeId {
        let node = self.find(path);
        // Has no effect but this.
        let mirror = self.bridge.mirror();
        let _ = mirror.getxattr(node, "user.none".as_ref(), &mut []);
        node
    }
}

/// What can be done in a directory without looking it up again.
type Action = fn(&Bench, Entered) -> Result<(), Errno>;

/// Nodes that were looked up before a move: a directory, the file in it, and `pub` and `pub/file`.
#[derive(Clone, Copy)]
struct Entered {
    directory: NodeId,
    file: NodeId,
    public: NodeId,
    public_file: NodeId,
}

const ACTIONS: [(&str, Action); 13] = [
    ("read", |bench, old| bench.open(old.file, OFlags::RDONLY)),
    ("write", |bench, old| bench.open(old.file, OFlags::RDWR)),
    ("empty", |bench, old| {
        bench.open(old.file, OFlags::WRONLY | OFlags::TRUNC)
    }),
    ("truncate", |bench, old| bench.truncate(old.file)),
    ("find and read", |bench, old| {
        let found = bench
            .bridge
            .mirror()
            .lookup(old.directory, "file".as_ref())?;
        bench.open(found.node, OFlags::RDONLY)
    }),
    ("create", |bench, old| bench.create(old.directory, "new")),
    ("create nameless", |bench, old| {
        let made = bench.bridge.tmpfile(old.directory, NEW, OFlags::RDWR);
        made.map(drop)
    }),
    ("make", |bench, old| bench.make(old.directory, "new")),
    ("remove", |bench, old| {
        bench.bridge.unlink(CALLER, old.directory, "file".as_ref())
    }),
    ("rename", |bench, old| {
        bench.rename((old.directory, "file"), (old.directory, "new"))
    }),
    ("move out", |bench, old| {
        bench.rename((old.directory, "file"), (old.public, "out"))
    }),
    ("move in", |bench, old| {
        bench.rename((old.public, "file"), (old.directory, "in"))
    }),
    ("link out", |bench, old| {
        bench.link(old.file, (old.public, "out"))?;
        bench.open(old.public_file, OFlags::RDONLY)
    }),
];

/// Does each action in `entered` after the directory above or at it was moved from `from` to `to`.
fn after_a_move(policy: &str, entered: &str, from: &str, to: &str, expected: Result<(), Errno>) {
    for (action, act) in ACTIONS {
        let bench = bench(policy);
        let old = Entered {
            directory: bench.used(entered),
            file: bench.used(&format!("{entered}/file")),
            public: bench.used("pub"),
            public_file: bench.used("pub/file"),
        };
        bench.shift(from, to);
        let done = act(&bench, old);
        assert_eq!(done, expected, "{action} in {entered}: {from} to {to}");
    }
}

#[test]
fn a_directory_that_was_entered_is_denied_where_it_is_moved_to() {
    after_a_move(SECRETS, "pub/a", "pub/a", "secrets/new", DENIED);
    after_a_move(LISTED, "pub/a", "pub/a", "secrets/new", DENIED);
}

#[test]
fn so_is_one_whose_parent_is_moved() {
    after_a_move(SECRETS, "pub/a/b", "pub/a", "secrets/new", DENIED);
    after_a_move(LISTED, "pub/a/b", "pub/a", "new", DENIED);
}

#[test]
fn a_directory_is_allowed_where_it_is_moved_to() {
    after_a_move(SECRETS, "secrets/a", "secrets/a", "pub/new", Ok(()));
    after_a_move(LISTED, "secrets/a/b", "secrets/a", "pub/new", Ok(()));
}

/// It was only looked up, so the mirror has no descriptor of it.
#[test]
fn a_file_that_was_never_used_is_not_opened_where_it_is_not() {
    for policy in [SECRETS, LISTED] {
        let bench = bench(policy);
        let file = bench.find("pub/file");
        bench.shift("pub/file", "secrets/new");
        fs::write(bench.folder.path().join("pub/file"), "another").unwrap();
        for flags in [OFlags::RDONLY, OFlags::RDWR, OFlags::RDWR | OFlags::TRUNC] {
            let opened = bench.open(file, flags);
            assert!(
                matches!(opened, Err(Errno::ACCESS | Errno::STALE)),
                "{opened:?}"
            );
        }
        assert!(bench.truncate(file).is_err());
        let content = fs::read(bench.folder.path().join("secrets/new")).unwrap();
        assert_eq!(content, b"pub/file");
    }
}

#[test]
fn a_moved_file_is_judged_by_where_it_is() {
    for policy in [SECRETS, LISTED] {
        let bench = bench(policy);
        let (public, secret) = (bench.used("pub/file"), bench.used("secrets/file"));
        bench.shift("pub/file", "secrets/new");
        bench.shift("secrets/file", "pub/new");
        assert_eq!(bench.open(public, OFlags::RDONLY), DENIED);
        assert_eq!(bench.truncate(public), DENIED);
        assert_eq!(bench.open(secret, OFlags::RDWR), Ok(()));
        assert_eq!(bench.truncate(secret), Ok(()));
        // And again, without having been looked up in between.
        bench.shift("secrets/new", "pub/file");
        bench.shift("pub/new", "secrets/file");
        assert_eq!(bench.open(public, OFlags::RDONLY), Ok(()));
        assert_eq!(bench.open(secret, OFlags::RDONLY), DENIED);
    }
}

/// Its old name leads to another file, which is judged by itself.
#[test]
fn a_replaced_file_is_not_the_one_in_its_place() {
    for policy in [SECRETS, LISTED] {
        let bench = bench(policy);
        let old = bench.used("pub/file");
        bench.shift("pub/file", "secrets/old");
        fs::write(bench.folder.path().join("new"), "new").unwrap();
        bench.shift("new", "pub/file");
        assert_eq!(bench.open(old, OFlags::RDONLY), DENIED);
        assert_eq!(bench.open(bench.find("pub/file"), OFlags::RDONLY), Ok(()));
        assert_eq!(bench.open(old, OFlags::RDONLY), DENIED);
        // Now without a name: nothing says that it is allowed.
        fs::write(bench.folder.path().join("new"), "new").unwrap();
        bench.shift("new", "secrets/old");
        let opened = bench.open(old, OFlags::RDONLY);
        assert!(
            matches!(opened, Err(Errno::ACCESS | Errno::STALE)),
            "{opened:?}"
        );
    }
}

/// A file that is moved out of the source is reached no more, not even if the source has a file at the path
/// that it has from there or from the root of the file system.
#[test]
fn what_leaves_the_source_is_not_opened() {
    for policy in [SECRETS, LISTED] {
        let (bench, outside) = (bench(policy), tempfile::tempdir().unwrap());
        let source = bench.folder.path();
        let (file, directory) = (bench.used("pub/file"), bench.used("pub/a"));
        let below = bench.used("pub/a/b/file");
        let target = outside.path().join("pub");
        fs::create_dir(&target).unwrap();
        fs::rename(source.join("pub/file"), target.join("file")).unwrap();
        fs::rename(source.join("pub/a"), target.join("a")).unwrap();
        // The file system may be mounted at any of the directories above.
        let parts: Vec<_> = target.components().skip(1).collect();
        for start in 0..parts.len() {
            let decoy = source.join(parts[start..].iter().collect::<PathBuf>());
            fs::create_dir_all(decoy.join("a/b")).unwrap();
            for file in ["file", "a/file", "a/b/file"] {
                fs::write(decoy.join(file), "decoy").unwrap();
            }
        }
        for (what, done) in [
            ("file", bench.open(file, OFlags::RDWR)),
            ("file below", bench.open(below, OFlags::RDONLY)),
            ("truncate", bench.truncate(file)),
            ("create", bench.create(directory, "new")),
            ("make", bench.make(directory, "new")),
            (
                "move",
                bench.rename((directory, "file"), (directory, "new")),
            ),
        ] {
            assert!(
                matches!(done, Err(Errno::ACCESS | Errno::STALE)),
                "{what}: {done:?}"
            );
        }
    }
}
