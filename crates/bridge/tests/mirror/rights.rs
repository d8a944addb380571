//! New files belong to the caller, as on the source's own file system.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    thread,
};

use rustix::{
    fs::{FileType, OFlags, RenameFlags, XattrFlags},
    io::Errno,
    thread::{CapabilitySet, capabilities},
};
use verimount_bridge::{Caller, NewFile, NodeId, SetAttr};
use verimount_testkit::skip;

use crate::support::{Bench, Process, ROOT, is_root, new_file, set_mode};

const SOMEBODY: Caller = Caller {
    uid: 4321,
    gid: 8765,
    pid: 1,
    request: 0,
};

fn new_of_somebody(mode: u32) -> NewFile {
    NewFile {
        caller: SOMEBODY,
        mode,
        umask: 0,
    }
}

#[test]
fn new_files_belong_to_the_caller() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let (root, new) = (NodeId::ROOT, new_of_somebody(0o640));
    let none = 0;
    let mirror = &bench.mirror;
    let (fifo, file) = (FileType::Fifo, OFlags::RDWR);
    let made = [
        mirror.create(root, "file".as_ref(), new, file).unwrap().0,
        mirror.mkdir(root, "folder".as_ref(), new).unwrap(),
        mirror
            .mknod(root, "fifo".as_ref(), new, fifo, none)
            .unwrap(),
        mirror
            .symlink(root, "link".as_ref(), "target".as_ref(), SOMEBODY)
            .unwrap(),
    ];
    for entry in made {
        assert_eq!(
            (entry.attr.uid, entry.attr.gid),
            (SOMEBODY.uid, SOMEBODY.gid)
        );
    }
    // And root's again after.
    let own = mirror.mkdir(root, "own".as_ref(), new_file(0o755));
    let own = own.unwrap().attr;
    assert_eq!((own.uid, own.gid), (0, 0));
}

/// Then only the kernel can check permissions, and has.
#[test]
fn a_caller_whose_groups_are_unknown_has_access() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    fs::set_permissions(bench.source(), fs::Permissions::from_mode(0o770)).unwrap();
    let new = new_of_somebody(0o600);
    let made = bench
        .mirror
        .mkdir(NodeId::ROOT, "folder".as_ref(), new)
        .unwrap();
    assert_eq!(made.attr.uid, SOMEBODY.uid);
}

#[test]
fn setgid_directories_pass_on_their_group() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    chown(bench.source(), None, Some(77)).unwrap();
    fs::set_permissions(bench.source(), fs::Permissions::from_mode(0o2777)).unwrap();
    let folder = bench
        .mirror
        .mkdir(NodeId::ROOT, "folder".as_ref(), new_of_somebody(0o755));
    let folder = folder.unwrap().attr;
    assert_eq!((folder.gid, folder.mode & 0o7777), (77, 0o2755));
    for (groups, mode) in [(&[][..], 0o755), (&[77], 0o2755)] {
        Process::of(SOMEBODY.uid, SOMEBODY.gid)
            .in_groups(groups)
            .while_waiting(|caller| {
                let new = NewFile {
                    caller,
                    ..new_of_somebody(0o2755)
                };
                let name = format!("{mode:o}");
                let created = bench
                    .mirror
                    .create(NodeId::ROOT, name.as_ref(), new, OFlags::RDWR);
                let file = created.unwrap().0.attr;
                assert_eq!((file.gid, file.mode & 0o7777), (77, mode));
            });
    }
}

#[test]
fn set_id_bits_stay_where_they_are_set_and_go_when_written_to() {
    let bench = Bench::new();
    let flags = OFlags::RDWR;
    let (entry, file) = bench
        .mirror
        .create(NodeId::ROOT, "file".as_ref(), new_file(0o755), flags)
        .unwrap();
    if is_root() {
        chown(bench.source().join("file"), Some(4321), Some(8765)).unwrap();
    }
    let changes = SetAttr {
        mode: Some(0o6755),
        ..SetAttr::default()
    };
    let attr = bench
        .mirror
        .setattr(ROOT, entry.node, &changes, None)
        .unwrap();
    assert_eq!(attr.mode & 0o7777, 0o6755);
    rustix::io::pwrite(file.fd().unwrap(), b"x", 0).unwrap();
    let attr = bench.mirror.getattr(entry.node).unwrap();
    assert_eq!(attr.mode & 0o7777, 0o755);

    bench
        .mirror
        .setattr(ROOT, entry.node, &changes, None)
        .unwrap();
    let truncate = SetAttr {
        size: Some(0),
        ..SetAttr::default()
    };
    let attr = bench
        .mirror
        .setattr(ROOT, entry.node, &truncate, None)
        .unwrap();
    let mode = if is_root() { 0o6755 } else { 0o755 };
    assert_eq!(attr.mode & 0o7777, mode);
}

