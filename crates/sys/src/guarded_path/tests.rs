//! Other users than the one of the tests are the group and all others, who may write to a directory; and, for root, owners.

use std::{
    fs::{self, Permissions},
    io::Read,
    os::unix::fs::{PermissionsExt, chown, symlink},
};

use rustix::fs::{XattrFlags, setxattr};
use tempfile::TempDir;
use verimount_testenv::skip;

use super::*;

/// Two users that are not root.
const USER: u32 = 65_533;
const OTHER: u32 = 65_534;

/// What a path leads to.
fn read(path: &Path) -> io::Result<String> {
    let mut file = GuardedPath::new(path)?.open(OFlags::NONBLOCK, Mode::empty())?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// A directory of this user with a directory `theirs`, in which there is `file`, and with `secret`.
fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    set_mode(&theirs, 0o755);
    fs::write(folder.path().join("secret"), "secret").unwrap();
    fs::write(theirs.join("file"), "file").unwrap();
    (folder, theirs)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[track_caller]
fn is_refused(path: &Path) {
    let kind = read(path).map_err(|error| error.kind());
    assert_eq!(kind, Err(io::ErrorKind::PermissionDenied), "{path:?}");
}

/// With nobody else, paths lead where the kernel says.
#[test]
fn links_with_fixed_names_are_followed() {
    let (folder, _) = folder();
    let at = |name: &str| folder.path().join(name);
    for (target, link) in [
        ("theirs/file", "relative"),
        (at("secret").to_str().unwrap(), "absolute"),
        ("theirs", "directory"),
        ("./directory/../relative", "chain"),
        ("nowhere", "dangling"),
        ("circle", "circle"),
        ("/", "root"),
    ] {
        symlink(target, at(link)).unwrap();
    }
    for name in [
        "secret",
        "relative",
        "absolute",
        "chain",
        "directory/file",
        "directory/../secret",
        "theirs/../theirs/./file",
        "missing",
        "missing/file",
        "secret/file",
        "dangling",
        "circle",
        "circle/file",
        "directory",
        "root/etc/passwd",
        "../../../../../../../../../../etc/passwd",
    ] {
        let by_kernel = fs::read_to_string(at(name));
        let number = |error: io::Error| error.raw_os_error();
        assert_eq!(
            read(&at(name)).map_err(number),
            by_kernel.map_err(number),
            "{name}"
        );
    }
}

/// Whatever is on the way there by name.
#[test]
fn links_of_processes_lead_to_what_is_open() {
    let (_folder, theirs) = folder();
    let private = theirs.join("private");
    fs::create_dir(&private).unwrap();
    set_mode(&private, 0o755);
    symlink("../file", private.join("link")).unwrap();
    set_mode(&theirs, 0o777);
    let [file, directory] = [theirs.join("file"), private].map(|path| File::open(path).unwrap());
    let at = |opened: &File| PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    assert_eq!(read(&at(&directory).join("link")).unwrap(), "file");
    assert_eq!(read(&at(&directory).join("../file")).unwrap(), "file");
    fs::remove_file(theirs.join("file")).unwrap();
    assert_eq!(read(&at(&file)).unwrap(), "file");
}

#[test]
fn links_where_others_may_write_are_not_followed() {
    let (folder, theirs) = folder();
    symlink("../secret", theirs.join("link")).unwrap();
    symlink(folder.path(), theirs.join("directory")).unwrap();
    let private = theirs.join("private");
    fs::create_dir(&private).unwrap();
    set_mode(&private, 0o755);
    symlink("../file", private.join("link")).unwrap();
    for (mode, is_shared) in [
        (0o755, false),
        (0o775, true),
        (0o757, true),
        // Nobody else can change what belongs to this user.
        (0o1777, false),
    ] {
        set_mode(&theirs, mode);
        assert_eq!(read(&theirs.join("file")).unwrap(), "file");
        assert_eq!(read(&theirs.join("private/../file")).unwrap(), "file");
        for path in ["link", "directory/secret", "private/link"] {
            if is_shared {
                is_refused(&theirs.join(path));
            } else {
                assert!(read(&theirs.join(path)).is_ok(), "{mode:o} {path}");
            }
        }
    }
}

/// Such a list for one user more sets the bits of the group, for whom it allows nothing.
#[test]
fn who_may_write_by_an_access_control_list_is_another_user() {
    let (_folder, theirs) = folder();
    symlink("file", theirs.join("link")).unwrap();
    let entry = |tag: u16, rights: u16, id: u32| {
        [
            &tag.to_le_bytes()[..],
            &rights.to_le_bytes(),
            &id.to_le_bytes(),
        ]
        .concat()
    };
    let none = u32::MAX;
    let list = [
        2_u32.to_le_bytes().to_vec(),
        entry(0x01, 7, none),
        entry(0x02, 7, USER),
        entry(0x04, 0, none),
        entry(0x10, 7, none),
        entry(0x20, 0, none),
    ];
    assert_eq!(read(&theirs.join("link")).unwrap(), "file");
    let name = "system.posix_acl_access";
    if setxattr(&theirs, name, &list.concat(), XattrFlags::empty()).is_err() {
        return skip("there are no access control lists here");
    }
    is_refused(&theirs.join("link"));
}

#[test]
fn hard_links_that_others_may_have_made_are_not_opened() {
    let (folder, theirs) = folder();
    fs::hard_link(folder.path().join("secret"), theirs.join("hard")).unwrap();
    symlink("file", folder.path().join("link")).unwrap();
    fs::hard_link(folder.path().join("link"), theirs.join("link")).unwrap();
    for (mode, is_shared) in [(0o755, false), (0o777, true), (0o1777, true)] {
        set_mode(&theirs, mode);
        for name in ["hard", "link"] {
            if is_shared {
                is_refused(&theirs.join(name));
            } else {
                assert!(read(&theirs.join(name)).is_ok(), "{name}");
            }
        }
    }
}

#[test]
fn a_file_among_others_is_this_users_or_its_directorys_owners() {
    if !geteuid().is_root() {
        return skip("only root can give files away");
    }
    let (folder, theirs) = folder();
    let file = theirs.join("file");
    symlink("file", theirs.join("link")).unwrap();
    let own = |path: &Path, user| chown(path, Some(user), None).unwrap();
    own(&theirs, USER);
    is_refused(&theirs.join("link"));
    for owner in [0, USER] {
        own(&file, owner);
        assert_eq!(read(&file).unwrap(), "file");
    }
    own(&file, OTHER);
    is_refused(&file);
    // Those of its owner can have any number of names.
    own(&file, USER);
    fs::hard_link(&file, theirs.join("hard")).unwrap();
    assert_eq!(read(&file).unwrap(), "file");
    // A directory of another user in one that everybody may write to.
    set_mode(folder.path(), 0o1777);
    assert_eq!(read(&file).unwrap(), "file");
    is_refused(&theirs.join("link"));
    own(&folder.path().join("secret"), USER);
    is_refused(&folder.path().join("secret"));
}

#[test]
fn new_files_and_directories_are_where_the_path_leads() {
    let (folder, theirs) = folder();
    let at = |name: &str| folder.path().join(name);
    symlink("theirs/new", at("dangling")).unwrap();
    let create = OFlags::WRONLY | OFlags::CREATE;
    let created = |path: &Path| {
        let guarded = GuardedPath::creating_parents(path)?;
        guarded.open(create, Mode::RUSR)
    };
    for (name, there) in [("dangling", "theirs/new"), ("a/b/c", "a/b/c")] {
        created(&at(name)).unwrap();
        assert!(at(there).is_file());
    }
    set_mode(&theirs, 0o777);
    symlink(at("outside"), theirs.join("dangling")).unwrap();
    for name in ["dangling", "dangling/file"] {
        let refused = created(&theirs.join(name)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(!at("outside").exists());
    }
    created(&theirs.join("own")).unwrap();
}

/// Whatever others do between looking a path up and using it.
#[test]
fn a_path_leads_where_it_led() {
    let (folder, theirs) = folder();
    let fixed = theirs.join("x");
    assert_eq!(GuardedPath::new(&fixed).unwrap().path(), fixed);
    set_mode(&theirs, 0o777);
    let [inner, moved] = ["inner", "moved"].map(|name| theirs.join(name));
    fs::create_dir(&inner).unwrap();
    let guarded = GuardedPath::new(&inner.join("new")).unwrap();
    fs::rename(&inner, &moved).unwrap();
    symlink(folder.path(), &inner).unwrap();
    fs::write(guarded.path(), "text").unwrap();
    assert!(moved.join("new").exists());
    assert!(!folder.path().join("new").exists());
}
