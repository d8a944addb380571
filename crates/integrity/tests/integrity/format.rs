//! What formatting writes, and refuses to.

use std::{ops::ControlFlow, sync::Arc};

use verimount_integrity::{
    Algorithm, Devices, Error, FormatOptions, Interleave, Mode, OpenOptions, Padding, Unsupported,
    Usage, Volume, format,
};
use verimount_source::{FileStorage, WriteAt};
use verimount_testkit::go_on;

use crate::common::{KB, MB, World, contents, integrity, key, memory};

#[test]
fn a_new_volume_is_zero_whatever_was_there() {
    let options = FormatOptions::default();
    let storage = memory(4 * MB);
    storage.write_all_at(&vec![7; 4 * MB as usize], 0).unwrap();
    format(Devices::new(storage.clone()), &options, &mut go_on).unwrap();
    let options = OpenOptions {
        mode: Mode::Direct,
        ..OpenOptions::default()
    };
    let volume = Volume::open(Devices::new(storage), &options).unwrap();
    assert!(contents(&volume).iter().all(|&byte| byte == 0));
}

/// On zeroed storage, no zeros are written.
#[test]
fn formatting_zeros_writes_metadata_only() {
    let world = World::new(64 * MB, FormatOptions::default()).unwrap();
    let counts = world.metadata.write_counts();
    let journal = 64 * MB / 128;
    let tags = 64 * MB / 1024;
    assert!(counts.bytes <= journal + tags + 16 * KB, "{counts:?}");
    assert_eq!(counts.zeroed, 0);
}

#[test]
fn an_interrupted_format_leaves_no_volume() {
    let world = World::new(64 * MB, FormatOptions::default()).unwrap();
    let mut reports = 0;
    let result = format(world.devices(), &FormatOptions::default(), &mut |_| {
        reports += 1;
        match reports {
            2 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    assert!(matches!(result, Err(Error::Cancelled)));
    let opened = Volume::open(world.devices(), &OpenOptions::default());
    assert!(matches!(opened, Err(Error::NotIntegrity)));
}

#[test]
fn options_that_do_not_fit_write_nothing() {
    let keyed = integrity(Algorithm::HmacSha256);
    let cases = [
        FormatOptions {
            integrity: verimount_integrity::Integrity {
                key: None,
                ..keyed.clone()
            },
            ..FormatOptions::default()
        },
        FormatOptions {
            integrity: verimount_integrity::Integrity {
                key: Some(key(1)),
                ..Default::default()
            },
            ..FormatOptions::default()
        },
        FormatOptions {
            integrity: verimount_integrity::Integrity {
                journal_mac: Some((Algorithm::Crc32c, key(1))),
                ..Default::default()
            },
            ..FormatOptions::default()
        },
        FormatOptions {
            padding: Padding::Legacy,
            interleave: Some(Interleave::new(64).unwrap()),
            ..FormatOptions::default()
        },
    ];
    for options in cases {
        let storage = memory(4 * MB);
        let result = format(Devices::new(storage.clone()), &options, &mut go_on);
        let is_named = matches!(
            result,
            Err(Error::Usage(_)
                | Error::TooSmall { .. }
                | Error::Unsupported(Unsupported::NarrowLegacy))
        );
        assert!(is_named, "{result:?}");
        assert_eq!(storage.write_counts().requests, 0);
    }
}

#[test]
fn devices_must_be_those_of_the_volume() {
    let one = World::new(4 * MB, FormatOptions::default()).unwrap();
    let two = World::on(memory(MB), Some(memory(4 * MB)), FormatOptions::default()).unwrap();
    assert_eq!(two.superblock.provided_data_sectors, 4 * MB / 512);
    let split = Devices::with_data_device(one.metadata.clone(), memory(4 * MB));
    let alone = Devices::new(two.metadata.clone());
    let options = OpenOptions::default();
    let unused = Volume::open(split, &options).err();
    assert!(matches!(
        unused,
        Some(Error::Usage(Usage::DataDeviceUnused))
    ));
    let missing = Volume::open(alone, &options).err();
    assert!(matches!(
        missing,
        Some(Error::Usage(Usage::DataDeviceMissing))
    ));
}

#[test]
fn a_truncated_volume_is_refused() {
    let world = World::new(4 * MB, FormatOptions::default()).unwrap();
    let stored = world.metadata.inner().to_vec();
    for len in [0, 511, 4096, MB as usize, 4 * MB as usize - 4096 * 80] {
        let storage = crate::common::storage_of(stored[..len].to_vec());
        let result = Volume::open(Devices::new(storage), &OpenOptions::default());
        assert!(result.is_err(), "{len}");
    }
}

#[test]
fn a_superblock_with_a_mac_cannot_be_changed() {
    let mut options = FormatOptions::default();
    options.integrity.journal_mac = Some((Algorithm::HmacSha256, key(5)));
    let world = World::new(4 * MB, options).unwrap();
    world.open(Mode::Direct);
    let mut wrong_key = world.open_options(Mode::Direct);
    wrong_key.integrity.journal_mac = Some((Algorithm::HmacSha256, key(6)));
    assert!(matches!(
        Volume::open(world.devices(), &wrong_key),
        Err(Error::Corrupt(_))
    ));
    world.metadata.write_all_at(&[1], 200).unwrap();
    let changed = Volume::open(world.devices(), &world.open_options(Mode::Direct));
    assert!(matches!(changed, Err(Error::Corrupt(_))));
}

#[test]
fn a_volume_in_a_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(4 * MB).unwrap();
    let devices = || Devices::new(Arc::new(FileStorage::open(file.path()).unwrap()));
    format(devices(), &FormatOptions::default(), &mut go_on).unwrap();
    let options = OpenOptions {
        mode: Mode::Direct,
        ..OpenOptions::default()
    };
    let volume = Volume::open(devices(), &options).unwrap();
    volume.write_at(b"hello", 12345).unwrap();
    volume.close().unwrap();
    let mut buf = [0; 5];
    Volume::open(devices(), &options)
        .unwrap()
        .read_at(&mut buf, 12345)
        .unwrap();
    assert_eq!(&buf, b"hello");
}
