//! Opens a volume with these bytes as its bitmap after a crash. One block does not match its tag: it can be
//! read if its tag was recalculated, and must be refused otherwise.
//!
//! The input is the base-2 logarithm of the blocks for a bit; the changed block; and the bitmap.

#![no_main]

use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use verimount_fuzz::{JOURNAL, JOURNAL_SECTORS, MODES, SECTOR, Storage, data_offset, sectors};
use verimount_integrity::Mode;
use verimount_source::{ReadAt, WriteAt};

/// Where the superblock has its flags, and the one for the bitmap.
const FLAGS: usize = 24;
const DIRTY_BITMAP: u8 = 4;

/// Where the superblock has the blocks for a bit.
const LOG2_BLOCKS_PER_BIT: usize = 29;

fuzz_target!(|input: &[u8]| {
    let [log2, block, bitmap @ ..] = input else {
        return;
    };
    let block = u64::from(*block) % sectors();
    let mut bitmap = bitmap.to_vec();
    bitmap.resize(JOURNAL_SECTORS * SECTOR, 0);
    for mode in MODES {
        let storage = Storage::new(false);
        change(&storage, FLAGS, |byte| byte | DIRTY_BITMAP);
        change(&storage, LOG2_BLOCKS_PER_BIT, |_| *log2);
        change(&storage, data_offset(block), |byte| byte ^ 1);
        let written = storage.metadata.write_all_at(&bitmap, JOURNAL as u64);
        written.expect("there is room");

        let volume = storage.open(mode).expect("any bitmap is one");
        volume
            .recalculate(&mut |_| ControlFlow::Continue(()))
            .expect("nothing fails");
        let is_dirty = is_dirty(&bitmap, *log2, block, mode);
        for sector in 0..sectors() {
            let result = volume.read_at(&mut [0; SECTOR], sector * SECTOR as u64);
            assert_eq!(result.is_ok(), sector != block || is_dirty);
        }
        volume.close().expect("nothing fails");
    }
});

fn change(storage: &Storage, offset: usize, change: impl FnOnce(u8) -> u8) {
    let mut byte = [0];
    let io = storage.metadata.read_exact_at(&mut byte, offset as u64);
    io.expect("it is there");
    let byte = [change(byte[0])];
    let io = storage.metadata.write_all_at(&byte, offset as u64);
    io.expect("it is there");
}

/// Whether the block's tag is recalculated: if its bit is set, or any where there is no bitmap
/// afterwards, and in any case where there is no room for so many bits.
fn is_dirty(bitmap: &[u8], log2: u8, block: u64, mode: Mode) -> bool {
    let Some(bits) = 1_u64.checked_shl(log2.into()) else {
        return true;
    };
    let bits = sectors().div_ceil(bits) as usize;
    let is_set = |bit: usize| bitmap[bit / 8] >> (bit % 8) & 1 == 1;
    if bits > bitmap.len() / 4096 * 4096 * 8 {
        return true;
    }
    match mode {
        Mode::Bitmap => is_set((block >> log2) as usize),
        _ => (0..bits).any(is_set),
    }
}
