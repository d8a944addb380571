use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use verimount_support::{command, interrupt, mount_point::MountPoint};
use verimount_testkit::{Shown, ShownTree, as_copied, compare, numbers, shown};

use crate::{
    Readers,
    tree::Tree,
    utils::{Utils, Version},
    variant::{Reader, Variant},
};

/// What images are made and read with.
pub(crate) struct Bench<'a> {
    folder: &'a Path,
    verimount: PathBuf,
    versions: &'a [Utils],
}

impl<'a> Bench<'a> {
    /// Images and mounts are in `folder`.
    pub(crate) fn new(folder: &'a Path, verimount: PathBuf, versions: &'a [Utils]) -> Result<Self> {
        Ok(Self {
            folder,
            verimount,
            versions,
        })
    }

    /// A path for a file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The program that is tested.
    pub(crate) fn verimount(&self) -> Command {
        Command::new(&self.verimount)
    }

    /// All versions of erofs-utils, the newest last.
    pub(crate) fn versions(&self) -> &[Utils] {
        self.versions
    }

    /// Makes an image, and compares what readers show of it.
    pub(crate) fn check_made(
        &self,
        tree: &Tree,
        maker: &Utils,
        variant: &Variant,
    ) -> Result<Readers> {
        let image = self.path("made");
        let mut make = maker.program("mkfs.erofs");
        make.args(variant.options())
            .arg("-U00000000-0000-0000-0000-000000000000")
            .arg(&image)
            .arg(tree.path());
        quietly(&mut make)?;
        let mounted = self.mount_ours(&image, &["--unverified"])?;
        let ours = shown(mounted.path())?;
        let mut readers = Readers::default();
        ensure_stored(tree.shown(), &ours, variant.has_xattrs())?;
        if variant.is_for(Reader::Kernel)
            && let Some(theirs) = self.mount_kernels(&image)?
        {
            compare(&ours, &shown(theirs.path())?).context("Verimount and the kernel")?;
            ensure_same_numbers(mounted.path(), theirs.path())?;
            let digest = digest(self.verimount().arg("seal").arg(&image))?;
            let native = self.mount_natively(&image, &digest)?;
            compare(&ours, &shown(native.path())?).context("Verimount and the kernel, natively")?;
            ensure_same_numbers(mounted.path(), native.path())?;
            readers.kernel = true;
        }
        if variant.is_for(Reader::Fsck) {
            compare_with_extracted(ours, self.extracted(&image)?)?;
            readers.fsck = true;
        }
        Ok(readers)
    }

    /// Verimount's mount of an image.
    pub(crate) fn mount_ours(&self, image: &Path, options: &[&str]) -> Result<MountPoint> {
        self.mount(image, "ours", options)
    }

    /// Verimount's mount of an image that the kernel reads.
    pub(crate) fn mount_natively(&self, image: &Path, digest: &str) -> Result<MountPoint> {
        let options = ["--native", "--allow-other", "--digest", digest];
        self.mount(image, "native", &options)
    }

    fn mount(&self, image: &Path, name: &str, options: &[&str]) -> Result<MountPoint> {
        let point = MountPoint::new(self.path(name))?;
        let mut mount = self.verimount();
        mount.arg("mount").arg(image).arg(point.path());
        quietly(mount.args(options))?;
        Ok(point)
    }

    /// The kernel's mount of an image; `None` if it refuses it.
    pub(crate) fn mount_kernels(&self, image: &Path) -> Result<Option<MountPoint>> {
        let point = MountPoint::new(self.path("kernels"))?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "erofs", "-o", "ro"]);
        mount.arg(image).arg(point.path()).stderr(Stdio::null());
        let status = mount.status()?;
        interrupt::check()?;
        Ok(status.success().then_some(point))
    }

    /// What the newest `fsck.erofs` extracts of an image, or the next: the newest does not read every form that older versions
    /// wrote, and version 1.8.6 does not read its own blocks of 1 KiB.
    fn extracted(&self, image: &Path) -> Result<ShownTree> {
        let newest = self.versions.iter().rev();
        // Version 1.5 loses bits of permissions.
        let mut attempts = newest
            .filter(|utils| utils.version() > Version::V1_5)
            .map(|utils| self.extracted_by(utils, image));
        let first = attempts.next().context("no fsck.erofs is new enough")?;
        first.or_else(|error| attempts.find_map(Result::ok).ok_or(error))
    }

    fn extracted_by(&self, utils: &Utils, image: &Path) -> Result<ShownTree> {
        let folder = tempfile::tempdir_in(self.folder)?;
        let to = folder.path().join("extracted");
        let mut extract = utils.program("fsck.erofs");
        extract.arg(format!("--extract={}", to.display()));
        quietly(extract.arg("--preserve").arg(image))?;
        Ok(shown(&to)?)
    }
}

/// Fails if two mounts of an image have other inode numbers.
pub(crate) fn ensure_same_numbers(ours: &Path, theirs: &Path) -> Result<()> {
    let (ours, theirs) = (numbers(ours)?, numbers(theirs)?);
    for (path, found) in &theirs {
        ensure!(
            ours.get(path) == Some(found),
            "Verimount shows {path:?} with the numbers {:?}, the kernel {found:?}",
            ours.get(path)
        );
    }
    Ok(())
}

/// Fails if an image has not the contents and extended attributes of the tree that it was made of. The rest can be changed by
/// options.
fn ensure_stored(tree: &ShownTree, image: &ShownTree, has_xattrs: bool) -> Result<()> {
    let paths = |tree: &ShownTree| tree.keys().cloned().collect::<Vec<_>>();
    ensure!(paths(tree) == paths(image), "Verimount shows other names");
    for (path, stored) in tree {
        let shown = &image[path];
        let is_same =
            stored.content == shown.content && (stored.xattrs == shown.xattrs || !has_xattrs);
        ensure!(
            is_same,
            "Verimount shows {path:?} as {shown:?}, not {stored:?}"
        );
    }
    Ok(())
}

/// Compares what Verimount shows with what `fsck.erofs` extracts, as far as that is right. Holes at the end of a file are left
/// out. Empty attributes are not set. Files get the default access list of their directory, and lose capabilities when their
/// owners are set.
fn compare_with_extracted(ours: ShownTree, extracted: ShownTree) -> Result<()> {
    let ends_with_hole = |file: &Shown| file.data.last().is_none_or(|last| last.end < file.size);
    let lost: Vec<_> = ours
        .iter()
        .filter(|(_, file)| file.is_regular() && ends_with_hole(file))
        .map(|(path, _)| path.clone())
        .collect();
    let [ours, extracted] = [ours, extracted].map(|tree| {
        let mut tree = as_copied(tree);
        tree.retain(|path, _| !lost.contains(path));
        tree.values_mut().for_each(|file| file.xattrs.clear());
        tree
    });
    compare(&ours, &extracted).context("Verimount and fsck.erofs")
}

/// The digest that a command prints first.
pub(crate) fn digest(command: &mut Command) -> Result<String> {
    let said = quietly(command)?;
    let digest = said.split(' ').next();
    Ok(digest.context("no digest")?.to_owned())
}

/// Runs a command; what it prints is shown only if it fails.
pub(crate) fn quietly(command: &mut Command) -> Result<String> {
    let described = command::describe(command);
    let output = command.stdin(Stdio::null()).output();
    interrupt::check()?;
    let output = output.with_context(|| format!("cannot run `{described}`"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{described}`: {}\n{text}{said}", output.status);
    }
    Ok(text)
}
