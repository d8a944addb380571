//! Volumes, through the library's functions.

use std::{
    fs,
    num::NonZeroU64,
    ops::{ControlFlow, Range},
    path::{Path, PathBuf},
};

use verimount::ErrorKind;
use verimount_host::volume::{
    BadRange, CheckOptions, Checked, GrowBy, GrowOptions, Mode, NewVolume, OpenOptions, SECTOR,
    VolumeFiles, Watcher, check, format, grow, open,
};

fn files(volume: PathBuf) -> VolumeFiles {
    VolumeFiles {
        volume,
        data_device: None,
        header: None,
    }
}

/// A new volume of 16 MiB in a folder.
fn formatted(folder: &Path) -> VolumeFiles {
    let files = files(folder.join("volume"));
    let new = NewVolume {
        file_size: NonZeroU64::new(16 << 20),
        ..NewVolume::default()
    };
    format(&files, &new).unwrap();
    files
}

#[test]
fn a_volume_is_made_used_and_grown() {
    let folder = tempfile::tempdir().unwrap();
    let files = formatted(folder.path());
    let options = OpenOptions::default();
    let (volume, _) = open(&files, &options).unwrap();
    volume.write_at(b"here", 4096).unwrap();
    assert!(files.are_in_use());
    let second = open(&files, &options);
    assert_eq!(second.unwrap_err().kind(), ErrorKind::Busy);
    volume.close().unwrap();

    let to = |size| GrowOptions {
        by: GrowBy::File(size),
        ..GrowOptions::default()
    };
    let grown = grow(&files, &to(32 << 20)).unwrap();
    assert!(grown.old < grown.new);
    let smaller = grow(&files, &to(1 << 20));
    assert_eq!(smaller.unwrap_err().kind(), ErrorKind::InvalidInput);

    let mode = Mode::ReadOnly;
    let options = OpenOptions { mode, ..options };
    let (volume, files_open) = open(&files, &options).unwrap();
    let mut found = [0; 4];
    volume.read_at(&mut found, 4096).unwrap();
    assert_eq!((&found, volume.size()), (b"here", grown.new));
    assert!(files_open.each()[0].counts().bytes > 0);
}

/// Checks a volume, and returns the sectors that are bad, too.
fn checked(files: &VolumeFiles, options: &CheckOptions) -> (Checked, Vec<Range<u64>>) {
    let mut bad = Vec::new();
    let mut found = |range: &BadRange| bad.push(range.sectors.clone());
    let checked = check(files, options, &mut found).unwrap();
    (checked, bad)
}

#[test]
fn bad_sectors_are_found_and_accepted() {
    const MARK: &[u8] = b"a block that will be damaged";
    let folder = tempfile::tempdir().unwrap();
    let files = formatted(folder.path());
    let path = &files.volume;
    let options = OpenOptions {
        mode: Mode::Direct,
        ..OpenOptions::default()
    };
    let (volume, _) = open(&files, &options).unwrap();
    volume.write_at(MARK, 8192).unwrap();
    let size = volume.size();
    volume.close().unwrap();
    let options = CheckOptions::default();
    let (good, bad) = checked(&files, &options);
    assert_eq!(good.size, size);
    assert_eq!((good.unchecked_from, bad), (None, vec![]));

    let mut bytes = fs::read(path).unwrap();
    let place = bytes.windows(MARK.len()).position(|place| place == MARK);
    bytes[place.unwrap()] ^= 1;
    fs::write(path, &bytes).unwrap();
    let (_, bad) = checked(&files, &options);
    let [sectors] = <[_; 1]>::try_from(bad).unwrap();
    assert!(sectors.contains(&(8192 / SECTOR)));
    assert!(fs::read(path).unwrap() == bytes);

    let options = CheckOptions {
        accept_unverified: vec![sectors],
        ..options
    };
    assert_eq!(checked(&files, &options).1, []);
    assert_eq!(checked(&files, &CheckOptions::default()).1, []);
    let options = CheckOptions {
        watcher: Watcher::new(|_| ControlFlow::Break(())),
        ..options
    };
    let cancelled = check(&files, &options, &mut |_| {});
    assert_eq!(cancelled.unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn what_is_not_empty_is_not_formatted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let content = vec![1; 16 << 20];
    fs::write(&path, &content).unwrap();
    let files = files(path.clone());
    let refused = format(&files, &NewVolume::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WouldReplace);
    assert!(refused.to_string().ends_with("not empty"), "{refused}");
    assert!(fs::read(&path).unwrap() == content);
}
