//! Denied files stay denied, whatever names are created, moved and removed.

use std::fs;

use rustix::{
    fs::{FileType, OFlags, RenameFlags},
    io::Errno,
};
use verimount_bridge::{Caller, NewFile, Passthrough};

use crate::support::{Bench, CALLER};

const ROOT: Caller = Caller {
    uid: 0,
    gid: 0,
    pid: 1,
    request: 0,
};

const SECRETS: &str = "[[rule]]\naction = \"deny\"\npath = \"secrets/**\"";
const READ_ONLY: &str = "[[rule]]\naction = \"deny\"\naccess = \"write\"\npath = \"fixed/**\"";

/// A rule that denies only to [`CALLER`].
const CALLERS: &str =
    "[[rule]]\naction = \"deny\"\naccess = \"write\"\npath = \"fixed/**\"\ncaller_uid = 1000";

/// `secrets/key`, `fixed/file`, `fixed/sub/file`, `pub/file`, `pub/sub/file` and an empty `pub/dir`.
fn bench(policy: &str) -> Bench {
    let bench = Bench::new(policy, Passthrough::Never);
    let source = bench.folder.path();
    for directory in ["secrets", "fixed/sub", "pub/sub", "pub/dir"] {
        fs::create_dir_all(source.join(directory)).unwrap();
    }
    for file in [
        "secrets/key",
        "fixed/file",
        "fixed/sub/file",
        "pub/file",
        "pub/sub/file",
    ] {
        fs::write(source.join(file), file).unwrap();
    }
    bench
}

/// Renames as the kernel requests it.
fn rename(
    bench: &Bench,
    caller: Caller,
    from: &str,
    to: &str,
    flags: RenameFlags,
) -> Result<(), Errno> {
    let ((old, from), (new, to)) = (bench.place(from), bench.place(to));
    bench
        .bridge
        .rename(caller, (old, from.as_ref()), (new, to.as_ref()), flags)
}

fn link(bench: &Bench, caller: Caller, from: &str, to: &str) -> Result<(), Errno> {
    let (node, (parent, name)) = (bench.find(from), bench.place(to));
    bench
        .bridge
        .link(caller, node, parent, name.as_ref())
        .map(drop)
}

fn unlink(bench: &Bench, caller: Caller, path: &str) -> Result<(), Errno> {
    let (parent, name) = bench.place(path);
    bench.bridge.unlink(caller, parent, name.as_ref())
}

fn mknod(bench: &Bench, path: &str, file_type: FileType) -> Result<(), Errno> {
    let (parent, name) = bench.place(path);
    let new = NewFile {
        caller: CALLER,
        mode: 0o600,
        umask: 0,
    };
    let device = 0;
    bench
        .bridge
        .mknod(parent, name.as_ref(), new, file_type, device)
        .map(drop)
}

const PLAIN: RenameFlags = RenameFlags::empty();
const EXCHANGE: RenameFlags = RenameFlags::EXCHANGE;
const DENIED: Result<(), Errno> = Err(Errno::ACCESS);

/// Neither by root, nor by moving a directory.
#[test]
fn nothing_is_moved_out_of_denied_paths() {
    for caller in [CALLER, ROOT] {
        let bench = bench(SECRETS);
        let rename = |from, to, flags| rename(&bench, caller, from, to, flags);
        assert_eq!(rename("secrets/key", "pub/key", PLAIN), DENIED);
        assert_eq!(rename("secrets/key", "pub/file", PLAIN), DENIED);
        assert_eq!(rename("secrets/key", "pub/file", EXCHANGE), DENIED);
        assert_eq!(rename("pub/file", "secrets/key", EXCHANGE), DENIED);
        assert_eq!(rename("pub/file", "secrets/key", PLAIN), DENIED);
        assert_eq!(rename("secrets", "pub/secrets", PLAIN), DENIED);
        assert_eq!(rename("secrets", "pub", EXCHANGE), DENIED);
        assert_eq!(rename("pub", "secrets", EXCHANGE), DENIED);
        assert_eq!(link(&bench, caller, "secrets/key", "pub/key"), DENIED);
        assert_eq!(link(&bench, caller, "pub/file", "secrets/file"), DENIED);
        assert_eq!(unlink(&bench, caller, "secrets/key"), DENIED);
        let key = bench
            .bridge
            .open(bench.find("secrets/key"), caller, OFlags::RDONLY);
        assert_eq!(key.err(), Some(Errno::ACCESS));
        assert_eq!(bench.bridge.status().opens.denied.get(), 12);
    }
}

#[test]
fn nothing_is_made_moved_or_replaced_where_writing_is_denied() {
    let bench = bench(READ_ONLY);
    let rename = |from, to, flags| rename(&bench, CALLER, from, to, flags);
    assert_eq!(mknod(&bench, "fixed/new", FileType::RegularFile), DENIED);
    assert_eq!(rename("pub/file", "fixed/new", PLAIN), DENIED);
    assert_eq!(
        rename("pub/file", "fixed/new", RenameFlags::NOREPLACE),
        DENIED
    );
    assert_eq!(rename("pub/file", "fixed/file", PLAIN), DENIED);
    assert_eq!(rename("fixed/file", "fixed/new", PLAIN), DENIED);
    assert_eq!(rename("pub/sub", "fixed/new", PLAIN), DENIED);
    assert_eq!(rename("fixed/sub", "fixed/new", PLAIN), DENIED);
    assert_eq!(rename("fixed/sub", "pub/new", PLAIN), DENIED);
    assert_eq!(link(&bench, CALLER, "pub/file", "fixed/new"), DENIED);
    assert_eq!(link(&bench, CALLER, "fixed/file", "fixed/new"), DENIED);
    assert_eq!(link(&bench, CALLER, "fixed/file", "pub/new"), DENIED);
    assert_eq!(unlink(&bench, CALLER, "fixed/file"), DENIED);
    let names = fs::read_dir(bench.folder.path().join("fixed")).unwrap();
    assert_eq!(names.count(), 2);
    // Not even what is no regular file replaces one.
    mknod(&bench, "pub/pipe", FileType::Fifo).unwrap();
    assert_eq!(rename("pub/pipe", "fixed/file", PLAIN), DENIED);
    mknod(&bench, "fixed/pipe", FileType::Fifo).unwrap();
}

