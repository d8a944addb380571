//! EROFS images show the tree that they were made of, mounted by the kernel and by Verimount.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use verimount_support::{command, mount_point::MountPoint};
use verimount_testkit::{RichTree, ShownTree, as_copied, compare, shown};

use super::{
    linux::{Version, version},
    scratch::Scratch,
    tests::Tests,
};

const TREE: RichTree = RichTree {
    files: 80,
    sizes: &[4095, 4096, 4097, 20_000, 70_001],
};

/// The first kernel that reads blocks smaller than its pages.
const SMALL_BLOCKS: Version = (6, 4);

/// The kernel that first read EROFS.
const EROFS: Version = (5, 4);

/// Options of `verimount build` that change the format, and the kernels that read it.
const OURS: [(&[&str], Version); 5] = [
    (&["--block-size=4K"], EROFS),
    (&["--block-size=1K"], SMALL_BLOCKS),
    (&["--block-size=512"], SMALL_BLOCKS),
    (&["--compress=lz4"], EROFS),
    (&["--compress=lz4,9", "--cluster=64K"], EROFS),
];

/// Options of `mkfs.erofs` that change the format. Chunks need a file in `/tmp`, where a guest cannot write.
const OPTIONS: [&[&str]; 5] = [
    &[],
    &["-x1", "-Eforce-inode-extended"],
    &["-zlz4hc", "-C65536"],
    &["-zlz4", "-Eztailpacking"],
    &["-zlz4", "-Elegacy-compress"],
];

pub(super) fn run(tests: &Tests, scratch: &Scratch, verimount: &Path) -> Result<()> {
    let bench = Bench::new(scratch, verimount)?;
    let version = version()?;
    let known = OURS.iter().filter(|(_, since)| *since <= version);
    for (options, _) in known {
        for seal in [&[][..], &["--no-seal"]] {
            tests.test(&format!("built with {options:?}, {seal:?}"), || {
                let mut build = Command::new(verimount);
                build.args(["build", "--format", "erofs"]).args(*options);
                bench.check(build.args(seal).arg(&bench.tree).arg(&bench.image))
            });
        }
    }
    for options in OPTIONS {
        tests.test(&format!("made by mkfs.erofs, {options:?}"), || {
            let mut make = Command::new("mkfs.erofs");
            // It would print names, which need not be text.
            bench.check(
                make.arg("--quiet")
                    .args(options)
                    .arg(&bench.image)
                    .arg(&bench.tree),
            )
        });
    }
    Ok(())
}

/// A tree, what it shows, and the image that is made of it.
struct Bench<'a> {
    scratch: &'a Scratch,
    verimount: &'a Path,
    tree: PathBuf,
    expected: ShownTree,
    image: PathBuf,
}

impl<'a> Bench<'a> {
    fn new(scratch: &'a Scratch, verimount: &'a Path) -> Result<Self> {
        let tree = scratch.directory("tree")?;
        TREE.grow(&tree)?;
        Ok(Self {
            scratch,
            verimount,
            expected: as_copied(shown(&tree)?),
            tree,
            image: scratch.path().join("image"),
        })
    }

    /// Makes an image, and compares both mounts with the tree.
    fn check(&self, make: &mut Command) -> Result<()> {
        command::stdout(make)?;
        let theirs = {
            let point = self
                .scratch
                .mount(&self.image, "erofs", "loop,ro", "theirs")?;
            shown(point.path())?
        };
        compare(&self.expected, &as_copied(theirs)).context("the tree and the kernel")?;
        let point = MountPoint::new(self.scratch.path().join("ours"))?;
        let mut mount = Command::new(self.verimount);
        mount.arg("mount").arg(&self.image).arg(point.path());
        command::stdout(mount.arg("--unverified"))?;
        let ours = shown(point.path())?;
        compare(&self.expected, &as_copied(ours)).context("the tree and Verimount")
    }
}
