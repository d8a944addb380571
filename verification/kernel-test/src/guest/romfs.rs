//! Images look the same mounted by the kernel and by Verimount.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use verimount_support::{command, mount_point::MountPoint};
use verimount_testkit::pattern;

use super::{scratch::Scratch, tests::Tests};

/// Lengths of files around block boundaries.
const SIZES: [usize; 12] = [0, 1, 15, 16, 17, 511, 1023, 1024, 4095, 4096, 4097, 70_000];

const BLOCK_SIZES: [&str; 6] = ["1K", "2K", "4K", "16K", "64K", "1M"];

pub(super) fn run(tests: &Tests, scratch: &Scratch, verimount: &Path) -> Result<()> {
    let tree = scratch.directory("tree")?;
    grow(&tree)?;
    let image = scratch.path().join("image");
    for block_size in BLOCK_SIZES {
        for seal in [&[][..], &["--no-seal"]] {
            tests.test(&format!("built with {block_size}, {seal:?}"), || {
                let mut build = Command::new(verimount);
                build.args(["build", "--format", "romfs", "--widen-permissions"]);
                build.args(["--block-size", block_size]);
                command::stdout(build.args(seal).arg(&tree).arg(&image))?;
                compare(scratch, verimount, &image)
            });
        }
    }
    tests.test("made by genromfs", || {
        let mut genromfs = Command::new("genromfs");
        command::run(genromfs.arg("-f").arg(&image).arg("-d").arg(&tree))?;
        compare(scratch, verimount, &image)
    });
    Ok(())
}

/// Makes a tree with everything that romfs can store.
pub(super) fn grow(root: &Path) -> Result<()> {
    let deep = root.join("a directory/another/and one more");
    fs::create_dir_all(&deep)?;
    fs::create_dir(root.join("empty"))?;
    for folder in [root, &deep] {
        for size in SIZES {
            fs::write(folder.join(format!("{size} bytes")), pattern(size))?;
        }
    }
    let long = "n".repeat(127);
    fs::write(root.join(&long), "a long name")?;
    fs::write(root.join("program"), "#!/bin/true")?;
    fs::set_permissions(root.join("program"), PermissionsExt::from_mode(0o755))?;
    fs::hard_link(root.join("program"), deep.join("linked"))?;
    symlink("../../70000 bytes", deep.join("symbolic"))?;
    symlink("x".repeat(1000), root.join("to nowhere"))?;
    let nodes = [
        ("fifo", FileType::Fifo, 0),
        ("socket", FileType::Socket, 0),
        (
            "character device",
            FileType::CharacterDevice,
            makedev(4, 64),
        ),
        ("block device", FileType::BlockDevice, makedev(7, 200)),
    ];
    for (name, file_type, device) in nodes {
        mknodat(CWD, root.join(name), file_type, Mode::from(0o600), device)?;
    }
    Ok(())
}

/// The visible properties of a file.
#[derive(Debug, PartialEq)]
pub(super) struct Seen {
    mode: u32,
    device: u64,
    /// Its content or its target.
    content: Option<Vec<u8>>,
    /// The first path of the same file.
    same_as: Option<PathBuf>,
}

impl Seen {
    pub(super) fn content(&self) -> Option<&[u8]> {
        self.content.as_deref()
    }
}

/// The visible properties of all files, by path.
pub(super) type Found = BTreeMap<PathBuf, Seen>;

fn compare(scratch: &Scratch, verimount: &Path, image: &Path) -> Result<()> {
    let theirs = {
        let point = scratch.mount(image, "romfs", "loop,ro", "theirs")?;
        walk(point.path())?
    };
    let ours = {
        let point = MountPoint::new(scratch.path().join("ours"))?;
        let mut mount = Command::new(verimount);
        mount.arg("mount").arg(image).arg(point.path());
        command::stdout(mount.args(["--unverified", "--allow-other"]))?;
        walk(point.path())?
    };
    ensure!(
        theirs.len() > SIZES.len() * 2,
        "the kernel sees {} files",
        theirs.len()
    );
    ensure_same(&ours, &theirs)
}

/// Fails unless Verimount shows the same files as the kernel.
pub(super) fn ensure_same(ours: &Found, theirs: &Found) -> Result<()> {
    for (path, theirs) in theirs {
        let ours = ours.get(path);
        let ours = ours.with_context(|| format!("{} is missing", path.display()))?;
        ensure!(
            ours == theirs,
            "{}: {:o} is {:o} to the kernel",
            path.display(),
            ours.mode,
            theirs.mode
        );
    }
    ensure!(ours.len() == theirs.len(), "Verimount shows more files");
    Ok(())
}

pub(super) fn walk(root: &Path) -> Result<Found> {
    let mut found = Found::new();
    let mut first_names = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let mut paths = fs::read_dir(&folder)?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>>>()?;
        paths.sort();
        for path in paths {
            let name = path.strip_prefix(root)?.to_owned();
            let metadata = path.symlink_metadata()?;
            let first = first_names.entry(metadata.ino()).or_insert(name.clone());
            let file_type = metadata.file_type();
            let content = if file_type.is_file() {
                Some(fs::read(&path)?)
            } else if file_type.is_symlink() {
                Some(fs::read_link(&path)?.as_os_str().as_bytes().to_vec())
            } else {
                None
            };
            let is_device = file_type.is_char_device() || file_type.is_block_device();
            let seen = Seen {
                mode: metadata.mode(),
                device: if is_device { metadata.rdev() } else { 0 },
                content,
                same_as: (*first != name).then(|| first.clone()),
            };
            if file_type.is_dir() {
                folders.push(path);
            }
            found.insert(name, seen);
        }
    }
    Ok(found)
}