/// A user to whom the rule does not apply may do it, as long as the other user stays denied.
#[test]
fn who_may_write_there_may_move_there() {
    let bench = bench(CALLERS);
    let may = |from, to| rename(&bench, ROOT, from, to, PLAIN).unwrap();
    may("pub/sub", "fixed/new");
    may("fixed/new", "fixed/newer");
    may("fixed/newer/file", "fixed/file");
    assert_eq!(rename(&bench, ROOT, "fixed/file", "pub/new", PLAIN), DENIED);
    assert_eq!(rename(&bench, ROOT, "fixed/sub", "pub/new", PLAIN), DENIED);
    link(&bench, ROOT, "fixed/file", "fixed/link").unwrap();
    assert_eq!(link(&bench, ROOT, "fixed/file", "pub/link"), DENIED);
    assert_eq!(unlink(&bench, CALLER, "fixed/link"), DENIED);
    unlink(&bench, ROOT, "fixed/link").unwrap();
}

/// A file that is writable by one name is writable by all: a name that denies writing would be misleading.
#[test]
fn all_names_of_a_file_are_alike() {
    let bench = bench(CALLERS);
    link(&bench, ROOT, "pub/file", "pub/link").unwrap();
    assert_eq!(
        rename(&bench, ROOT, "pub/link", "fixed/link", PLAIN),
        DENIED
    );
    unlink(&bench, ROOT, "pub/file").unwrap();
    rename(&bench, ROOT, "pub/link", "fixed/link", PLAIN).unwrap();
    assert_eq!(link(&bench, ROOT, "pub/sub/file", "fixed/new"), DENIED);
}

#[test]
fn operations_without_a_rule_are_allowed() {
    let bench = bench(&format!("{SECRETS}\n{READ_ONLY}"));
    rename(&bench, CALLER, "pub/file", "pub/sub/file", PLAIN).unwrap();
    rename(&bench, CALLER, "pub/sub", "sub", PLAIN).unwrap();
    rename(&bench, CALLER, "sub", "pub/dir", EXCHANGE).unwrap();
    link(&bench, CALLER, "pub/dir/file", "link").unwrap();
    unlink(&bench, CALLER, "link").unwrap();
    mknod(&bench, "made", FileType::RegularFile).unwrap();
    // The place that it is moved to is denied, but nothing comes of that to anybody.
    rename(&bench, CALLER, "pub/dir/file", "file", PLAIN).unwrap();
    assert_eq!(bench.bridge.status().opens.denied.get(), 0);
    let gone = unlink(&bench, CALLER, "missing");
    assert_eq!(gone, Err(Errno::NOENT));
    let gone = rename(&bench, CALLER, "missing", "other", PLAIN);
    assert_eq!(gone, Err(Errno::NOENT));
}

/// A rule for all paths, or one with conditions on the file, also applies when names are removed.
#[test]
fn removing_is_writing() {
    let bench =
        bench("[[rule]]\naction = \"deny\"\naccess = \"write\"\nmagic = { text = \"pub\" }");
    assert_eq!(unlink(&bench, CALLER, "pub/file"), DENIED);
    assert_eq!(
        rename(&bench, CALLER, "fixed/file", "pub/file", PLAIN),
        DENIED
    );
    assert_eq!(rename(&bench, CALLER, "pub/file", "new", PLAIN), DENIED);
    rename(&bench, CALLER, "fixed/file", "secrets/key", PLAIN).unwrap();
    unlink(&bench, CALLER, "secrets/key").unwrap();
    // A missing file is not searched for.
    assert_eq!(unlink(&bench, CALLER, "secrets/key"), Err(Errno::NOENT));
}

/// The first policy denies nothing, so nothing is checked; the second applies to all later operations.
#[test]
fn a_new_policy_applies_to_names_at_once() {
    let bench = bench("");
    rename(&bench, CALLER, "secrets/key", "pub/key", PLAIN).unwrap();
    rename(&bench, CALLER, "pub/key", "secrets/key", PLAIN).unwrap();
    let policy = verimount_bridge::policy::Policy::parse(SECRETS, "p.toml".as_ref());
    bench.bridge.set_policy(policy.unwrap());
    assert_eq!(
        rename(&bench, CALLER, "secrets/key", "pub/key", PLAIN),
        DENIED
    );
}

/// A node that was only examined is not remembered.
#[test]
fn examined_nodes_are_forgotten() {
    let bench = bench(SECRETS);
    let [(root, _), (secrets, _)] = ["file", "secrets/key"].map(|path| bench.place(path));
    let before = bench.bridge.status().remembered_files;
    let denied = bench.bridge.unlink(CALLER, secrets, "key".as_ref());
    assert_eq!(denied, DENIED);
    let (from, to) = ((secrets, "key".as_ref()), (root, "file".as_ref()));
    assert_eq!(bench.bridge.rename(CALLER, from, to, PLAIN), DENIED);
    assert_eq!(bench.bridge.rename(CALLER, from, to, EXCHANGE), DENIED);
    assert_eq!(bench.bridge.status().remembered_files, before);
}
