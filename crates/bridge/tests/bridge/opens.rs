//! Sequences of opens.

use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt, PermissionsExt},
    sync::atomic::Ordering::SeqCst,
    thread,
};

use rustix::{
    fs::OFlags,
    io::{Errno, ReadWriteFlags},
};
use verimount_bridge::{NewFile, NodeId, Passthrough};

use crate::support::{Bench, CALLER, passed_through};

const READ: OFlags = OFlags::RDONLY;
const WRITE: OFlags = OFlags::RDWR;

#[test]
fn an_inode_has_one_backing_file_for_all_its_opens() {
    let bench = Bench::new("", Passthrough::Auto);
    let node = bench.find("file");
    let open = |flags| bench.bridge.open(node, CALLER, flags).unwrap();
    let (first, second) = (open(READ), open(WRITE));
    let [one, two] = [&first, &second].map(|file| passed_through(file).unwrap());
    assert_eq!(one.number, two.number);
    let inode = fs::metadata(bench.folder.path().join("file"))
        .unwrap()
        .ino();
    assert_eq!(one.inode, inode);
    let number = one.number;
    drop((first, second));
    // It is kept for the next open, and taken back when the file is forgotten.
    assert_eq!(passed_through(&open(READ)).unwrap().number, number);
    assert_eq!(bench.kernel.live.load(SeqCst), 1);
    bench.bridge.forget(node, 1);
    assert_eq!(bench.kernel.live.load(SeqCst), 0);
    let status = bench.bridge.status();
    assert_eq!(
        (
            status.opens.passthrough.get(),
            status.passthrough.open.get()
        ),
        (3, 0)
    );
    assert_eq!(
        (
            status.passthrough.registered.get(),
            status.passthrough.reused.get()
        ),
        (1, 2)
    );
}

/// The kernel may forget a file before it releases it.
#[test]
fn nothing_is_kept_of_a_forgotten_file() {
    let bench = Bench::new("", Passthrough::Auto);
    let node = bench.find("file");
    let file = bench.bridge.open(node, CALLER, READ).unwrap();
    bench.bridge.forget(node, 1);
    drop(file);
    assert_eq!(bench.kernel.live.load(SeqCst), 0);
}

/// A backing file that is open for writing would prevent the file from being executed.
#[test]
fn new_files_are_not_kept_open_for_writing() {
    let bench = Bench::new("", Passthrough::Auto);
    let new = NewFile {
        caller: CALLER,
        mode: 0o755,
        umask: 0,
    };
    let name = "new".as_ref();
    let created = bench.bridge.create(NodeId::ROOT, name, new, WRITE);
    let (_, file) = created.unwrap();
    assert!(passed_through(&file).is_some());
    drop(file);
    assert_eq!(bench.kernel.live.load(SeqCst), 0);
}

#[test]
fn later_opens_use_the_mode_of_the_first() {
    let bench = Bench::new(
        "[[rule]]\naction = \"relay\"\naccess = \"write\"",
        Passthrough::Auto,
    );
    let node = bench.find("file");
    let open = |flags| bench.bridge.open(node, CALLER, flags).unwrap();
    let (reader, writer) = (open(READ), open(WRITE));
    assert!(passed_through(&reader).is_some() && passed_through(&writer).is_some());
    drop((reader, writer));
    let (writer, reader) = (open(WRITE), open(READ));
    assert!(passed_through(&writer).is_none() && passed_through(&reader).is_none());
    let mut content = [0; 8];
    assert_eq!(writer.write(b"C", 0, ReadWriteFlags::empty()), Ok(1));
    assert_eq!(reader.read(&mut content, 0), Ok(7));
    assert_eq!(&content[..7], b"Content");
    assert_eq!(
        reader.write(b"C", 0, ReadWriteFlags::empty()),
        Err(Errno::BADF)
    );
    let status = bench.bridge.status();
    assert_eq!(status.opens.followed.get(), 2);
    assert_eq!(
        (status.relayed.reads.get(), status.relayed.read_bytes.get()),
        (1, 7)
    );
    assert_eq!(
        (
            status.relayed.writes.get(),
            status.relayed.written_bytes.get()
        ),
        (1, 1)
    );
}

#[test]
fn a_denied_file_stays_denied_while_it_is_open() {
    let bench = Bench::new(
        "[[rule]]\naction = \"deny\"\naccess = \"write\"\ncaller_uid = 1000",
        Passthrough::Auto,
    );
    let node = bench.find("file");
    let reader = bench.bridge.open(node, CALLER, READ).unwrap();
    for flags in [WRITE, OFlags::WRONLY, READ | OFlags::TRUNC] {
        let denied = bench.bridge.open(node, CALLER, flags);
        assert_eq!(denied.err(), Some(Errno::ACCESS));
    }
    assert!(passed_through(&reader).is_some());
    let new = NewFile {
        caller: CALLER,
        mode: 0o600,
        umask: 0,
    };
    let created = bench
        .bridge
        .create(NodeId::ROOT, "new".as_ref(), new, WRITE);
    assert_eq!(created.err(), Some(Errno::ACCESS));
    assert!(!bench.folder.path().join("new").exists());
    let content = fs::read(bench.folder.path().join("file")).unwrap();
    assert_eq!(content, b"content");
    assert_eq!(bench.bridge.status().opens.denied.get(), 4);
}

