//! A read-only mirror cannot be changed in any way.

use std::os::fd::AsRawFd;

use rustix::{
    fs::{FileType, openat},
    mount::mount_remount,
};

use super::{WAYS, mount, read_only, truncate};
use crate::prelude::*;

/// All operations that would change something; each must fail in the same way.
fn changes(at: &Path) -> Vec<Errno> {
    let file = at.join("file");
    let permissions = fs::Permissions::from_mode(0o777);
    let results: [io::Result<()>; 13] = [
        OpenOptions::new().write(true).open(&file).map(drop),
        OpenOptions::new().append(true).open(&file).map(drop),
        File::create(&file).map(drop),
        File::create(at.join("new")).map(drop),
        fs::create_dir(at.join("new")),
        fs::remove_file(&file),
        fs::remove_dir(at.join("folder")),
        fs::rename(&file, at.join("new")),
        fs::hard_link(&file, at.join("new")),
        symlink("target", at.join("new")),
        fs::set_permissions(&file, permissions),
        setxattr(&file, "user.new", b"", XattrFlags::empty()).map_err(Into::into),
        mknodat(CWD, at.join("new"), FileType::Fifo, Mode::RWXU, 0).map_err(Into::into),
    ];
    let nameless = openat(CWD, at, OFlags::TMPFILE | OFlags::RDWR, Mode::RWXU);
    let nameless = nameless.map(drop).map_err(Into::into);
    results
        .into_iter()
        .chain([nameless])
        .map(error_of)
        .collect()
}

/// Tries to write to a file that was opened for reading: by mapping it, and by reopening it.
const ATTEMPTS: &str = "
import errno, mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
assert mmap.mmap(fd, 7, prot=mmap.PROT_READ)[:] == b'content'
try:
    mmap.mmap(fd, 7)
except OSError as error:
    assert error.errno == errno.EACCES, error
else:
    sys.exit('mapped for writing')
private = mmap.mmap(fd, 7, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
private[0:1] = b'C'
for flags in os.O_RDWR, os.O_WRONLY, os.O_RDONLY | os.O_TRUNC:
    try:
        os.open(f'/proc/self/fd/{fd}', flags)
    except OSError as error:
        assert error.errno == errno.EROFS, error
    else:
        sys.exit('opened for writing')
";

#[test]
fn a_read_only_mirror_changes_nothing() {
    for way in WAYS {
        let world = needs!(World::with_source());
        let src = world.path("src");
        fs::write(src.join("file"), "content").unwrap();
        fs::create_dir(src.join("folder")).unwrap();
        let mounted = mount(&world, read_only(way));
        let errors = changes(mounted.directory());
        assert!(
            errors.iter().all(|error| *error == Errno::ROFS),
            "{errors:?}"
        );
        if let Some(truncated) = truncate(&mounted.path("file")) {
            truncated.notes("Read-only");
        }
        if let Some(attempts) = python(ATTEMPTS, &[&mounted.path("file")]) {
            attempts.succeeds();
        }
        // Not even after a remount, which root may do.
        if is_root() {
            mount_remount(mounted.directory(), MountFlags::empty(), "").unwrap();
            let errors = changes(mounted.directory());
            assert!(
                errors.iter().all(|error| *error == Errno::ROFS),
                "{errors:?}"
            );
        }
        assert_eq!(fs::read(mounted.path("file")).unwrap(), b"content");
        mounted.unmount();
        assert_eq!(fs::read_dir(&src).unwrap().count(), 2);
        assert_eq!(fs::read(src.join("file")).unwrap(), b"content");
    }
}

/// A reader's descriptor belongs to the mirror, and cannot be used to reach the source.
#[test]
fn descriptors_lead_to_the_mirror_only() {
    let world = needs!(World::with_source());
    fs::write(world.path("src/file"), "content").unwrap();
    let mounted = mount(&world, read_only("auto"));
    let file = File::open(mounted.path("file")).unwrap();
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
    assert_eq!(path, mounted.path("file"));
    drop(file);
    mounted.unmount();
}
