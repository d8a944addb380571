//! Formatting volumes, and its messages.

use super::{format, json};
use crate::interrupts::{SIGNALS, has_unnamed_file_in, interrupt, start};
use crate::prelude::*;

/// The kernel's own tool reads what we make.
#[test]
fn integritysetup_agrees() {
    let integritysetup = needs!(tools::find("integritysetup"));
    for options in [
        &[][..],
        &["--integrity", "sha256", "--sector-size", "512"],
        &["--tag-size", "3", "--interleave-sectors", "1K"],
        &["--integrity-legacy-padding", "--integrity-legacy-hmac"],
        &["--journal-size", "1M", "--sector-size", "1K"],
    ] {
        let world = World::new();
        let path = format(&world, options);
        let mut dump = Command::new(&integritysetup);
        dump.arg("dump").arg(&path);
        let dumped = finish(dump);
        let info = json(args!["volume info --json", &path], 0);
        let said = |name: &str| {
            let mut fields = dumped.text().split_whitespace();
            fields.find(|field| *field == name).expect(name);
            fields.next().unwrap().parse::<u64>().unwrap()
        };
        assert_eq!(
            info["superblock_version"],
            said("superblock_version"),
            "{options:?}"
        );
        assert_eq!(info["tag_size"], said("integrity_tag_size"));
        assert_eq!(info["journal_sections"], said("journal_sections"));
        let sectors = said("provided_data_sectors");
        assert_eq!(info["size"], sectors * 512);
        let log2 = said("log2_interleave_sectors");
        assert_eq!(info["interleave_sectors"], 1_u64 << log2);
        assert_eq!(info["sector_size"], said("sector_size"));
    }
}

#[test]
fn space_can_be_reserved() {
    const SIZE: u64 = 16 << 20;
    let world = World::new();
    let path = format(&world, &["--preallocate"]);
    let found = fs::metadata(&path).unwrap();
    assert!(found.blocks() * 512 >= found.len(), "{found:?}");
    verimount(args!["volume check", &path]).succeeds();
    let existing = world.path("existing");
    let format = args!["volume format", &existing, "--size", "16M"];
    verimount(format.iter().cloned()).succeeds();
    assert!(fs::metadata(&existing).unwrap().blocks() * 512 < SIZE / 2);
    let again = [format[..3].to_vec(), args!["--force --preallocate"]].concat();
    verimount(again).fails_saying("only a new file can be preallocated");
    // More than any file system has.
    let large = world.path("large");
    let format = args![
        "volume format",
        &large,
        "--size",
        "4000000T",
        "--preallocate"
    ];
    verimount(format).fails();
    assert!(!large.exists());
}

#[test]
fn a_new_file_is_sparse_and_all_zero() {
    let world = World::new();
    let path = world.path("vol.img");
    let made = verimount(args!["volume format", &path, "--size", "1G"]);
    made.succeeds_quietly();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(metadata.len(), 1 << 30);
    assert!(metadata.blocks() * 512 < 32 << 20, "{metadata:?}");
    let info = json(args!["volume info --json", &path], 0);
    made.says(&info["size"].to_string());
    let checked = verimount(args!["volume check", &path]);
    checked.succeeds_quietly();
}

#[test]
fn what_its_mode_could_not_use_is_not_formatted() {
    let world = World::new();
    let key = world.write("key", [1; 32]);
    let keyed = args!["--integrity hmac-sha256 --integrity-key-file", &key];
    let mac = args![
        "--journal-integrity hmac-sha256 --journal-integrity-key-file",
        &key
    ];
    let format = |name: &str, mode: &str, more: &[&[OsString]]| {
        let mut format = args![
            "volume format",
            world.path(name),
            "--size",
            "16M",
            "--mode",
            mode
        ];
        format.extend(more.concat());
        verimount(format)
    };
    let refused = format("refused", "bitmap", &[&keyed]);
    refused.is_wrong_usage().notes("--journal-integrity");
    assert!(!world.path("refused").exists());
    let legacy = args!["--integrity-legacy-hmac"];
    format("refused", "bitmap", &[&keyed, &mac, &legacy]).is_wrong_usage();
    format("a", "bitmap", &[&keyed, &mac]).succeeds_quietly();
    format("b", "journal", &[&keyed]).succeeds_quietly();
    format("c", "bitmap", &[]).succeeds_quietly();
}

#[test]
fn direct_mode_says_what_it_may_lose() {
    let world = World::new();
    for (mode, is_said) in [("journal", false), ("bitmap", false), ("direct", true)] {
        let path = world.path(mode);
        let formatted = verimount(args![
            "volume format",
            &path,
            "--size",
            "16M",
            "--mode",
            mode
        ]);
        // A volume is opened before it is mounted.
        let mounted = verimount(args![
            "volume mount",
            &path,
            "/dev/null/mnt",
            "--mode",
            mode
        ]);
        formatted.succeeds_quietly();
        mounted.fails();
        for said in [formatted, mounted] {
            let is_noted = said.stderr.contains("even if that was flushed");
            assert_eq!(is_noted, is_said, "{said:?}");
        }
    }
}

