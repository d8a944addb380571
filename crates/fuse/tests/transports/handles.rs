//! File handles, by which programs open files again.

use std::fs::{self, File};

use rustix::{fs::OFlags, io::Errno};
use verimount_fuse::Capabilities;
use verimount_sys::FileHandle;
use verimount_testkit::{error_of, skip};

use crate::mounted::{Mounted, Wanted};

fn handle(mounted: &Mounted, name: &str) -> std::io::Result<FileHandle> {
    FileHandle::of(File::open(mounted.path(name)).unwrap())
}

/// Each mount gives its first file the same number.
#[test]
fn a_handle_from_another_mount_is_stale() {
    let mounts = [(); 2].map(|()| Mounted::new(Wanted::Device));
    let [Some(first), Some(second)] = mounts else {
        return;
    };
    for mounted in [&first, &second] {
        fs::write(mounted.path("file"), "").unwrap();
    }
    let ours = handle(&second, "file").unwrap();
    let theirs = handle(&first, "file").unwrap();
    let root = File::open(second.root()).unwrap();
    let kept = File::open(second.path("file")).unwrap();
    let flags = OFlags::RDONLY.bits().cast_signed();
    assert!(ours.open(&root, flags).is_ok());
    assert_eq!(error_of(theirs.open(&root, flags)), Errno::STALE);
    drop((root, kept));
    first.unmount();
    second.unmount();
}

#[test]
fn a_file_system_without_handles() {
    let without = Capabilities::NO_EXPORT_SUPPORT;
    let Some(mounted) = Mounted::with(Wanted::Device, without) else {
        return;
    };
    fs::write(mounted.path("file"), "").unwrap();
    match handle(&mounted, "file") {
        Ok(_) => skip("this kernel gives handles of all files (Linux 6.9 does not)"),
        refused => assert_eq!(error_of(refused), Errno::OPNOTSUPP),
    }
    mounted.unmount();
}
