//! Images sealed for dm-verity by either side look the same through the kernel's device and through
//! Verimount's mount, and a changed byte is an error in both.
//!
//! The kernel's romfs reads blocks of 1 KiB, and so not from a device with larger data blocks. With those, the images are of
//! EROFS, whose blocks are as large.

mod device;

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use verimount_support::{command, mount_point::MountPoint};
use verimount_testkit::noise;

use self::device::{Device, veritysetup};
use super::{
    romfs::{self, Seen},
    scratch::Scratch,
    tests::Tests,
};

/// The file that is damaged, and its length: more than the kernel's read-ahead.
const LARGE: (&str, usize) = ("large", 1 << 20);

/// Pairs of sizes of data and hash blocks. The kernel supports none larger than its page.
const BLOCK_SIZES: [(&str, &str); 4] = [
    ("512", "1024"),
    ("1024", "4096"),
    ("4096", "1024"),
    ("4096", "4096"),
];

/// The largest data blocks that the kernel's romfs supports.
const ROMFS_BLOCK: usize = 1024;

const SALTS: [&str; 2] = [
    "",
    "a5a5a5a5a5a5a5a55a5a5a5a5a5a5a5aa5a5a5a5a5a5a5a55a5a5a5a5a5a5a5a",
];

/// The program that seals an image.
#[derive(Debug, Clone, Copy)]
enum Sealer {
    Veritysetup,
    Verimount,
}

/// How an image is sealed.
#[derive(Debug, Clone, Copy)]
struct Kind {
    sealer: Sealer,
    hash: &'static str,
    block_sizes: (&'static str, &'static str),
    salt: &'static str,
    is_appended: bool,
}

pub(super) fn run(tests: &Tests, scratch: &Scratch, verimount: &Path) -> Result<()> {
    let tree = scratch.directory("tree")?;
    romfs::grow(&tree)?;
    fs::write(tree.join(LARGE.0), noise(LARGE.1, 9))?;
    for (file_system, options) in [
        ("romfs", &["--widen-permissions"][..]),
        ("erofs", &["--block-size=4K"]),
    ] {
        let mut build = Command::new(verimount);
        build.args(["build", "--no-seal", "--format", file_system]);
        build.args(options).arg(&tree);
        command::stdout(build.arg(scratch.path().join(file_system)))?;
    }
    for kind in kinds() {
        tests.test(&format!("{kind:?}"), || {
            let sealed = scratch.path().join("sealed");
            let file_system = kind.file_system()?;
            fs::copy(scratch.path().join(file_system), &sealed)?;
            Bench::new(scratch, verimount, sealed, kind)?.compare(file_system)
        });
    }
    Ok(())
}

impl Kind {
    /// The file system that the kernel reads from a device with such data blocks.
    fn file_system(&self) -> Result<&'static str> {
        if self.block_sizes.0.parse::<usize>()? <= ROMFS_BLOCK {
            Ok("romfs")
        } else {
            Ok("erofs")
        }
    }
}

fn kinds() -> Vec<Kind> {
    let mut kinds = Vec::new();
    for sealer in [Sealer::Veritysetup, Sealer::Verimount] {
        for hash in ["sha256", "sha512"] {
            for block_sizes in BLOCK_SIZES {
                for (is_appended, salt) in [(false, SALTS[0]), (true, SALTS[1])] {
                    kinds.push(Kind {
                        sealer,
                        hash,
                        block_sizes,
                        salt,
                        is_appended,
                    });
                }
            }
        }
    }
    kinds
}

/// A sealed image.
struct Bench<'a> {
    scratch: &'a Scratch,
    verimount: &'a Path,
    image: PathBuf,
    /// The file with the hash area.
    hashes: PathBuf,
    root_hash: String,
    /// The number of bytes of data in the image.
    size: u64,
    /// The offset of the superblock in that file.
    hash_offset: u64,
}

impl<'a> Bench<'a> {
    fn new(scratch: &'a Scratch, verimount: &'a Path, image: PathBuf, kind: Kind) -> Result<Self> {
        let size = fs::metadata(&image)?.len();
        let sidecar = scratch.path().join("sealed.verity");
        let mut bench = Self {
            scratch,
            verimount,
            hashes: if kind.is_appended {
                image.clone()
            } else {
                sidecar
            },
            image,
            root_hash: String::new(),
            size,
            hash_offset: if kind.is_appended { size } else { 0 },
        };
        bench.root_hash = match kind.sealer {
            Sealer::Veritysetup => bench.seal_with_veritysetup(kind)?,
            Sealer::Verimount => bench.seal_with_verimount(kind)?,
        };
        Ok(bench)
    }

