//! Images that Verimount makes.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use verimount_testkit::{as_copied, compare, shown};

use crate::{
    Readers,
    bench::{Bench, digest, ensure_same_numbers, quietly},
    tree::Tree,
    utils::{Utils, Version},
};

/// Options of `verimount build` that change the format, and the first version of `fsck.erofs` that reads such images. Version
/// 1.5 reads blocks of 4 KiB only; 1.8.6 fails where the superblock is not in the first block.
pub(crate) const OPTIONS: [(&[&str], Version); 7] = [
    (&["--block-size=4K"], Version::V1_5),
    (&["--block-size=2K"], Version::V1_8_6),
    (&["--block-size=1K"], Version::V1_9_4),
    (&["--block-size=512"], Version::V1_9_4),
    (&["--compress=lz4"], Version::V1_5),
    (&["--compress=lz4,12", "--block-size=1K"], Version::V1_9_4),
    (&["--compress=zstd", "--cluster=128K"], Version::V1_8_6),
];

/// Builds an image twice, and compares what readers show of it with the tree.
pub(crate) fn check(
    bench: &Bench<'_>,
    tree: &Tree,
    options: &[&str],
    since: Version,
) -> Result<Readers> {
    let image = bench.path("written");
    let digest = build(bench, tree.path(), &image, options)?;
    ensure_reproducible(bench, tree, &image, options)?;
    let knows = |utils: &&Utils| utils.version() >= since;
    for utils in bench.versions().iter().filter(knows) {
        let mut fsck = utils.program("fsck.erofs");
        let said = quietly(fsck.arg("-d2").arg(&image))
            .with_context(|| format!("version {}", utils.version()))?;
        // A checksum that does not match does not change the exit code.
        ensure!(
            !said.contains("<E>"),
            "fsck.erofs {}: {said}",
            utils.version()
        );
    }
    let ours = bench.mount_ours(&image, &["--digest", &digest])?;
    let shown_by_us = shown(ours.path())?;
    compare(
        &as_copied(tree.shown().clone()),
        &as_copied(shown_by_us.clone()),
    )
    .context("Verimount and the tree")?;
    ensure_rsync_finds_nothing(tree.path(), ours.path())?;
    let mut readers = Readers {
        kernel: false,
        fsck: true,
    };
    if let Some(theirs) = bench.mount_kernels(&image)? {
        compare(&shown_by_us, &shown(theirs.path())?).context("Verimount and the kernel")?;
        ensure_same_numbers(ours.path(), theirs.path())?;
        ensure_rsync_finds_nothing(tree.path(), theirs.path())?;
        let native = bench.mount_natively(&image, &digest)?;
        compare(&shown_by_us, &shown(native.path())?)
            .context("Verimount and the kernel, natively")?;
        ensure_same_numbers(ours.path(), native.path())?;
        ensure_rsync_finds_nothing(tree.path(), native.path())?;
        readers.kernel = true;
    }
    Ok(readers)
}

/// Builds an image, and returns its digest.
fn build(bench: &Bench<'_>, tree: &Path, image: &Path, options: &[&str]) -> Result<String> {
    let mut build = bench.verimount();
    build.args(["build", "--format", "erofs"]).args(options);
    digest(build.arg(tree).arg(image))
}

/// A copy of the tree, in another order of its entries and other inodes, gives the same image.
fn ensure_reproducible(
    bench: &Bench<'_>,
    tree: &Tree,
    image: &Path,
    options: &[&str],
) -> Result<()> {
    let (copy, again) = (bench.path("copy"), bench.path("again"));
    let mut cp = Command::new("cp");
    quietly(cp.arg("--archive").arg(tree.path()).arg(&copy))?;
    build(bench, &copy, &again, options)?;
    fs::remove_dir_all(copy)?;
    let is_same = fs::read(image)? == fs::read(&again)?;
    fs::remove_file(again)?;
    ensure!(is_same, "a copy of the tree gives another image");
    Ok(())
}

fn ensure_rsync_finds_nothing(tree: &Path, mounted: &Path) -> Result<()> {
    let mut rsync = Command::new("rsync");
    rsync.args(["-aHAXn", "--checksum", "--delete", "--itemize-changes"]);
    let said = quietly(rsync.arg(tree.join(".")).arg(mounted))?;
    ensure!(said.is_empty(), "rsync finds differences:\n{said}");
    Ok(())
}
