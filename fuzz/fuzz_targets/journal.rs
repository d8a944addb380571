//! Opens a volume with these bytes as its journal, in every mode that replays it.
//!
//! Commit ids and tags stop a fuzzer at once, as changed ones practically never fit. So the journal
//! is read twice: as it is, and with those made right. Whatever is replayed must be there when the
//! volume is opened again, and what could not be replayed must be as it was.

#![no_main]

use std::collections::HashMap;

use libfuzzer_sys::fuzz_target;
use verimount_fuzz::{
    JOURNAL, JOURNAL_SECTORS, MODES, SECTION_ENTRIES, SECTION_SECTORS, SECTOR, Storage, TAG_SIZE,
    contents,
};
use verimount_source::{ReadAt, WriteAt};

/// Bytes of a journal sector before its commit id.
const CONTENTS: usize = 504;

fuzz_target!(|input: &[u8]| {
    check(input);
    check(&with_right_ids_and_tags(input));
});

fn check(input: &[u8]) {
    for mode in MODES {
        let storage = Storage::new(false);
        let mut journal = vec![0; JOURNAL_SECTORS * SECTOR];
        let given = &input[..input.len().min(journal.len())];
        let place = JOURNAL as u64;
        let io = storage.metadata.write_all_at(given, place);
        io.expect("there is room");
        let io = storage.metadata.read_exact_at(&mut journal, place);
        io.expect("it is there");
        let Ok(volume) = storage.open(mode) else {
            continue;
        };
        let entries = entries(&journal);
        let found = contents(&volume).expect("every block matches its tag");
        for (sector, block) in (0..).zip(found.chunks(SECTOR)) {
            let mut known = entries.get(&sector).into_iter().flatten();
            let is_known = block == [0; SECTOR] || known.any(|known| known == block);
            assert!(is_known, "nobody wrote sector {sector}");
        }
        drop(volume);
        let volume = storage.open(mode).expect("it could be opened before");
        assert_eq!(contents(&volume).expect("nothing has changed"), found);
        volume.close().expect("nothing fails");
    }
}

/// The blocks that the journal's entries hold for each sector.
fn entries(journal: &[u8]) -> HashMap<u64, Vec<Vec<u8>>> {
    let mut entries: HashMap<u64, Vec<Vec<u8>>> = HashMap::new();
    for section in journal.chunks_exact(SECTION_SECTORS * SECTOR) {
        for number in 0..SECTION_ENTRIES {
            let (sector, block) = entry(section, number);
            entries.entry(sector).or_default().push(block);
        }
    }
    entries
}

/// What an entry says: with tags of this size, each is at the beginning of a sector of its own.
fn entry(section: &[u8], number: usize) -> (u64, Vec<u8>) {
    let fields = &section[number * SECTOR..];
    let data = &section[(SECTION_ENTRIES + number) * SECTOR..];
    let sector = u64::from_le_bytes(fields[..8].try_into().expect("8 bytes"));
    (sector, [&data[..CONTENTS], &fields[8..16]].concat())
}

/// Makes every sector one of the lap that the last bits of its commit id name, and gives every entry
/// the tag of its block.
fn with_right_ids_and_tags(input: &[u8]) -> Vec<u8> {
    let mut journal = input.to_vec();
    journal.resize(JOURNAL_SECTORS * SECTOR, 0);
    let sections = journal.chunks_exact_mut(SECTION_SECTORS * SECTOR);
    for (number, section) in (0_u64..).zip(sections) {
        for entry_number in 0..SECTION_ENTRIES {
            let (sector, block) = entry(section, entry_number);
            let crc = crc32c::crc32c_append(crc32c::crc32c(&sector.to_le_bytes()), &block);
            let tag = &mut section[entry_number * SECTOR + 16..][..TAG_SIZE.into()];
            tag.fill(0);
            tag[..4].copy_from_slice(&crc.to_le_bytes());
        }
        for (place, sector) in (number << 32..).zip(section.chunks_exact_mut(SECTOR)) {
            let lap = u64::from(sector[CONTENTS] & 3) + 1;
            let id = (0x1111_1111_1111_1111 * lap) ^ place;
            sector[CONTENTS..].copy_from_slice(&id.to_le_bytes());
        }
    }
    journal
}
