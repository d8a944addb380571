//! Paths longer than the system takes or tells.

use std::{fs::File, os::fd::OwnedFd};

use rustix::{
    fs::{Mode, OFlags, mkdirat, openat, renameat},
    io::Errno,
};

use super::{DENIED, LISTED, SECRETS, bench};
use crate::support::Bench;

/// As many directories as make a path longer than the kernel takes or tells.
const DEEP: usize = 18;

/// The name of each of them.
fn long_name() -> String {
    "n".repeat(255)
}

/// Makes directories in `top`, one in the other, with a file in the last. Returns `top` and the last.
fn deep(bench: &Bench, top: &str) -> (OwnedFd, OwnedFd) {
    let name = long_name();
    let first = OwnedFd::from(File::open(bench.folder.path().join(top)).unwrap());
    let mut last = first.try_clone().unwrap();
    for _ in 0..DEEP {
        mkdirat(&last, &name, Mode::RWXU).unwrap();
        last = openat(&last, &name, OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    openat(&last, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
    (first, last)
}

#[test]
fn rules_apply_below_paths_of_any_length() {
    for policy in [SECRETS, LISTED] {
        let bench = bench(policy);
        let [(public, public_last), (secret, secret_last)] =
            ["pub", "secrets"].map(|top| deep(&bench, top));
        let path = |top: &str| format!("{top}{}", format!("/{}", long_name()).repeat(DEEP));
        let [allowed, denied] = ["pub", "secrets"].map(|top| bench.used(&path(top)));
        let [allowed_file, denied_file] =
            ["pub", "secrets"].map(|top| bench.used(&format!("{}/file", path(top))));
        for (directory, file, expected) in [
            (allowed, allowed_file, Ok(())),
            (denied, denied_file, DENIED),
        ] {
            assert_eq!(bench.open(file, OFlags::RDONLY), expected);
            assert_eq!(bench.truncate(file), expected);
            assert_eq!(bench.create(directory, "new"), expected);
            assert_eq!(bench.make(directory, "made"), expected);
            let renamed = bench.rename((directory, "file"), (directory, "moved"));
            assert_eq!(renamed, expected);
        }
        // Moved in the source, at the top and at the bottom.
        renameat(&public, long_name(), &secret, "moved").unwrap();
        assert_eq!(bench.open(allowed_file, OFlags::RDONLY), DENIED);
        assert_eq!(bench.create(allowed, "newer"), DENIED);
        renameat(&secret_last, "file", &public_last, "file").unwrap();
        let opened = bench.open(denied_file, OFlags::RDONLY);
        assert!(
            matches!(opened, Err(Errno::ACCESS | Errno::STALE)),
            "{opened:?}"
        );
        renameat(&secret, long_name(), &public, "moved").unwrap();
        assert_eq!(bench.create(denied, "newer"), Ok(()));
    }
}
