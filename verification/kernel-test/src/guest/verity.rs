//! ext4's fs-verity files have the same digests, trees and descriptors as Verimount's.

use std::{
    fs::{self, File},
    num::NonZeroUsize,
    ops::ControlFlow,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use verimount_source::FileSource;
use verimount_support::command;
use verimount_testkit::pattern;
use verimount_verity::{
    BlockSize, DESCRIPTOR_SIZE, HashAlgorithm, SEAL_BLOCK, Salt, SealLayout, TreeParams, seal,
};

use super::{
    extents::{BLOCK, Extents},
    scratch::Scratch,
    tests::Tests,
};

/// Lengths around the boundaries of trees with zero and one level.
const SIZES: [usize; 8] = [
    0,
    1,
    4095,
    4096,
    4097,
    128 * 4096 - 1,
    128 * 4096,
    128 * 4096 + 1,
];

/// The least length with three tree levels.
const LARGE: [(HashAlgorithm, usize); 2] = [
    (HashAlgorithm::Sha256, 128 * 128 * 4096 + 1),
    (HashAlgorithm::Sha512, 64 * 64 * 4096 + 1),
];

const SALTS: [&[u8]; 3] = [&[], &[0xA5; 7], &[0x5A; 32]];

/// The size of the file system, in bytes.
const FILE_SYSTEM: u64 = 256 << 20;

pub(super) fn run(tests: &Tests, scratch: &Scratch) -> Result<()> {
    let image = make_file_system(scratch)?;
    let mounted = scratch.mount(&image, "ext4", "loop,rw", "verity")?;
    let file = mounted.path().join("file");
    let test = |size, algorithm, salt: &[u8]| {
        let test = format!("{size} bytes, {algorithm}, {} bytes of salt", salt.len());
        tests.test(&test, || compare(&file, size, algorithm, salt));
    };
    for size in SIZES {
        for algorithm in [HashAlgorithm::Sha256, HashAlgorithm::Sha512] {
            for salt in SALTS {
                test(size, algorithm, salt);
            }
        }
    }
    for (algorithm, size) in LARGE {
        test(size, algorithm, SALTS[1]);
    }
    for size in SIZES {
        tests.test(&format!("{size} bytes, as they are stored"), || {
            compare_stored(&image, &file, size)
        });
    }
    drop(mounted);
    Ok(fs::remove_file(image)?)
}

/// A file system that can verify files.
pub(super) fn make_file_system(scratch: &Scratch) -> Result<PathBuf> {
    let image = scratch.file("ext4", FILE_SYSTEM)?;
    command::stdout(
        Command::new("mkfs.ext4")
            .args(["-q", "-O", "verity", "-b"])
            .arg(BLOCK.to_string())
            .arg(&image),
    )?;
    Ok(image)
}

/// ext4 stores a file in the same layout as Verimount's appended seal.
fn compare_stored(image: &Path, path: &Path, size: usize) -> Result<()> {
    fs::write(path, pattern(size))?;
    let sealed = tempfile::tempfile_in("/run")?;
    sealed.write_all_at(&pattern(size), 0)?;
    let data = FileSource::new(sealed.try_clone()?)?;
    seal(
        &data,
        &sealed,
        SealLayout::Appended,
        &TreeParams::default(),
        NonZeroUsize::MIN,
        &mut |_| ControlFlow::Continue(()),
    )?;
    enable(path, &[])?;
    let stored = Extents::of(path)?.read(image)?;
    let ours = read(&sealed, 0, sealed.metadata()?.len() as usize)?;
    ensure!(
        stored.len() == ours.len(),
        "ext4 stores {} bytes, Verimount {}",
        stored.len(),
        ours.len()
    );
    ensure!(stored == ours, "ext4 stores something else");
    Ok(fs::remove_file(path)?)
}

fn compare(path: &Path, size: usize, algorithm: HashAlgorithm, salt: &[u8]) -> Result<()> {
    let params = TreeParams {
        algorithm,
        block_size: BlockSize::new(4096)?,
        salt: Salt::new(salt)?,
    };
    fs::write(path, pattern(size))?;
    let source = FileSource::open(path)?;
    let sealed = tempfile::tempfile_in("/run")?;
    let descriptor = seal(
        &source,
        &sealed,
        SealLayout::Sidecar,
        &params,
        NonZeroUsize::MIN,
        &mut |_| ControlFlow::Continue(()),
    )?;
    drop(source);
    let salt: String = salt.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut options = vec![format!("--hash-alg={algorithm}")];
    options.extend((!salt.is_empty()).then(|| format!("--salt={salt}")));
    let digest = enable(path, &options)?;
    ensure!(
        digest == descriptor.file_digest().to_string(),
        "the kernel says {digest}"
    );

    let tree_size = descriptor.geometry().tree_size() as usize;
    let ours = read(&sealed, 0, tree_size)?;
    ensure!(ours == dump("merkle_tree", path)?, "the trees differ");
    let end = sealed.metadata()?.len();
    let ours = read(&sealed, end - SEAL_BLOCK, DESCRIPTOR_SIZE)?;
    ensure!(ours == dump("descriptor", path)?, "the descriptors differ");
    Ok(fs::remove_file(path)?)
}

/// Enables fs-verity for a file; returns the digest that the kernel measures.
pub(super) fn enable(path: &Path, options: &[String]) -> Result<String> {
    let mut enable = Command::new("fsverity");
    command::run(enable.arg("enable").arg(path).args(options))?;
    let measured = command::stdout(Command::new("fsverity").arg("measure").arg(path))?;
    let digest = measured.split(' ').next();
    Ok(digest.context("nothing was measured")?.to_owned())
}

fn dump(what: &str, path: &Path) -> Result<Vec<u8>> {
    let mut dump = Command::new("fsverity");
    dump.args(["dump_metadata", what]).arg(path);
    let output = dump.output()?;
    command::check(&dump, Ok(output.status))?;
    Ok(output.stdout)
}

fn read(file: &File, offset: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}
