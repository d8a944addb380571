//! Root hash, superblock and tree are those of `veritysetup`, byte for byte; it accepts ours, and we
//! read its.

use std::{
    fs::{self, File},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use verimount_source::{FileSource, ReadAt};
use verimount_testkit::{all_or_one, go_on, noise, tools};
use verimount_verity::{
    HashAlgorithm, SealLayout, VerifiedReader, VerifyOptions,
    dm_verity::{BlockSize, HashArea, Params, Salt, SealedDevice, seal},
    parse_hex,
};

const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// The data of a case has at most this many bytes.
const MAX_DATA: usize = 3 << 20;

const BLOCK_SIZES: [u64; 4] = [512, 1024, 4096, 65536];

const SALTS: [&[u8]; 4] = [&[], &[0x5A], &[0xA5; 32], &[0x3C; 256]];

const LAYOUTS: [SealLayout; 2] = [SealLayout::Sidecar, SealLayout::Appended];

/// A device, and room for what becomes of it.
struct Bench {
    folder: tempfile::TempDir,
    tool: PathBuf,
}

impl Bench {
    /// `None`, after a note, where the tool is missing.
    fn new() -> Option<Self> {
        let tool = tools::find("veritysetup")?;
        let folder = tempfile::tempdir().unwrap();
        Some(Self { folder, tool })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the tool says.
    fn run(&self, arguments: &mut Command, case: &str) -> String {
        let output = arguments.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success(),
            "{case}: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        said
    }

    /// Formats with the tool; gives its root hash.
    fn format(
        &self,
        data: &Path,
        hashes: &Path,
        offset: u64,
        blocks: usize,
        case: &Case,
    ) -> String {
        let mut format = Command::new(&self.tool);
        format.arg("format").arg(data).arg(hashes);
        format.arg(format!("--hash={}", case.params.algorithm));
        let (data_block, hash_block) = (case.params.data_block_size, case.params.hash_block_size);
        format.arg(format!("--data-block-size={}", data_block.bytes()));
        format.arg(format!("--hash-block-size={}", hash_block.bytes()));
        format.arg(format!("--data-blocks={blocks}"));
        format.arg(format!("--hash-offset={offset}"));
        format.arg(format!("--uuid={}", case.uuid));
        format.arg(match case.params.salt.as_bytes() {
            [] => "--salt=-".to_owned(),
            salt => format!("--salt={}", hex(salt)),
        });
        let said = self.run(&mut format, &case.name);
        let root = said
            .lines()
            .find_map(|line| line.strip_prefix("Root hash:"));
        root.expect("it prints the root hash").trim().to_owned()
    }

    fn verify(&self, data: &Path, hashes: &Path, made: &SealedDevice, case: &str) {
        let mut verify = Command::new(&self.tool);
        verify.arg("verify").arg(data).arg(hashes);
        verify.arg(made.root.to_string());
        verify.arg(format!("--hash-offset={}", made.hash_offset));
        self.run(&mut verify, case);
    }

    /// Does all there is to do with a device of this many blocks.
    fn compare(&self, params: &Params, blocks: usize, layout: SealLayout) {
        let bytes = noise(blocks * params.data_block_size.bytes(), blocks as u64);
        let ours = self.path("ours");
        let theirs = self.path("theirs");
        let (data, their_data) = match layout {
            SealLayout::Sidecar => {
                fs::write(&ours, []).unwrap();
                (self.path("data"), self.path("data"))
            }
            SealLayout::Appended => (ours.clone(), theirs.clone()),
        };
        let _ = fs::remove_file(&theirs);
        fs::write(&data, &bytes).unwrap();
        fs::write(&their_data, &bytes).unwrap();

        let file = File::options().write(true).open(&ours).unwrap();
        let made = seal(&bytes, &file, layout, params, TWO, &mut go_on).unwrap();

        let stored = fs::read(&ours).unwrap();
        let uuid = &stored[made.hash_offset as usize + 16..][..16];
        let case = Case {
            name: format!("{blocks} blocks, {layout:?}, {params:?}"),
            params,
            uuid: uuid_text(uuid),
        };
        let root = self.format(&their_data, &theirs, made.hash_offset, blocks, &case);
        assert_eq!(made.root.to_string(), root, "{}", case.name);
        let mut their_bytes = fs::read(&theirs).unwrap();
        if blocks == 1 {
            // Where there is no tree, the tool may end before the place where it would begin.
            their_bytes.resize(stored.len(), 0);
        }
        assert!(stored == their_bytes, "{} differs", case.name);
        self.verify(&data, &ours, &made, &case.name);
        assert_eq!(
            read(&their_data, &theirs, layout, &made),
            bytes,
            "{}",
            case.name
        );
    }

    /// Hash blocks of each size, with each salt, and for devices around the edges of levels: with both layouts in
    /// exhaustive runs, else with one, in turns.
    fn compare_all(&self, algorithm: HashAlgorithm, data_block_size: u64) {
        for (number, hash_block_size) in BLOCK_SIZES.into_iter().enumerate() {
            let params = |salt| Params {
                algorithm,
                data_block_size: BlockSize::new(data_block_size).unwrap(),
                hash_block_size: BlockSize::new(hash_block_size).unwrap(),
                salt: Salt::new(salt).unwrap(),
            };
            for salt in SALTS {
                self.compare(&params(salt), 3, SealLayout::Appended);
            }
            let digests = hash_block_size as usize / algorithm.digest_size();
            let edges = [1, digests, digests.pow(2), digests.pow(3)];
            let sizes = edges.into_iter().flat_map(|blocks| [blocks, blocks + 1]);
            let sizes = sizes.filter(|blocks| blocks << data_block_size.ilog2() <= MAX_DATA);
            for (place, blocks) in sizes.enumerate() {
                for layout in all_or_one(&LAYOUTS, number + place) {
                    self.compare(&params(SALTS[2]), blocks, *layout);
                }
            }
        }
    }
}

/// How the tool is to format.
struct Case<'a> {
    name: String,
    params: &'a Params,
    uuid: String,
}

/// All data of a device, verified.
fn read(data: &Path, hashes: &Path, layout: SealLayout, made: &SealedDevice) -> Vec<u8> {
    let open = |path| Arc::new(FileSource::open(path).unwrap());
    let area = match layout {
        SealLayout::Appended => HashArea::open_appended(open(hashes), made.hash_offset),
        SealLayout::Sidecar => HashArea::open_beside(open(data), open(hashes), made.hash_offset),
    };
    let root = parse_hex(&made.root.to_string()).unwrap();
    let seal = area.unwrap().accepted_by(&root).unwrap();
    let reader = VerifiedReader::new(seal, VerifyOptions::default()).unwrap();
    let mut bytes = vec![0; reader.size() as usize];
    reader.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn uuid_text(bytes: &[u8]) -> String {
    let digits = hex(bytes);
    let group = |range| &digits[range];
    let groups = [
        group(0..8),
        group(8..12),
        group(12..16),
        group(16..20),
        group(20..32),
    ];
    groups.join("-")
}

#[test]
fn sha256_over_sectors() {
    let Some(bench) = Bench::new() else { return };
    bench.compare_all(HashAlgorithm::Sha256, 512);
}

#[test]
fn sha256_over_kibibytes() {
    let Some(bench) = Bench::new() else { return };
    bench.compare_all(HashAlgorithm::Sha256, 1024);
}

#[test]
fn sha256_over_pages() {
    let Some(bench) = Bench::new() else { return };
    bench.compare_all(HashAlgorithm::Sha256, 4096);
}

#[test]
fn sha256_over_large_pages() {
    let Some(bench) = Bench::new() else { return };
    bench.compare_all(HashAlgorithm::Sha256, 65536);
}

#[test]
fn sha512_over_sectors() {
    let Some(bench) = Bench::new() else { return };
    bench.compare_all(HashAlgorithm::Sha512, 512);
}

#[test]
fn sha512_over_kibibytes() {
    let Some(bench) = Bench::new() else { return };
    bench.compare_all(HashAlgorithm::Sha512, 1024);
}

#[test]
fn sha512_over_pages() {
    let Some(bench) = Bench::new() else { return };
    bench.compare_all(HashAlgorithm::Sha512, 4096);
}

#[test]
fn sha512_over_large_pages() {
    let Some(bench) = Bench::new() else { return };
    bench.compare_all(HashAlgorithm::Sha512, 65536);
}
