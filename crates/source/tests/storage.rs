//! Storage in files and in memory does the same.

use std::{fs::File, io, path::Path};

use arbtest::arbitrary::{self, Unstructured};
use verimount_source::{Counting, FileStorage, MemoryStorage, ReadAt, WriteAt, WriteError};
use verimount_testkit::cases;

const SIZE: u64 = 300_000;

fn file_storage(folder: &Path) -> FileStorage {
    let path = folder.join("storage");
    File::create(&path).unwrap().set_len(SIZE).unwrap();
    FileStorage::open(&path).unwrap()
}

fn contents(storage: &impl ReadAt) -> Vec<u8> {
    let mut bytes = vec![0; SIZE as usize];
    storage.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[derive(Debug)]
enum Change {
    Write { durable: bool, byte: u8 },
    Zero,
}

fn change(u: &mut Unstructured<'_>) -> arbitrary::Result<Change> {
    if u.arbitrary()? {
        let (durable, byte) = u.arbitrary()?;
        Ok(Change::Write { durable, byte })
    } else {
        Ok(Change::Zero)
    }
}

fn apply(change: &Change, storage: &impl WriteAt, start: u64, len: u64) -> Result<(), WriteError> {
    match *change {
        Change::Write { durable, byte } => {
            let bytes = vec![byte; len as usize];
            if durable {
                storage.write_durable_at(&bytes, start)
            } else {
                storage.write_all_at(&bytes, start)
            }
        }
        Change::Zero => storage.zero(start, len),
    }
}

#[test]
fn all_storage_holds_what_was_written() {
    cases(40, 256, |u| {
        let folder = tempfile::tempdir().unwrap();
        let file = file_storage(folder.path());
        let memory = MemoryStorage::new(vec![0; SIZE as usize]);
        let mut model = vec![0; SIZE as usize];
        for _ in 0..u.int_in_range(1..=19)? {
            let change = change(u)?;
            let start = u.int_in_range(0..=SIZE - 1)?;
            let len = u.int_in_range(0..=19_999)?.min(SIZE - start);
            apply(&change, &file, start, len).unwrap();
            apply(&change, &memory, start, len).unwrap();
            let byte = match change {
                Change::Write { byte, .. } => byte,
                Change::Zero => 0,
            };
            model[start as usize..(start + len) as usize].fill(byte);
        }
        file.flush().unwrap();
        assert_eq!(contents(&file), model);
        assert_eq!(memory.to_vec(), model);
        Ok(())
    });
}

#[test]
fn nothing_is_written_past_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = file_storage(folder.path());
    let memory = MemoryStorage::new(vec![0; SIZE as usize]);
    for (start, len) in [(SIZE, 1), (SIZE - 1, 2), (u64::MAX, 1), (u64::MAX, 0)] {
        for change in [
            Change::Write {
                durable: false,
                byte: 1,
            },
            Change::Write {
                durable: true,
                byte: 1,
            },
            Change::Zero,
        ] {
            let results = [
                apply(&change, &file, start, len),
                apply(&change, &memory, start, len),
            ];
            for result in results {
                assert!(
                    matches!(result, Err(WriteError::PastEnd { .. })),
                    "{change:?}"
                );
            }
        }
    }
    assert_eq!(file.size(), SIZE);
    assert_eq!(memory.to_vec(), [0; SIZE as usize]);
}

#[test]
fn a_file_is_used_once_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = file_storage(folder.path());
    let second = FileStorage::open(&folder.path().join("storage"));
    assert_eq!(second.unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    drop(first);
    FileStorage::open(&folder.path().join("storage")).unwrap();
}

#[test]
fn writes_and_flushes_are_counted() {
    let storage = Counting::new(MemoryStorage::new(vec![0; 100]));
    storage.write_all_at(&[1; 10], 0).unwrap();
    storage.write_durable_at(&[2; 20], 10).unwrap();
    storage.zero(50, 30).unwrap();
    storage.flush().unwrap();
    let counts = storage.write_counts();
    assert_eq!((counts.requests, counts.durable, counts.bytes), (2, 1, 30));
    assert_eq!((counts.zeroed, counts.flushes), (30, 1));
    assert_eq!(storage.counts().requests, 0);
}
