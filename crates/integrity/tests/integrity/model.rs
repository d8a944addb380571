//! Property test: a volume behaves like a plain byte array.

use std::time::Duration;

use arbtest::arbitrary::{self, Unstructured};
use verimount_integrity::{
    Algorithm, BlockSize, FormatOptions, Integrity, Interleave, Mode, OpenOptions, TagSize, Volume,
};
use verimount_testkit::{cases, several, weighted};

use crate::common::{KB, World, contents, integrity, key, memory};

/// The number of bytes used: enough for several areas.
const USED: u64 = 200 * KB;

enum Action {
    Write(u64, u64, u8),
    Zero(u64, u64),
    Discard(u64, u64),
    Read(u64, u64),
    Flush,
    Reopen(Mode),
}

fn any_mode(u: &mut Unstructured<'_>) -> arbitrary::Result<Mode> {
    u.choose(&[Mode::Direct, Mode::Journal, Mode::Bitmap])
        .copied()
}

fn any_action(u: &mut Unstructured<'_>) -> arbitrary::Result<Action> {
    let is_aligned: bool = u.arbitrary()?;
    let start = u.int_in_range(0..=USED - 1)?;
    let len = u.int_in_range(0..=40 * KB - 1)?.min(USED - start);
    // Half of the requests are for whole blocks.
    let (start, len) = if is_aligned {
        (start / 4096 * 4096, len / 4096 * 4096)
    } else {
        (start, len)
    };
    weighted(
        u,
        &[
            (6, &|u| Ok(Action::Write(start, len, u.arbitrary()?))),
            (1, &|_| Ok(Action::Zero(start, len))),
            (1, &|_| Ok(Action::Discard(start, len))),
            (3, &|_| Ok(Action::Read(start, len))),
            (1, &|_| Ok(Action::Flush)),
            (1, &|u| Ok(Action::Reopen(any_mode(u)?))),
        ],
    )
}

fn any_options(
    u: &mut Unstructured<'_>,
    has_data_device: bool,
) -> arbitrary::Result<FormatOptions> {
    let algorithm = *u.choose(&Algorithm::ALL)?;
    let is_keyed = algorithm.is_keyed();
    let log2_interleave = u.int_in_range(3..=8)?;
    Ok(FormatOptions {
        integrity: Integrity {
            journal_mac: is_keyed.then(|| (Algorithm::HmacSha256, key(2))),
            ..integrity(algorithm)
        },
        block_size: BlockSize::new(*u.choose(&[512, 1024, 2048, 4096])?).unwrap(),
        tag_size: Some(TagSize::new(u.int_in_range(1..=69)?).unwrap()),
        interleave: (!has_data_device)
            .then(|| Interleave::from_log2_sectors(log2_interleave).unwrap()),
        journal_sectors: Some(300),
        // Bitmap mode requires these of a keyed volume.
        hmac_fix: u.arbitrary::<bool>()? || is_keyed,
        ..FormatOptions::default()
    })
}

fn apply(volume: &Volume, model: &mut [u8], block: u64, action: &Action) {
    match *action {
        Action::Write(start, len, byte) => {
            let bytes: Vec<u8> = (0..len).map(|i| byte ^ (i / 100) as u8).collect();
            volume.write_at(&bytes, start).unwrap();
            model[start as usize..(start + len) as usize].copy_from_slice(&bytes);
        }
        Action::Zero(start, len) => {
            volume.write_zeroes(start, len).unwrap();
            model[start as usize..(start + len) as usize].fill(0);
        }
        Action::Discard(start, len) => {
            volume.discard(start, len).unwrap();
            let first = start.next_multiple_of(block);
            let end = (start + len) / block * block;
            if first < end {
                model[first as usize..end as usize].fill(0);
            }
        }
        Action::Read(start, len) => {
            let mut bytes = vec![0; len as usize];
            volume.read_at(&mut bytes, start).unwrap();
            assert_eq!(bytes, model[start as usize..(start + len) as usize]);
        }
        Action::Flush => volume.flush().unwrap(),
        Action::Reopen(_) => unreachable!("that is for the caller"),
    }
}

fn open(world: &World, mode: Mode) -> Volume {
    let options = OpenOptions {
        allow_discards: true,
        // The smallest cache, so that chunks are evicted.
        cache_bytes: 0,
        // At each flush.
        bitmap_clear_interval: Duration::ZERO,
        ..world.open_options(mode)
    };
    Volume::open(world.devices(), &options).unwrap()
}

#[test]
fn a_volume_is_an_array() {
    cases(150, 512, |u| {
        let has_data_device = u.arbitrary()?;
        let options = any_options(u, has_data_device)?;
        let block = options.block_size.bytes() as u64;
        let data = has_data_device.then(|| memory(USED));
        let world = World::on(memory(1024 * KB), data, options).unwrap();
        let mode = any_mode(u)?;
        let mut volume = open(&world, mode);
        let mut model = vec![0; volume.size() as usize];
        for action in several(u, 1..=39, any_action)? {
            match action {
                Action::Reopen(mode) => {
                    volume.close().unwrap();
                    volume = open(&world, mode);
                }
                action => apply(&volume, &mut model, block, &action),
            }
        }
        volume.close().unwrap();
        assert_eq!(contents(&open(&world, mode)), model);
        Ok(())
    });
}