#[test]
fn a_kernel_that_cannot_is_not_asked_again() {
    for errno in [Errno::PERM, Errno::LOOP] {
        let bench = Bench::new("", Passthrough::Auto);
        bench.kernel.failures.lock().unwrap().push(errno);
        let node = bench.find("file");
        for _ in 0..3 {
            let file = bench.bridge.open(node, CALLER, READ).unwrap();
            assert!(passed_through(&file).is_none());
            let mut content = [0; 7];
            assert_eq!(file.read(&mut content, 0), Ok(7));
        }
        let status = bench.bridge.status().passthrough;
        assert_eq!((status.registered.get(), status.fallbacks.get()), (0, 3));
        assert_eq!(status.refusal, Some(errno.to_string()));
    }
}

#[test]
fn one_refused_file_does_not_disable_passthrough() {
    let bench = Bench::new("", Passthrough::Auto);
    bench.kernel.failures.lock().unwrap().push(Errno::NOMEM);
    let node = bench.find("file");
    let first = bench.bridge.open(node, CALLER, READ).unwrap();
    let second = bench.bridge.open(node, CALLER, READ).unwrap();
    assert!(passed_through(&first).is_none() && passed_through(&second).is_none());
    drop((first, second));
    let third = bench.bridge.open(node, CALLER, READ).unwrap();
    assert!(passed_through(&third).is_some());
    assert_eq!(bench.bridge.status().passthrough.refusal, None);
}

#[test]
fn required_passthrough_fails_if_it_is_unavailable() {
    let bench = Bench::new("", Passthrough::Require);
    bench.kernel.failures.lock().unwrap().push(Errno::PERM);
    let node = bench.find("file");
    let refused = bench.bridge.open(node, CALLER, READ);
    assert_eq!(refused.err(), Some(Errno::PERM));
    let file = bench.bridge.open(node, CALLER, READ).unwrap();
    assert!(passed_through(&file).is_some());
}

#[test]
fn passthrough_can_be_disabled() {
    let bench = Bench::new("", Passthrough::Never);
    let file = bench
        .bridge
        .open(bench.find("file"), CALLER, WRITE)
        .unwrap();
    assert!(passed_through(&file).is_none());
    assert_eq!(bench.bridge.status().passthrough.fallbacks.get(), 0);
}

#[test]
fn truncation_works_in_both_modes() {
    for passthrough in [Passthrough::Auto, Passthrough::Never] {
        let bench = Bench::new("", passthrough);
        let node = bench.find("file");
        let _file = bench.bridge.open(node, CALLER, WRITE | OFlags::TRUNC);
        let path = bench.folder.path().join("file");
        assert_eq!(File::open(path).unwrap().metadata().unwrap().len(), 0);
    }
}

/// On any thread, even if it is the thread's first operation.
#[test]
fn relayed_writes_clear_set_id_bits() {
    let bench = Bench::new("", Passthrough::Never);
    let path = bench.folder.path().join("file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
    let file = bench
        .bridge
        .open(bench.find("file"), CALLER, WRITE)
        .unwrap();
    thread::scope(|scope| {
        scope.spawn(|| file.write(b"x", 0, ReadWriteFlags::empty()).unwrap());
    });
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn rules_see_the_present_file() {
    let bench = Bench::new(
        "[[rule]]\naction = \"deny\"\npath = \"sub/file\"\n\
         [[rule]]\naction = \"relay\"\nsize = \"7..8\"\nmagic = { text = \"tent\", offset = 3 }\n\
         [[rule]]\naction = \"audit\"",
        Passthrough::Auto,
    );
    let node = bench.find("file");
    let open = || bench.bridge.open(node, CALLER, READ);
    assert!(passed_through(&open().unwrap()).is_none());
    fs::write(bench.folder.path().join("file"), "contents").unwrap();
    assert!(passed_through(&open().unwrap()).is_some());
    assert_eq!(bench.bridge.status().opens.audited.get(), 1);
    fs::create_dir(bench.folder.path().join("sub")).unwrap();
    let (root, file) = (NodeId::ROOT, "file".as_ref());
    let sub = bench.find("sub");
    let none = rustix::fs::RenameFlags::empty();
    let renamed = bench
        .bridge
        .mirror()
        .rename(CALLER, (root, file), (sub, file), none);
    renamed.unwrap();
    assert_eq!(open().err(), Some(Errno::ACCESS));
}

/// The creation of a file that cannot be served is undone.
#[test]
fn a_file_that_cannot_be_served_is_not_created() {
    let bench = Bench::new("", Passthrough::Require);
    let new = NewFile {
        caller: CALLER,
        mode: 0o600,
        umask: 0,
    };
    let refuse = || bench.kernel.failures.lock().unwrap().push(Errno::NOMEM);
    refuse();
    let (root, name) = (NodeId::ROOT, "new".as_ref());
    let created = bench.bridge.create(root, name, new, OFlags::RDWR);
    assert_eq!(created.err(), Some(Errno::NOMEM));
    refuse();
    let nameless = bench.bridge.tmpfile(root, new, OFlags::RDWR);
    assert!(matches!(
        nameless.err(),
        Some(Errno::NOMEM | Errno::OPNOTSUPP)
    ));
    assert_eq!(bench.bridge.status().remembered_files, 0);
    assert!(!bench.folder.path().join("new").exists());
}

/// The counts show the actual mode of an open, not the intended one.
#[test]
fn relayed_files_are_not_counted_as_passed_through() {
    let bench = Bench::new("", Passthrough::Auto);
    bench.kernel.failures.lock().unwrap().push(Errno::PERM);
    let node = bench.find("file");
    for _ in 0..3 {
        bench.bridge.open(node, CALLER, OFlags::RDONLY).unwrap();
    }
    let opens = bench.bridge.status().opens;
    assert_eq!((opens.passthrough.get(), opens.relay.get()), (0, 3));
}
