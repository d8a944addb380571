//! `integritysetup` reads the superblocks of our volumes.

use std::{process::Command, sync::Arc};

use verimount_integrity::{
    Algorithm, BlockSize, Devices, FormatOptions, Integrity, Interleave, Padding, format,
};
use verimount_source::FileStorage;
use verimount_testkit::{go_on, tools};

/// The lines that `integritysetup dump` prints for a volume of 32 MiB.
fn dump(options: &FormatOptions) -> Option<String> {
    let tool = tools::find("integritysetup")?;
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(32 << 20).unwrap();
    let storage = FileStorage::open(file.path()).unwrap();
    format(Devices::new(Arc::new(storage)), options, &mut go_on).unwrap();
    let output = Command::new(tool)
        .arg("dump")
        .arg(file.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn integritysetup_reads_the_superblock() {
    let legacy = FormatOptions {
        integrity: Integrity {
            algorithm: Algorithm::Sha1,
            ..Integrity::default()
        },
        block_size: BlockSize::SECTOR,
        is_zero: true,
        padding: Padding::Legacy,
        hmac_fix: false,
        ..FormatOptions::default()
    };
    let fixed = FormatOptions {
        interleave: Some(Interleave::new(1024).unwrap()),
        is_zero: true,
        ..FormatOptions::default()
    };
    for (options, expected) in [
        (
            legacy,
            [
                "superblock_version 1",
                "tag_size 20",
                "sector_size 512",
                "log2_interleave_sectors 15",
                "provided_data_sectors 62552",
            ],
        ),
        (
            fixed,
            [
                "superblock_version 5",
                "tag_size 4",
                "sector_size 4096",
                "log2_interleave_sectors 10",
                "fix_padding fix_hmac",
            ],
        ),
    ] {
        let Some(dump) = dump(&options) else { return };
        for line in expected {
            assert!(
                dump.lines().any(|found| found.trim().contains(line)),
                "{line}: {dump}"
            );
        }
    }
}