/// A `chown` that changes neither owner nor group clears set-ID bits.
#[test]
fn chown_by_the_owner_clears_set_id_bits() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let path = bench.source().join("file");
    fs::write(&path, "").unwrap();
    chown(&path, Some(SOMEBODY.uid), Some(0)).unwrap();
    let node = bench.find("file").unwrap().node;
    let stranger = Caller { uid: 1, ..SOMEBODY };
    let given = |caller, mode| {
        set_mode(&path, mode);
        let given = bench
            .mirror
            .setattr(caller, node, &SetAttr::default(), None);
        given.map(|attr| attr.mode & 0o7777)
    };
    assert_eq!(given(SOMEBODY, 0o6755), Ok(0o755));
    assert_eq!(given(ROOT, 0o6755), Ok(0o755));
    assert_eq!(given(ROOT, 0o2745), Ok(0o2745));
    assert_eq!(given(stranger, 0o6755), Ok(0o6755));
    assert_eq!(given(stranger, 0o755), Ok(0o755));
}

/// Unless the owner is in the file's group.
#[test]
fn an_access_control_list_clears_the_set_group_id_bit() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let path = bench.source().join("folder");
    fs::create_dir(&path).unwrap();
    chown(&path, Some(SOMEBODY.uid), Some(77)).unwrap();
    let node = bench.find("folder").unwrap().node;
    // user::rwx, group::rwx, other::r-x
    let list = [
        &2_u32.to_le_bytes()[..],
        &entry(0x01, 7),
        &entry(0x04, 7),
        &entry(0x20, 5),
    ]
    .concat();
    for (groups, mode) in [(&[77][..], 0o2775), (&[78], 0o775)] {
        set_mode(&path, 0o2775);
        let (name, none) = ("system.posix_acl_access".as_ref(), XattrFlags::empty());
        let process = Process::of(SOMEBODY.uid, SOMEBODY.gid).in_groups(groups);
        let set =
            process.while_waiting(|caller| bench.mirror.setxattr(caller, node, name, &list, none));
        if set == Err(Errno::OPNOTSUPP) {
            return skip("no access control lists here");
        }
        set.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode);
    }
}

#[test]
fn a_whiteout_is_the_callers() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    fs::write(bench.source().join("old"), "").unwrap();
    let (old, new) = (
        (NodeId::ROOT, "old".as_ref()),
        (NodeId::ROOT, "new".as_ref()),
    );
    let moved = bench
        .mirror
        .rename(SOMEBODY, old, new, RenameFlags::WHITEOUT);
    if moved == Err(Errno::INVAL) {
        return skip("no whiteouts here");
    }
    moved.unwrap();
    let left = fs::symlink_metadata(bench.source().join("old")).unwrap();
    assert_eq!(
        (left.uid(), left.gid(), left.rdev()),
        (SOMEBODY.uid, SOMEBODY.gid, 0)
    );
}

#[test]
fn threads_that_serve_have_no_more_rights_than_they_need() {
    if !is_root() {
        return;
    }
    let effective = || capabilities(None).unwrap().effective;
    let given_up = CapabilitySet::FSETID | CapabilitySet::SYS_RESOURCE;
    let bench = Bench::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            bench.mirror.rights().prepare_thread().unwrap();
            assert!(!effective().intersects(given_up));
            for mode in [0o755, 0o2755] {
                let name = format!("{mode:o}");
                let new = new_of_somebody(mode);
                bench
                    .mirror
                    .create(NodeId::ROOT, name.as_ref(), new, OFlags::RDWR)
                    .unwrap();
                assert!(!effective().intersects(given_up));
                assert!(effective().contains(CapabilitySet::DAC_OVERRIDE));
            }
        });
    });
}

#[test]
fn a_default_access_control_list_replaces_the_umask() {
    let bench = Bench::new();
    let masked = |mode, umask| NewFile {
        umask,
        ..new_file(mode)
    };
    let make = |name: &str, new| {
        let made = bench.mirror.mkdir(NodeId::ROOT, name.as_ref(), new);
        made.unwrap().attr.mode & 0o7777
    };
    assert_eq!(make("masked", masked(0o777, 0o027)), 0o750);
    assert_eq!(make("differently", masked(0o777, 0o002)), 0o775);
    assert_eq!(make("unmasked", masked(0o777, 0)), 0o777);
    // user::rwx, group::rwx, other::r-x
    let list: Vec<u8> = [
        &2_u32.to_le_bytes()[..],
        &entry(0x01, 7),
        &entry(0x04, 7),
        &entry(0x20, 5),
    ]
    .concat();
    let name = "system.posix_acl_default".as_ref();
    let set = bench
        .mirror
        .setxattr(ROOT, NodeId::ROOT, name, &list, XattrFlags::empty());
    if set.is_err() {
        return skip("no access control lists here");
    }
    assert_eq!(make("listed", masked(0o777, 0o077)), 0o775);
}

/// `struct posix_acl_xattr_entry`.
fn entry(tag: u16, permissions: u16) -> [u8; 8] {
    let mut bytes = [0xff; 8];
    bytes[..2].copy_from_slice(&tag.to_le_bytes());
    bytes[2..4].copy_from_slice(&permissions.to_le_bytes());
    bytes
}