    fn seal_with_verimount(&self, kind: Kind) -> Result<String> {
        let mut seal = Command::new(self.verimount);
        seal.args(["seal", "--format", "dm-verity"])
            .arg(&self.image);
        seal.args(["--hash-alg", kind.hash, "--salt", kind.salt]);
        let (data, hash) = kind.block_sizes;
        seal.args(["--data-block-size", data, "--tree-block-size", hash]);
        if kind.is_appended {
            seal.arg("--append");
        }
        let said = command::stdout(&mut seal)?;
        let (root_hash, _) = said.split_once(' ').context("no root hash")?;
        Ok(root_hash.to_owned())
    }

    fn seal_with_veritysetup(&self, kind: Kind) -> Result<String> {
        let (data, hash) = kind.block_sizes;
        let data_blocks = self.size / data.parse::<u64>()?;
        let mut format = veritysetup("format");
        format.arg(&self.image).arg(&self.hashes);
        format.arg(format!("--hash={}", kind.hash));
        format.arg(format!(
            "--salt={}",
            if kind.salt.is_empty() { "-" } else { kind.salt }
        ));
        format.arg(format!("--data-block-size={data}"));
        format.arg(format!("--hash-block-size={hash}"));
        format.arg(format!("--data-blocks={data_blocks}"));
        format.arg(format!("--hash-offset={}", self.hash_offset));
        let said = command::stdout(&mut format)?;
        let root_hash = said
            .lines()
            .find_map(|line| line.strip_prefix("Root hash:"));
        Ok(root_hash.context("no root hash")?.trim().to_owned())
    }

    /// Compares the files on both sides, also after a byte has changed.
    fn compare(&self, file_system: &str) -> Result<()> {
        let kernels = |device: &Device| {
            self.scratch
                .mount(&device.path(), file_system, "ro", "theirs")
        };
        let theirs = {
            let device = Device::open(self)?;
            romfs::walk(kernels(&device)?.path())?
        };
        let ours = romfs::walk(self.mount()?.path())?;
        romfs::ensure_same(&ours, &theirs)?;
        let name = Path::new(LARGE.0);
        ensure!(theirs.contains_key(name), "nothing was mounted");

        self.damage()?;
        let device = Device::open(self)?;
        let point = kernels(&device)?;
        ensure_refused(point.path(), &theirs).context("the kernel")?;
        ensure_refused(self.mount()?.path(), &theirs).context("verimount")
    }

    /// Verimount's mount.
    fn mount(&self) -> Result<MountPoint> {
        let point = MountPoint::new(self.scratch.path().join("ours"))?;
        let mut mount = Command::new(self.verimount);
        mount.arg("mount").arg(&self.image).arg(point.path());
        mount.args(["--root-hash", &self.root_hash, "--allow-other"]);
        if self.hashes == self.image {
            mount.arg(format!("--hash-offset={}", self.hash_offset));
        }
        command::stdout(&mut mount)?;
        Ok(point)
    }

    /// Changes a byte in the middle of the large file.
    fn damage(&self) -> Result<()> {
        let content = noise(LARGE.1, 9);
        let image = fs::read(&self.image)?;
        let place = image
            .windows(64)
            .position(|bytes| bytes == &content[..64])
            .context("the file is not in the image")?
            + LARGE.1 / 2;
        let file = File::options().write(true).open(&self.image)?;
        Ok(file.write_all_at(&[!image[place]], place as u64)?)
    }
}

/// The damaged file cannot be read, and another one is unchanged.
fn ensure_refused(root: &Path, before: &romfs::Found) -> Result<()> {
    ensure_io_error(fs::read(root.join(LARGE.0)))?;
    let other = Path::new("70000 bytes");
    let content = before.get(other).and_then(Seen::content);
    ensure!(
        Some(fs::read(root.join(other))?.as_slice()) == content,
        "another file has changed"
    );
    Ok(())
}

fn ensure_io_error<T>(read: io::Result<T>) -> Result<()> {
    let error = read.err();
    let number = error.as_ref().and_then(io::Error::raw_os_error);
    ensure!(
        number == Some(Errno::IO.raw_os_error()),
        "what was damaged: {error:?}"
    );
    Ok(())
}
