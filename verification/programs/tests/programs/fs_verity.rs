//! Digest, tree and descriptor are those of the `fsverity` tool, byte for byte.

use std::{
    fs::{self, File},
    num::NonZeroUsize,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
};

use verimount_source::FileSource;
use verimount_testkit::{all_or_one, go_on, is_exhaustive, pattern, tools};
use verimount_verity::{
    BlockSize, DESCRIPTOR_SIZE, HashAlgorithm, SEAL_BLOCK, Salt, SealLayout, TreeParams, seal,
};

const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// What the tool and we say about one file with one set of parameters.
#[derive(PartialEq)]
struct Sealing {
    digest: String,
    tree: Vec<u8>,
    descriptor: Vec<u8>,
}

/// A file to be sealed, and room for what becomes of it.
struct Bench {
    folder: tempfile::TempDir,
    tool: PathBuf,
}

impl Bench {
    /// `None`, after a note, where the tool is missing.
    fn new() -> Option<Self> {
        let tool = tools::find("fsverity")?;
        let folder = tempfile::tempdir().unwrap();
        Some(Self { folder, tool })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn theirs(&self, data: &Path, params: &TreeParams) -> Sealing {
        let (tree, descriptor) = (self.path("tree"), self.path("descriptor"));
        let mut command = Command::new(&self.tool);
        command.arg("digest").arg(data);
        command.arg(format!("--hash-alg={}", params.algorithm));
        command.arg(format!("--block-size={}", params.block_size.bytes()));
        if !params.salt.as_bytes().is_empty() {
            command.arg(format!("--salt={}", hex(params.salt.as_bytes())));
        }
        command.arg("--out-merkle-tree").arg(&tree);
        command.arg("--out-descriptor").arg(&descriptor);
        let output = command.output().unwrap();
        assert!(
            output.status.success(),
            "the tool refused {params:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let said = String::from_utf8(output.stdout).unwrap();
        Sealing {
            digest: said.split_once(' ').unwrap().0.to_owned(),
            tree: fs::read(tree).unwrap(),
            descriptor: fs::read(descriptor).unwrap(),
        }
    }

    /// Ours, taken out of what sealing stored, at the places that `docs/formats/fs-verity.md` names.
    fn ours(&self, data: &Path, layout: SealLayout, params: &TreeParams) -> Sealing {
        let sealed = self.path("sealed");
        let size = fs::metadata(data).unwrap().len();
        let tree_at = match layout {
            SealLayout::Appended => {
                fs::copy(data, &sealed).unwrap();
                size.next_multiple_of(65536)
            }
            SealLayout::Sidecar => {
                fs::write(&sealed, []).unwrap();
                0
            }
        };
        let file = File::options()
            .read(true)
            .write(true)
            .open(&sealed)
            .unwrap();
        let source = FileSource::open(data).unwrap();
        let descriptor = seal(&source, &file, layout, params, TWO, &mut go_on).unwrap();

        let end = file.metadata().unwrap().len();
        let mut trailer = [0; 4];
        file.read_exact_at(&mut trailer, end - 4).unwrap();
        assert_eq!(u32::from_le_bytes(trailer) as usize, DESCRIPTOR_SIZE);
        // The descriptor has the last block for itself.
        let tree_len = (end - SEAL_BLOCK - tree_at) as usize;
        let stored_tree = descriptor.geometry().tree_size() as usize;
        assert!((stored_tree..stored_tree + SEAL_BLOCK as usize).contains(&tree_len));
        Sealing {
            digest: descriptor.file_digest().to_string(),
            tree: read(&file, tree_at, stored_tree),
            descriptor: read(&file, end - SEAL_BLOCK, DESCRIPTOR_SIZE),
        }
    }

    #[track_caller]
    fn compare(&self, data: &Path, layout: SealLayout, params: &TreeParams) {
        let (theirs, ours) = (self.theirs(data, params), self.ours(data, layout, params));
        let size = fs::metadata(data).unwrap().len();
        assert_eq!(
            ours.digest, theirs.digest,
            "{size} bytes, {layout:?}, {params:?}"
        );
        assert!(
            ours == theirs,
            "tree or descriptor differ: {size} bytes, {layout:?}, {params:?}"
        );
    }

    /// All block sizes for a file of each of these sizes; with all salts in exhaustive runs, else with one, in turns.
    fn compare_all(&self, algorithm: HashAlgorithm, sizes: &[usize], layout: SealLayout) {
        let data = self.path("data");
        for (number, &size) in sizes.iter().enumerate() {
            fs::write(&data, pattern(size)).unwrap();
            for log2 in 10..=16 {
                for salt in all_or_one(&SALTS, number + usize::from(log2)) {
                    let params = TreeParams {
                        algorithm,
                        block_size: BlockSize::from_log2(log2).unwrap(),
                        salt: Salt::new(salt).unwrap(),
                    };
                    self.compare(&data, layout, &params);
                }
            }
        }
    }
}

fn read(file: &File, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset).unwrap();
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Around the edges of blocks and of levels, for the usual hash and block size: 128 digests a block.
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

const SALTS: [&[u8]; 3] = [&[], &[0x5a], &[0xa5; 32]];

/// Three levels.
const THREE_LEVELS: usize = 128 * 128 * 4096 + 1;

#[test]
fn sha256_appended() {
    let Some(bench) = Bench::new() else { return };
    bench.compare_all(HashAlgorithm::Sha256, &SIZES, SealLayout::Appended);
}

#[test]
fn sha512_appended() {
    let Some(bench) = Bench::new() else { return };
    bench.compare_all(HashAlgorithm::Sha512, &SIZES, SealLayout::Appended);
}

#[test]
fn sha256_beside() {
    let Some(bench) = Bench::new() else { return };
    bench.compare_all(HashAlgorithm::Sha256, &SIZES, SealLayout::Sidecar);
}

#[test]
fn sha512_beside() {
    let Some(bench) = Bench::new() else { return };
    bench.compare_all(HashAlgorithm::Sha512, &SIZES, SealLayout::Sidecar);
}

#[test]
fn sha256_of_three_levels() {
    let Some(bench) = Bench::new() else { return };
    bench.compare_all(HashAlgorithm::Sha256, &[THREE_LEVELS], SealLayout::Sidecar);
}

#[test]
fn sha512_of_three_levels() {
    let Some(bench) = Bench::new() else { return };
    bench.compare_all(HashAlgorithm::Sha512, &[THREE_LEVELS], SealLayout::Sidecar);
}

/// Mostly a hole, so that it costs no storage. In exhaustive runs it is a GiB.
#[test]
fn a_large_hole() {
    let Some(bench) = Bench::new() else { return };
    let data = bench.path("data");
    let file = File::create(&data).unwrap();
    let size = if is_exhaustive() { 1 << 30 } else { 1 << 28 };
    file.set_len(size).unwrap();
    for place in [0, size / 2 - (1 << 20), size - 7] {
        file.write_all_at(b"content", place).unwrap();
    }
    bench.compare(&data, SealLayout::Sidecar, &TreeParams::default());
}
