//! Files that ext4 protects with fs-verity have our digests, trees and descriptors.

use std::{
    fs::{self, File},
    num::NonZeroUsize,
    ops::ControlFlow,
    os::unix::fs::FileExt,
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use verimount_source::FileSource;
use verimount_testkit::pattern;
use verimount_verity::{
    BlockSize, DESCRIPTOR_SIZE, HashAlgorithm, SEAL_BLOCK, Salt, SealLayout, TreeParams, seal,
};

use super::{scratch::Scratch, tests::Tests};
use crate::command;

/// Lengths with no and one level of a tree, and just beside.
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

/// The least length with three levels of a tree.
const LARGE: [(HashAlgorithm, usize); 2] = [
    (HashAlgorithm::Sha256, 128 * 128 * 4096 + 1),
    (HashAlgorithm::Sha512, 64 * 64 * 4096 + 1),
];

const SALTS: [&[u8]; 3] = [&[], &[0xA5; 7], &[0x5A; 32]];

/// The size of the file system, in bytes.
const FILE_SYSTEM: u64 = 256 << 20;

pub(super) fn run(tests: &Tests, scratch: &Scratch) -> Result<()> {
    let image = scratch.file("ext4", FILE_SYSTEM)?;
    command::stdout(
        Command::new("mkfs.ext4")
            .args(["-q", "-O", "verity", "-b", "4096"])
            .arg(&image),
    )?;
    let mounted = scratch.mount(&image, "ext4", "rw", "verity")?;
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
    drop(mounted);
    Ok(fs::remove_file(image)?)
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
    enable(path, &params)?;
    let measured = command::stdout(Command::new("fsverity").arg("measure").arg(path))?;
    let digest = measured.split(' ').next().context("nothing was measured")?;
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

fn enable(path: &Path, params: &TreeParams) -> Result<()> {
    let mut enable = Command::new("fsverity");
    enable.arg("enable").arg(path);
    enable.arg(format!("--hash-alg={}", params.algorithm));
    let salt: String = params
        .salt
        .as_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    if !salt.is_empty() {
        enable.arg(format!("--salt={salt}"));
    }
    command::run(&mut enable)
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
