//! Property test: a volume behaves like a plain byte array.

use std::time::Duration;

use proptest::prelude::*;
use verimount_integrity::{
    Algorithm, BlockSize, FormatOptions, Integrity, Interleave, Mode, OpenOptions, TagSize, Volume,
};

use crate::common::{KB, World, contents, integrity, key, memory};

/// The number of bytes used: enough for several areas.
const USED: u64 = 200 * KB;

#[derive(Debug, Clone)]
enum Action {
    Write(u64, u64, u8),
    Zero(u64, u64),
    Discard(u64, u64),
    Read(u64, u64),
    Flush,
    Reopen(Mode),
}

fn modes() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Direct), Just(Mode::Journal), Just(Mode::Bitmap)]
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let range = || {
        // Half of the requests are for whole blocks.
        (any::<bool>(), 0..USED, 0..40 * KB).prop_map(|(is_aligned, start, len)| {
            let len = len.min(USED - start);
            match is_aligned {
                true => (start / 4096 * 4096, len / 4096 * 4096),
                false => (start, len),
            }
        })
    };
    let action = prop_oneof![
        6 => (range(), any::<u8>()).prop_map(|((start, len), byte)| Action::Write(start, len, byte)),
        1 => range().prop_map(|(start, len)| Action::Zero(start, len)),
        1 => range().prop_map(|(start, len)| Action::Discard(start, len)),
        3 => range().prop_map(|(start, len)| Action::Read(start, len)),
        1 => Just(Action::Flush),
        1 => modes().prop_map(Action::Reopen),
    ];
    prop::collection::vec(action, 1..40)
}

fn options() -> impl Strategy<Value = (FormatOptions, bool)> {
    let algorithm = prop::sample::select(Algorithm::ALL.to_vec());
    let log2_interleave = 3u8..=8;
    let block_size = prop::sample::select(vec![512, 1024, 2048, 4096]);
    (
        algorithm,
        block_size,
        1u16..70,
        log2_interleave,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(algorithm, block_size, tag_size, log2, hmac_fix, has_data_device)| {
                let is_keyed = algorithm.is_keyed();
                let options = FormatOptions {
                    integrity: Integrity {
                        journal_mac: is_keyed.then(|| (Algorithm::HmacSha256, key(2))),
                        ..integrity(algorithm)
                    },
                    block_size: BlockSize::new(block_size).unwrap(),
                    tag_size: Some(TagSize::new(tag_size).unwrap()),
                    interleave: (!has_data_device)
                        .then(|| Interleave::from_log2_sectors(log2).unwrap()),
                    journal_sectors: Some(300),
                    // Bitmap mode requires these of a keyed volume.
                    hmac_fix: hmac_fix || is_keyed,
                    ..FormatOptions::default()
                };
                (options, has_data_device)
            },
        )
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn a_volume_is_an_array(
        (options, has_data_device) in options(),
        mode in modes(),
        actions in actions(),
    ) {
        let block = options.block_size.bytes() as u64;
        let data = has_data_device.then(|| memory(USED));
        let world = World::on(memory(1024 * KB), data, options).unwrap();
        let mut volume = open(&world, mode);
        let mut model = vec![0; volume.size() as usize];
        for action in &actions {
            match action {
                Action::Reopen(mode) => {
                    volume.close().unwrap();
                    volume = open(&world, *mode);
                }
                action => apply(&volume, &mut model, block, action),
            }
        }
        volume.close().unwrap();
        prop_assert_eq!(contents(&open(&world, mode)), model);
    }
}
