//! The attributes that a plan reports as lost.

use std::{
    collections::BTreeSet,
    fs::{self, File, Permissions},
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::Path,
    time::SystemTime,
};

use rustix::{
    fs::{XattrFlags, setxattr},
    io::Errno,
    process::geteuid,
};
use tempfile::TempDir;
use verimount_romfs::{BlockSize, Options, Plan, VolumeName, plan};
use verimount_scan::Loss;
use verimount_testkit::skip;
use verimount_tree::Example;

use crate::model::scanned;

/// A tree without losses, except for owners if it is not root's: a directory with one file.
fn plain_tree() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), [1; 10_000]).unwrap();
    set_mode(&folder.path().join("file"), 0o644);
    set_mode(folder.path(), 0o755);
    forget_time(&folder.path().join("file"));
    forget_time(folder.path());
    folder
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn forget_time(path: &Path) {
    let file = File::open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
}

fn plan_of(root: &Path) -> Plan {
    let options = Options {
        volume_name: VolumeName::default(),
        block_size: BlockSize::MIN,
    };
    plan(scanned(root), &options).unwrap()
}

/// The kinds of losses, without owners if all of them are lost.
fn lost(plan: &Plan) -> BTreeSet<Loss> {
    let all_owners = !geteuid().is_root();
    let kinds = plan.losses().iter().map(|(loss, _)| loss);
    kinds
        .filter(|loss| *loss != Loss::Owners || !all_owners)
        .collect()
}

/// Sets an attribute, if the file system supports it.
fn set_attribute(path: &Path, name: &str, value: &[u8]) -> bool {
    match setxattr(path, name, value, XattrFlags::empty()) {
        Ok(()) => true,
        Err(Errno::OPNOTSUPP) => {
            skip(format_args!("the file system does not take {name}"));
            false
        }
        Err(errno) => panic!("{name}: {errno}"),
    }
}

#[test]
fn nothing_is_reported_for_kept_attributes() {
    let folder = plain_tree();
    assert_eq!(lost(&plan_of(folder.path())), BTreeSet::new());
    set_mode(&folder.path().join("file"), 0o755);
    assert_eq!(lost(&plan_of(folder.path())), BTreeSet::new());
}

/// A change to a file, which may be unsupported here.
type Change = fn(&Path) -> bool;

#[test]
fn each_kind_of_loss_is_reported() {
    let changes: [(Loss, Change); 6] = [
        (Loss::Times, |file| {
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(1);
            File::open(file).unwrap().set_modified(time).unwrap();
            true
        }),
        (Loss::Owners, |file| {
            geteuid().is_root() && chown(file, None, Some(1)).is_ok()
        }),
        (Loss::SpecialBits, |file| {
            set_mode(file, 0o2644);
            true
        }),
        (Loss::Attributes, |file| {
            set_attribute(file, "user.comment", b"important")
        }),
        (Loss::Capabilities, |file| {
            // A capability set of version 2, empty.
            let value = [&[0, 0, 0, 2][..], &[0; 16]].concat();
            geteuid().is_root() && set_attribute(file, "security.capability", &value)
        }),
        (Loss::Holes, |file| {
            let file = File::options().write(true).open(file).unwrap();
            file.set_len(1 << 20).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
            true
        }),
    ];
    for (loss, change) in changes {
        let folder = plain_tree();
        let file = folder.path().join("file");
        if change(&file) {
            let plan = plan_of(folder.path());
            assert_eq!(lost(&plan), BTreeSet::from([loss]));
            let lost = plan.losses().get(loss).unwrap();
            assert_eq!((lost.count, lost.examples.len()), (1, 1), "{loss:?}");
            assert_eq!(lost.examples[0].path, Path::new("file"));
        }
    }
}

