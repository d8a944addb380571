//! File handles: by them overlays, the kernel's NFS server and programs find files again ([overlays](crate::overlays)).

use verimount_sys::FileHandle;

use crate::prelude::*;

/// `cargo xtask kernel-test` looks for files of images by handles, in kernels where they have some.
#[test]
fn an_image_has_no_handles_where_linux_takes_what_they_lead_to_for_outdated() {
    let world = needs!(World::with_mount_point());
    let (image, mnt) = (world.sealed_image("image"), world.path("mnt"));
    let mounted = Daemon::mount(&image, &mnt, &["--unpinned"]);
    match FileHandle::of(File::open(&mnt).unwrap()) {
        Ok(_) => skip("this kernel finds files of FUSE again by handles (Linux 6.16 does not)"),
        Err(error) => assert_eq!(Errno::from_io_error(&error), Some(Errno::OPNOTSUPP)),
    }
    mounted.unmount();
}