/// The file is as large as the disk needs, and the disk has exactly the given size.
#[test]
fn a_disk_of_an_exact_size() {
    for (options, size) in [
        (&[][..], 2 << 30),
        (&["--integrity", "sha256", "--sector-size", "512"], 5 << 20),
        (&["--journal-size", "1M", "--tag-size", "3"], 4096),
    ] {
        let world = World::new();
        let path = world.path("vol.img");
        let disk_size = |size: u64| {
            let format =
                args!["volume format", &path, "--disk-size", size.to_string(); options.iter()];
            verimount(format)
        };
        disk_size(size).succeeds();
        let info = || json(args!["volume info --json", &path], 0);
        assert_eq!(info()["size"], size);
        // It would not fit into a sector less; and in a file that exists it is as large.
        let needed = fs::metadata(&path).unwrap().len();
        for (len, fits) in [
            (needed - 512, false),
            (needed, true),
            (needed + (1 << 20), true),
        ] {
            fs::remove_file(&path).unwrap();
            File::create(&path).unwrap().set_len(len).unwrap();
            if fits {
                disk_size(size).succeeds();
                assert_eq!(info()["size"], size);
                assert_eq!(fs::metadata(&path).unwrap().len(), len);
            } else {
                let said = match size {
                    4096 => "too small",
                    _ => "the largest that does has",
                };
                disk_size(size).fails_saying(said);
            }
        }
    }
    let world = World::new();
    let path = world.path("vol.img");
    for (options, said) in [
        (&["--disk-size", "1000"][..], "multiple of 4096"),
        (&["--disk-size", "0"], "multiple of 4096"),
        (
            &["--disk-size", "1M", "--size", "2M"],
            "cannot be used with",
        ),
    ] {
        let refused = verimount(args!["volume format", &path; options.iter()]);
        refused.is_wrong_usage();
        refused.notes(said);
    }
    assert!(!path.exists());
}

#[test]
fn unusual_formats_come_with_instructions() {
    let world = World::new();
    let path = world.path("vol.img");
    let options = ["--size", "8M", "--integrity", "sha1", "--mode", "bitmap"];
    let made = verimount(args!["volume format", &path; options.iter()]);
    made.succeeds_quietly();
    let note = "--integrity sha1, --mode bitmap";
    made.notes(note);
}

#[test]
fn files_with_content_are_not_overwritten() {
    let world = World::new();
    let mut content = vec![0; 16 << 20];
    content[70_000] = 1;
    let path = world.write("file", &content);
    world.unchanged_by(|| {
        verimount(args!["volume format", &path]).fails_saying("not empty");
        verimount(args!["volume format", &path, "--size", "8M"]).fails_saying("File exists");
    });
    verimount(args!["volume format", &path, "--force"]).succeeds_quietly();
    verimount(args!["volume check", &path]).succeeds_quietly();
    verimount(args!["volume format", &path]).fails_saying("not empty");
}

/// The former content is gone.
#[test]
fn an_overwritten_volume_is_gone() {
    let world = World::new();
    let content = noise(16 << 20, 1);
    let path = world.write("file", &content);
    verimount(args!["volume format", &path, "--force"]).succeeds_quietly();
    let bytes = fs::read(&path).unwrap();
    let left = (0..bytes.len()).step_by(4096);
    let left = left.filter(|&at| bytes[at..at + 4096] == content[at..at + 4096]);
    assert_eq!(left.count(), 0);
}

#[test]
fn a_metadata_device() {
    let world = World::new();
    let (tags, data) = (world.path("tags"), world.path("data"));
    File::create(&tags).unwrap().set_len(4 << 20).unwrap();
    File::create(&data).unwrap().set_len(64 << 20).unwrap();
    let devices = || args![&tags, "--data-device", &data];
    verimount([args!["volume format"], devices()].concat()).succeeds_quietly();
    let info = json(args!["volume info --json", &tags], 0);
    assert_eq!(info["size"], 64 << 20);
    assert!(info["interleave_sectors"].is_null());
    verimount([args!["volume check"], devices()].concat()).succeeds_quietly();
    verimount(args!["volume check", &tags]).fails_saying("a separate device");
    verimount(args!["volume check", &tags, "--data-device", &tags]).fails_saying("too small");
    verimount(args!["volume grow", &tags, "--data-device", &tags]).fails_saying("in use");
}

#[test]
fn an_interrupted_format_leaves_no_new_file() {
    for signal in SIGNALS {
        let world = World::new();
        let folder = world.directory("folder");
        let path = folder.join("vol.img");
        let options = ["--size", "1T", "--sector-size", "512"];
        let format = args!["volume format", &path; options.iter()];
        let child = start(format);
        eventually("it has begun", || has_unnamed_file_in(&child, &folder));
        interrupt(child, signal).is_interrupted_by(signal);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
}
