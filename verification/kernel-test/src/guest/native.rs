//! EROFS images that the kernel reads over verified blocks: with a bit flipped anywhere, what is shown is right, or an error.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use verimount_support::{command, mount_point::MountPoint};
use verimount_testkit::{RichTree, compare, flip_at, shown, unreadable};

use super::{
    linux::{Version, version},
    scratch::Scratch,
    tests::Tests,
};

const TREE: RichTree = RichTree {
    files: 8,
    sizes: &[5000, 40_000],
};

/// The first kernel that mounts EROFS over files.
const OVER_FILES: Version = (6, 12);

/// Of `verimount build`.
const OPTIONS: [&[&str]; 2] = [&[], &["--compress=lz4"]];

/// The bytes of which one has a bit flipped.
const BLOCK: u64 = 4096;

pub(super) fn run(tests: &Tests, scratch: &Scratch, verimount: &Path) -> Result<()> {
    if version()? < OVER_FILES {
        return Ok(());
    }
    let tree = scratch.directory("small")?;
    TREE.grow(&tree)?;
    for options in OPTIONS {
        tests.test(&format!("built with {options:?}"), || {
            let image = scratch.path().join("small.img");
            let mut build = Command::new(verimount);
            build.arg("build").args(options).arg(&tree).arg(&image);
            let said = command::stdout(&mut build)?;
            let (digest, _) = said.split_once(' ').context("no digest")?;
            Native {
                verimount,
                image: &image,
                digest,
                scratch,
            }
            .check()
        });
    }
    Ok(())
}

/// An image with this digest.
struct Native<'a> {
    verimount: &'a Path,
    image: &'a Path,
    digest: &'a str,
    scratch: &'a Scratch,
}

impl Native<'_> {
    fn mount(&self) -> Result<MountPoint> {
        let point = MountPoint::new(self.scratch.path().join("natively"))?;
        let mut mount = Command::new(self.verimount);
        mount.arg("mount").arg(self.image).arg(point.path());
        let options = ["--native", "--allow-other", "--digest", self.digest];
        command::stdout(mount.args(options))?;
        Ok(point)
    }

    fn check(&self) -> Result<()> {
        let theirs = {
            let point = self
                .scratch
                .mount(self.image, "erofs", "loop,ro", "theirs")?;
            shown(point.path())?
        };
        compare(&theirs, &shown(self.mount()?.path())?).context("the kernel, natively and not")?;
        let blocks = fs::metadata(self.image)?.len() / BLOCK;
        let mut refused = 0;
        for block in 0..blocks {
            let byte = block * BLOCK + block % BLOCK;
            flip_at(self.image, byte);
            refused += match self.mount() {
                Ok(point) => {
                    unreadable(point.path(), &theirs).with_context(|| format!("byte {byte}"))?
                }
                Err(_) => 1,
            };
            flip_at(self.image, byte);
        }
        ensure!(refused > 0, "no bit of {blocks} blocks was missed");
        Ok(())
    }
}
