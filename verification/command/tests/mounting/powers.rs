//! What owners, set-ID bits and devices in an image allow, only root may allow.

use rustix::fs::StatVfsMountFlags;

use crate::prelude::*;

#[test]
fn only_root_gives_powers() {
    let world = needs!(World::with_mount_point());
    let (image, mnt) = (world.sealed_image("image"), world.path("mnt"));
    if !is_root() {
        for option in ["--suid", "--dev"] {
            let refused = verimount(args!["mount", &image, &mnt, "--unpinned", option]);
            refused.fails_saying("only root");
        }
    }
    for owner in ["--uid", "--gid"] {
        verimount(args![
            "mount",
            &image,
            &mnt,
            "--unpinned",
            "--suid",
            owner,
            "1"
        ])
        .is_wrong_usage();
    }
}

/// The last of the options counts.
#[test]
fn powers_as_options_of_mount() {
    needs!(root_or_skip());
    let world = needs!(World::with_mount_point());
    let (image, mnt) = (world.sealed_image("image"), world.path("mnt"));
    for (options, without) in [
        ("allow_suid,allow_dev", false),
        ("suid,dev,nosuid,nodev", true),
    ] {
        let mounted = Daemon::mount(&image, &mnt, &["--unpinned", "-o", options]);
        let flags = statvfs(&mnt).unwrap().f_flag;
        assert_eq!(flags.contains(StatVfsMountFlags::NOSUID), without);
        assert_eq!(flags.contains(StatVfsMountFlags::NODEV), without);
        mounted.unmount();
    }
}
