//! The kernel checks access with owners and permissions that it remembers. Here it has allowed
//! everything, and the source no longer does.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
};

use rustix::{
    fs::{OFlags, RenameFlags, XattrFlags},
    io::Errno,
    thread::CapabilitySet,
};
use verimount_bridge::{Caller, NewFile, NodeId, SetAttr, SetTime, Time};

use crate::support::{Bench, Process, is_root, set_mode};

const USER: u32 = 4321;
const GROUP: u32 = 8765;
const OTHER: u32 = 4322;

/// A file `file` of another user, in a directory that everybody may write to.
fn bench() -> Option<Bench> {
    if !is_root() {
        return None;
    }
    let bench = Bench::new();
    fs::set_permissions(bench.source(), Permissions::from_mode(0o777)).unwrap();
    let path = bench.source().join("file");
    fs::write(&path, "content").unwrap();
    chown(&path, Some(OTHER), Some(OTHER)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    Some(bench)
}

fn user() -> Process {
    Process::of(USER, GROUP)
}

/// All changes of attributes that only an owner may make.
fn owners_changes() -> [SetAttr; 5] {
    let time = SetTime::At(Time {
        seconds: 1,
        nanoseconds: 0,
    });
    let none = SetAttr::default();
    [
        SetAttr {
            mode: Some(0o4755),
            ..none
        },
        SetAttr {
            uid: Some(USER),
            ..none
        },
        SetAttr {
            gid: Some(GROUP),
            ..none
        },
        SetAttr {
            atime: Some(time),
            ..none
        },
        SetAttr {
            mtime: Some(time),
            ..none
        },
    ]
}

#[test]
fn only_the_present_owner_changes_attributes() {
    let Some(bench) = bench() else { return };
    let node = bench.find("file").unwrap().node;
    user().while_waiting(|caller| {
        for changes in owners_changes() {
            let changed = bench.mirror.setattr(caller, node, &changes, None);
            assert_eq!(changed.err(), Some(Errno::PERM), "{changes:?}");
        }
        let list = b"\x02\0\0\0";
        let name = "system.posix_acl_access".as_ref();
        let set = bench
            .mirror
            .setxattr(caller, node, name, list, XattrFlags::empty());
        assert!(
            matches!(set, Err(Errno::PERM | Errno::OPNOTSUPP)),
            "{set:?}"
        );
    });
    let found = fs::metadata(bench.source().join("file")).unwrap();
    assert_eq!(
        (found.uid(), found.gid(), found.mode() & 0o7777),
        (OTHER, OTHER, 0o644)
    );
    // The owner may, but not give it away.
    Process::of(OTHER, OTHER).while_waiting(|caller| {
        let allowed = owners_changes()
            .map(|changes| bench.mirror.setattr(caller, node, &changes, None).is_ok());
        assert_eq!(allowed, [true, false, false, true, true]);
    });
}

#[test]
fn only_who_may_write_changes_times_contents_and_user_attributes() {
    let Some(bench) = bench() else { return };
    let node = bench.find("file").unwrap().node;
    let none = SetAttr::default();
    let now = Some(SetTime::Now);
    let touch = SetAttr {
        atime: now,
        mtime: now,
        ..none
    };
    let truncate = SetAttr {
        size: Some(0),
        ..none
    };
    let all = |caller: Caller| {
        let set = |changes| bench.mirror.setattr(caller, node, &changes, None).is_ok();
        let name = "user.x".as_ref();
        let attribute = bench
            .mirror
            .setxattr(caller, node, name, b"x", XattrFlags::empty());
        [set(touch), set(truncate), attribute != Err(Errno::ACCESS)]
    };
    assert_eq!(user().while_waiting(all), [false; 3]);
    fs::set_permissions(bench.source().join("file"), Permissions::from_mode(0o664)).unwrap();
    assert_eq!(user().while_waiting(all), [false; 3]);
    assert_eq!(user().in_groups(&[5, OTHER]).while_waiting(all), [true; 3]);
    let override_permissions = CapabilitySet::DAC_OVERRIDE;
    assert_eq!(
        user().with(override_permissions).while_waiting(all),
        [true; 3]
    );
}

#[test]
fn the_set_group_id_bit_is_for_members_of_the_present_group() {
    let Some(bench) = bench() else { return };
    let path = bench.source().join("file");
    chown(&path, Some(USER), Some(OTHER)).unwrap();
    let node = bench.find("file").unwrap().node;
    let changes = SetAttr {
        mode: Some(0o2755),
        ..SetAttr::default()
    };
    let set = |caller| {
        let attr = bench.mirror.setattr(caller, node, &changes, None).unwrap();
        attr.mode & 0o7777
    };
    assert_eq!(user().while_waiting(set), 0o755);
    assert_eq!(user().in_groups(&[OTHER]).while_waiting(set), 0o2755);
    assert_eq!(user().while_waiting(set), 0o755);
    assert_eq!(
        user().with(CapabilitySet::FSETID).while_waiting(set),
        0o2755
    );
}

#[test]
fn a_chown_that_keeps_the_owner_clears_the_set_group_id_bit_except_for_members() {
    let Some(bench) = bench() else { return };
    let path = bench.source().join("file");
    let node = bench.find("file").unwrap().node;
    let keep = SetAttr {
        uid: Some(USER),
        gid: Some(OTHER),
        ..SetAttr::default()
    };
    let set = |caller| bench.mirror.setattr(caller, node, &keep, None);
    assert_eq!(user().while_waiting(set).err(), Some(Errno::PERM));
    chown(&path, Some(USER), Some(OTHER)).unwrap();
    let left = |process: Process, mode| {
        set_mode(&path, mode);
        process.while_waiting(set).unwrap().mode & 0o7777
    };
    assert_eq!(left(user(), 0o755), 0o755);
    assert_eq!(left(user(), 0o4755), 0o755);
    assert_eq!(left(user(), 0o2745), 0o745);
    assert_eq!(left(user().in_groups(&[OTHER]), 0o2745), 0o2745);
    assert_eq!(left(user().with(CapabilitySet::FSETID), 0o2745), 0o2745);
    assert_eq!(left(user().in_groups(&[OTHER]), 0o2755), 0o755);
}

#[test]
fn names_in_a_sticky_directory_are_their_owners() {
    let Some(bench) = bench() else { return };
    fs::set_permissions(bench.source(), Permissions::from_mode(0o1777)).unwrap();
    fs::create_dir(bench.source().join("folder")).unwrap();
    bench.find("file").unwrap();
    let (root, file) = (NodeId::ROOT, "file".as_ref());
    let (mine, folder) = ("mine".as_ref(), "folder".as_ref());
    let rename = |caller, flags| {
        bench
            .mirror
            .rename(caller, (root, file), (root, mine), flags)
    };
    user().while_waiting(|caller| {
        let mirror = &bench.mirror;
        assert_eq!(mirror.unlink(caller, root, file), Err(Errno::PERM));
        assert_eq!(mirror.rmdir(caller, root, folder), Err(Errno::PERM));
        assert_eq!(rename(caller, RenameFlags::empty()), Err(Errno::PERM));
        let new = NewFile {
            caller,
            mode: 0o600,
            umask: 0,
        };
        mirror.create(root, mine, new, OFlags::RDWR).unwrap();
        assert_eq!(rename(caller, RenameFlags::empty()), Err(Errno::PERM));
        assert_eq!(rename(caller, RenameFlags::EXCHANGE), Err(Errno::PERM));
        assert_eq!(mirror.unlink(caller, root, mine), Ok(()));
    });
    let fowner = user().with(CapabilitySet::FOWNER);
    assert_eq!(
        fowner.while_waiting(|caller| bench.mirror.rmdir(caller, root, folder)),
        Ok(())
    );
    let owner = Process::of(OTHER, OTHER);
    assert_eq!(
        owner.while_waiting(|caller| rename(caller, RenameFlags::empty())),
        Ok(())
    );
}

#[test]
fn a_closed_directory_is_not_changed() {
    let Some(bench) = bench() else { return };
    fs::create_dir(bench.source().join("folder")).unwrap();
    let folder = bench.find("folder").unwrap().node;
    bench.find("file").unwrap();
    fs::set_permissions(bench.source(), Permissions::from_mode(0o755)).unwrap();
    let (root, name) = (NodeId::ROOT, "name".as_ref());
    user().while_waiting(|caller| {
        let (mirror, new) = (
            &bench.mirror,
            NewFile {
                caller,
                mode: 0o700,
                umask: 0,
            },
        );
        let (from, none) = ((root, "file".as_ref()), RenameFlags::empty());
        let refused = [
            mirror.create(root, name, new, OFlags::RDWR).err(),
            mirror.tmpfile(root, new, OFlags::RDWR).err(),
            mirror.mkdir(root, name, new).err(),
            mirror.symlink(root, name, name, caller).err(),
            mirror.link(caller, folder, root, name).err(),
            mirror.unlink(caller, from.0, from.1).err(),
            mirror.rmdir(caller, root, "folder".as_ref()).err(),
            mirror.rename(caller, from, (root, name), none).err(),
        ];
        // Linux does not link directories, whoever asks.
        let expected = refused.map(|errno| {
            errno
                .filter(|errno| *errno == Errno::PERM)
                .or(Some(Errno::ACCESS))
        });
        assert_eq!(refused, expected);
    });
}

/// Others may write to the directory, but not the members of a group.
#[test]
fn a_group_can_have_less_access_than_others() {
    let Some(bench) = bench() else { return };
    chown(bench.source(), Some(OTHER), Some(OTHER)).unwrap();
    fs::set_permissions(bench.source(), Permissions::from_mode(0o707)).unwrap();
    let make = |name: &'static str| {
        let bench = &bench;
        move |caller| {
            let new = NewFile {
                caller,
                mode: 0o700,
                umask: 0,
            };
            bench.mirror.mkdir(NodeId::ROOT, name.as_ref(), new).is_ok()
        }
    };
    let (stranger, member) = (user(), user().in_groups(&[OTHER]));
    assert!(stranger.while_waiting(make("strangers")));
    assert!(!member.while_waiting(make("members")));
}