/// Permissions that the image grants to more users than the tree.
#[test]
fn restricted_files_are_reported() {
    let files = [
        (0o644, None),
        (0o444, Some(Loss::Permissions)),
        (0o666, Some(Loss::Permissions)),
        (0o744, Some(Loss::Permissions)),
        (0o600, Some(Loss::Privacy)),
        (0o640, Some(Loss::Privacy)),
        (0o604, Some(Loss::Privacy)),
        (0o711, Some(Loss::Privacy)),
        (0o000, Some(Loss::Privacy)),
    ];
    let directories = [
        (0o755, None),
        (0o555, Some(Loss::Permissions)),
        (0o777, Some(Loss::Permissions)),
        (0o700, Some(Loss::Privacy)),
        (0o750, Some(Loss::Privacy)),
        (0o711, Some(Loss::Privacy)),
        (0o744, Some(Loss::Privacy)),
    ];
    let folder = plain_tree();
    for (name, modes) in [("file", &files[..]), ("", &directories[..])] {
        let path = folder.path().join(name);
        for (mode, loss) in modes {
            set_mode(&path, *mode);
            let lost = lost(&plan_of(folder.path()));
            assert_eq!(lost, loss.iter().copied().collect(), "{name:?} {mode:o}");
        }
        set_mode(&path, if name.is_empty() { 0o755 } else { 0o644 });
    }
}

/// Symbolic links have no permissions; a device is accessible only to root in the image as well.
#[test]
fn links_hide_nothing() {
    let folder = plain_tree();
    symlink("file", folder.path().join("link")).unwrap();
    forget_time(folder.path());
    assert!(!lost(&plan_of(folder.path())).contains(&Loss::Privacy));
}

/// An access control list of these entries: tag, permissions and id.
fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

#[test]
fn denying_lists_are_distinguished_from_allowing_ones() {
    const NOBODY: u32 = u32::MAX;
    // The owner, user 1, the group, the mask, others: access that the mode does not deny.
    let lists = [
        ([6, 4, 4, 4, 4], false),
        ([6, 6, 4, 6, 4], false),
        ([6, 0, 4, 4, 4], true),
        ([6, 4, 0, 4, 4], true),
        ([0, 4, 4, 4, 4], false),
    ];
    for (permissions, denies) in lists {
        let folder = plain_tree();
        let tags = [0x01, 0x02, 0x04, 0x10, 0x20];
        let ids = [NOBODY, 1, NOBODY, NOBODY, NOBODY];
        let entries: Vec<_> = (0..5).map(|i| (tags[i], permissions[i], ids[i])).collect();
        let file = folder.path().join("file");
        if !set_attribute(&file, "system.posix_acl_access", &list(&entries)) {
            return;
        }
        let lost = lost(&plan_of(folder.path()));
        assert!(lost.contains(&Loss::AccessLists), "{permissions:?}");
        assert_eq!(lost.contains(&Loss::Privacy), denies, "{permissions:?}");
    }
}

#[test]
fn a_few_examples_say_what_is_lost_where() {
    let folder = plain_tree();
    fs::create_dir(folder.path().join("directory")).unwrap();
    for number in 0..5 {
        let path = folder.path().join(format!("directory/{number}"));
        fs::write(&path, "").unwrap();
        set_mode(&path, 0o600);
    }
    set_mode(folder.path(), 0o700);
    let plan = plan_of(folder.path());
    let lost = plan.losses().get(Loss::Privacy).unwrap();
    let example = |path: &str, detail: &str| Example {
        path: path.into(),
        detail: detail.into(),
    };
    assert_eq!(lost.count, 6);
    assert_eq!(
        lost.examples,
        [
            example(".", "0700 becomes 0755"),
            example("directory/0", "0600 becomes 0644"),
            example("directory/1", "0600 becomes 0644"),
        ]
    );
}

/// A file has one owner, however many hard links it has.
#[test]
fn a_file_is_counted_once() {
    let folder = plain_tree();
    let file = folder.path().join("file");
    set_mode(&file, 0o600);
    for name in ["another name", "third name"] {
        fs::hard_link(&file, folder.path().join(name)).unwrap();
    }
    let plan = plan_of(folder.path());
    assert_eq!(plan.losses().get(Loss::Privacy).unwrap().count, 1);
}
