//! Reading verified: every byte is right or refused, and nothing is read or hashed needlessly.

use std::{
    fs::File,
    num::NonZeroUsize,
    ops::{ControlFlow, Range},
    sync::{
        Arc, Barrier, Condvar, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
};

use verimount_source::{Counting, Fetch, FileSource, ReadAhead, ReadAt, ReadError, Scratch};
use verimount_testkit::{Flipped, Watched, WatchedEvent, all_or_some, cases, go_on, noise};
use verimount_verity::{
    BadReason, BlockKind, BlockSize, Corruption, Error, FileDigest, HashAlgorithm, Mismatch, Salt,
    SealLayout, Sealed, TreeParams, Trust, VerifiedReader, VerifyOptions, seal, survey,
};

const ONE: NonZeroUsize = NonZeroUsize::MIN;

/// The bytes of `data`, sealed in this layout; for a sidecar, of the sidecar alone.
fn sealed_bytes(data: &[u8], layout: SealLayout, params: &TreeParams) -> Vec<u8> {
    let file = tempfile::tempfile().unwrap();
    if layout == SealLayout::Appended {
        std::os::unix::fs::FileExt::write_all_at(&file, data, 0).unwrap();
    }
    seal(&data, &file, layout, params, ONE, &mut go_on).unwrap();
    all_bytes(file)
}

/// This many bytes of ones. They take no memory, which takes longer to get than to hash.
struct Ones(u64);

impl Ones {
    /// Their sidecar.
    fn seal(&self) -> Vec<u8> {
        let file = tempfile::tempfile().unwrap();
        let params = TreeParams::default();
        seal(self, &file, SealLayout::Sidecar, &params, ONE, &mut go_on).unwrap();
        all_bytes(file)
    }
}

impl ReadAt for Ones {
    fn size(&self) -> u64 {
        self.0
    }
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        assert!(offset + buf.len() as u64 <= self.0);
        buf.fill(1);
        Ok(())
    }
}

fn all_bytes(file: File) -> Vec<u8> {
    let source = FileSource::new(file).unwrap();
    let mut bytes = vec![0; source.size() as usize];
    source.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn reader(source: Arc<dyn Fetch>, options: VerifyOptions) -> VerifiedReader {
    reader_of(&Sealed::open_appended(source).unwrap(), options)
}

fn reader_of(sealed: &Sealed, options: VerifyOptions) -> VerifiedReader {
    VerifiedReader::new(sealed.accepted_by(&Trust::Unpinned).unwrap(), options).unwrap()
}

fn small_blocks() -> TreeParams {
    TreeParams {
        block_size: BlockSize::new(1024).unwrap(),
        ..TreeParams::default()
    }
}

#[test]
fn reads_give_the_data() {
    cases(64, 256, |u| {
        let params = TreeParams {
            algorithm: if u.arbitrary()? {
                HashAlgorithm::Sha512
            } else {
                HashAlgorithm::Sha256
            },
            block_size: BlockSize::from_log2(u.int_in_range(10..=13)?).unwrap(),
            salt: Salt::new(u.choose(&[&b"salt"[..], b""])?).unwrap(),
        };
        let options = VerifyOptions {
            tree_readahead: match u.int_in_range(0..=2)? {
                0 => VerifyOptions::DEFAULT_TREE_READAHEAD,
                1 => 0,
                _ => u.int_in_range(0..=(1 << 20) - 1)?,
            },
            cache_bytes: *u.choose(&[0, 5000, 1 << 20])?,
            ..VerifyOptions::default()
        };
        let layout = *u.choose(&[SealLayout::Appended, SealLayout::Sidecar])?;
        let len = u.int_in_range(0..=199_999)?;
        let data = noise(len, 1);
        let bytes = Arc::new(sealed_bytes(&data, layout, &params));
        let sealed = match layout {
            SealLayout::Appended => Sealed::open_appended(bytes),
            SealLayout::Sidecar => Sealed::open_sidecar(Arc::new(data.clone()), bytes),
        }
        .unwrap();
        let reader = reader_of(&sealed, options);
        assert_eq!(reader.size(), len as u64);
        let mut scratch = Scratch::default();
        for _ in 0..u.int_in_range(1..=19)? {
            let (a, b) = (u.int_in_range(0..=len)?, u.int_in_range(0..=len)?);
            let (start, expected) = (a.min(b), &data[a.min(b)..a.max(b)]);
            let borrowed = reader.read_borrowed(&mut scratch, start as u64, expected.len());
            assert_eq!(borrowed.unwrap(), expected);
            let mut own = vec![0; expected.len()];
            reader.read_exact_at(&mut own, start as u64).unwrap();
            assert_eq!(own, expected);
        }
        let past_the_end = reader.read_exact_at(&mut [0], len as u64);
        assert!(
            matches!(past_the_end, Err(ReadError::PastEnd { .. })),
            "read past the end"
        );
        Ok(())
    });
}

#[test]
fn a_seal_in_another_file_is_for_data_of_its_size() {
    let data = noise(10_000, 1);
    let seal = Arc::new(sealed_bytes(
        &data,
        SealLayout::Sidecar,
        &TreeParams::default(),
    ));
    for len in [0, 9_999, 10_001, 20_000] {
        let mut other = data.clone();
        other.resize(len, 0);
        let Err(Error::Corrupt(Corruption::DataSize { expected, actual })) =
            Sealed::open_sidecar(Arc::new(other), seal.clone())
        else {
            panic!("data of {len} bytes is accepted");
        };
        assert_eq!((expected, actual), (10_000, len as u64));
    }
}

/// Every position of a sealed file of 64 KiB and a bit, in both layouts: opening refuses it, each
/// read gives the right bytes or is refused, and what is right without the change stays readable.
#[test]
fn every_single_changed_byte_is_refused_or_harmless() {
    const THREADS: usize = 2;
    let data = &noise(64 * 1024 + 100, 2);
    for layout in [SealLayout::Appended, SealLayout::Sidecar] {
        let bytes = &sealed_bytes(data, layout, &small_blocks());
        let positions = &all_or_some((0..bytes.len() as u64).collect(), 2);
        let refused: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|first| {
                    let positions = positions.iter().copied().skip(first).step_by(THREADS);
                    scope.spawn(move || count_refused(data, bytes, layout, positions))
                })
                .collect();
            let counts = threads.into_iter().map(|thread| thread.join().unwrap());
            counts.sum()
        });
        assert!(refused > 0, "no change was noticed");
        if layout == SealLayout::Appended {
            let in_data = |position: &&u64| **position < data.len() as u64;
            let least = positions.iter().filter(in_data).count();
            assert!(refused >= least, "{refused} of {}", positions.len());
        }
    }
}

/// Changes the byte at each of `positions` of what was sealed, and counts those that are noticed.
fn count_refused(
    data: &[u8],
    bytes: &[u8],
    layout: SealLayout,
    positions: impl Iterator<Item = u64>,
) -> usize {
    let seal = Arc::new(Flipped::new(bytes.to_vec()));
    let open = || match layout {
        SealLayout::Appended => Sealed::open_appended(seal.clone()),
        SealLayout::Sidecar => Sealed::open_sidecar(Arc::new(data.to_vec()), seal.clone()),
    };
    let trust = Trust::Digest(open().unwrap().file_digest());
    let is_refused = |&position: &u64| {
        seal.flip(position);
        let seal = open().and_then(|sealed| sealed.accepted_by(&trust));
        let reader = seal.and_then(|seal| VerifiedReader::new(seal, VerifyOptions::default()));
        let Ok(reader) = reader else {
            return true;
        };
        let mut block = [0; 1024];
        let mut bad_blocks = 0;
        for (offset, expected) in (0..).step_by(1024).zip(data.chunks(1024)) {
            let block = &mut block[..expected.len()];
            match reader.read_exact_at(block, offset) {
                Ok(()) => assert_eq!(block, expected, "flipped {position}, read {offset}"),
                Err(ReadError::Rejected(_)) => bad_blocks += 1,
                Err(error) => panic!("flipped {position}, read {offset}: {error}"),
            }
        }
        if layout == SealLayout::Appended && position < data.len() as u64 {
            assert_eq!(bad_blocks, 1, "a changed byte of data is in one block");
        }
        bad_blocks > 0
    };
    positions.filter(is_refused).count()
}

#[test]
fn a_mismatch_says_where_and_what() {
    let data = noise(1 << 20, 3);
    let source = Arc::new(Flipped::new(sealed_bytes(
        &data,
        SealLayout::Appended,
        &TreeParams::default(),
    )));
    let reader = reader(source.clone(), VerifyOptions::default());
    source.flip(5 * 4096 + 17);
    let error = reader.read_exact_at(&mut [0; 8192], 4 * 4096).unwrap_err();
    let ReadError::Rejected(reason) = error else {
        panic!("{error}")
    };
    let mismatch: &Mismatch = reason.downcast_ref().unwrap();
    assert_eq!(mismatch.place, BlockKind::Data);
    assert_eq!(mismatch.covers, 5 * 4096..6 * 4096);
    assert_ne!(mismatch.expected, mismatch.actual);
    // The block is right again as soon as the storage is.
    source.flip(Flipped::<()>::NOWHERE);
    reader.read_exact_at(&mut [0; 8192], 4 * 4096).unwrap();
}

/// A bad block of the tree makes unreadable what it vouches for, and nothing else, even where it
/// was only read ahead.
#[test]
fn a_bad_tree_block_refuses_only_the_data_below_it() {
    let data = noise(4 << 20, 4);
    let bytes = sealed_bytes(&data, SealLayout::Appended, &TreeParams::default());
    // The tree: one block of level 1, then eight of level 0, each for 512 KiB of data.
    let level_0 = (4 << 20) + 4096;
    for bad in 0..8 {
        let source = Arc::new(Flipped::new(bytes.clone()));
        let reader = reader(source.clone(), VerifyOptions::default());
        source.flip(level_0 + bad * 4096 + 5);
        for part in 0..8 {
            let result = reader.read_exact_at(&mut [0; 4096], part * (512 << 10));
            assert_eq!(result.is_err(), part == bad, "{bad} {part}");
        }
    }
}

#[test]
fn a_survey_finds_all_bad_ranges() {
    let mut bytes = sealed_bytes(
        &noise(4 << 20, 5),
        SealLayout::Appended,
        &TreeParams::default(),
    );
    bytes[10] ^= 1;
    bytes[4096 + 10] ^= 1;
    bytes[3 * 4096] ^= 1;
    bytes[(4 << 20) + 4096 + 6 * 4096] ^= 1;
    let reader = reader(Arc::new(bytes), VerifyOptions::default());
    for threads in 1..4 {
        let mut found = Vec::new();
        let mut seen = 0;
        let threads = NonZeroUsize::new(threads).unwrap();
        survey(&reader, threads, &mut |bad| found.push(bad), &mut |bytes| {
            seen += bytes;
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(seen, 4 << 20);
        let ranges: Vec<_> = found.iter().map(|bad| bad.range.clone()).collect();
        assert_eq!(
            ranges,
            [0..8192, 12288..16384, 6 * (512 << 10)..7 * (512 << 10)]
        );
        let place = |bad: &BadReason| match bad {
            BadReason::Mismatch(mismatch) => mismatch.place,
            BadReason::Unreadable(error) => panic!("{error}"),
        };
        assert_eq!(place(&found[0].reason), BlockKind::Data);
        assert_eq!(place(&found[2].reason), BlockKind::Tree(0));
    }
}

#[test]
fn a_survey_ends_when_progress_says_so() {
    let bytes = sealed_bytes(
        &noise(4 << 20, 6),
        SealLayout::Appended,
        &TreeParams::default(),
    );
    let reader = reader(Arc::new(bytes), VerifyOptions::default());
    let mut calls = 0;
    let ended = survey(&reader, NonZeroUsize::MIN, &mut |_| (), &mut |_| {
        calls += 1;
        ControlFlow::Break(())
    });
    assert!(matches!(ended, Err(Error::Cancelled)));
    assert_eq!(calls, 1);
}

/// What a bad block of the tree vouches for is not read, however much it is.
#[test]
fn a_survey_does_not_read_below_a_bad_tree_block() {
    const MB: u64 = 1 << 20;
    const SIZE: u64 = 70 * MB;
    let data = noise(SIZE as usize, 7);
    let seal = sealed_bytes(&data, SealLayout::Sidecar, &small_blocks());
    let data = Arc::new(Counting::new(data));
    // Each block of level 2 vouches for 32 MiB.
    for (level, index, bad) in [(3, 0, 0..SIZE), (2, 1, 32 * MB..64 * MB)] {
        for threads in [1, 2] {
            let seal = Arc::new(Flipped::new(seal.clone()));
            let sealed = Sealed::open_sidecar(data.clone(), seal.clone()).unwrap();
            seal.flip(sealed.descriptor().geometry().node_offset(level, index) + 7);
            let reader = reader_of(&sealed, VerifyOptions::default());
            let before = data.counts().bytes;
            let mut found = Vec::new();
            let mut done = 0;
            survey(
                &reader,
                NonZeroUsize::new(threads).unwrap(),
                &mut |bad| found.push(bad),
                &mut |bytes| {
                    done += bytes;
                    ControlFlow::Continue(())
                },
            )
            .unwrap();
            assert_eq!(done, SIZE);
            let [found] = &found[..] else {
                panic!("{found:?}")
            };
            assert_eq!(found.range, bad);
            let BadReason::Mismatch(mismatch) = &found.reason else {
                panic!("{found:?}")
            };
            assert_eq!(mismatch.place, BlockKind::Tree(level));
            // Each thread may be at the range's beginning, and may have been behind it before.
            let read = data.counts().bytes - before;
            let needed = SIZE - (bad.end - bad.start);
            let spare = threads as u64 * 10 * MB;
            assert!(read <= needed + spare, "{read} bytes, {threads} threads");
        }
    }
}

#[test]
fn a_truncated_source_is_detected() {
    let file = tempfile::tempfile().unwrap();
    let bytes = sealed_bytes(
        &noise(1 << 20, 6),
        SealLayout::Appended,
        &TreeParams::default(),
    );
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
    let source = Arc::new(FileSource::new(file.try_clone().unwrap()).unwrap());
    let reader = reader(source, VerifyOptions::default());
    reader.read_exact_at(&mut [0; 4096], 0).unwrap();
    file.set_len(8192).unwrap();
    reader.read_exact_at(&mut [0; 4096], 4096).unwrap();
    let beyond = reader.read_exact_at(&mut [0; 4096], 8192);
    assert!(
        matches!(beyond, Err(ReadError::Truncated { .. })),
        "{beyond:?}"
    );
}

/// At most one request for the tree per 16 MiB of sequential data; without reading ahead, one per
/// 512 KiB and those of the level above.
#[test]
fn tree_requests_of_sequential_reads() {
    const SIZE: u64 = 192 << 20;
    let sealed = Sealed::open_sidecar(Arc::new(Ones(SIZE)), Arc::new(Ones(SIZE).seal())).unwrap();
    let requests = |tree_readahead| {
        let options = VerifyOptions {
            tree_readahead,
            ..VerifyOptions::default()
        };
        let reader = reader_of(&sealed, options);
        let ahead = ReadAhead::new(&reader);
        let mut scratch = Scratch::default();
        for offset in (0..SIZE).step_by(1 << 20) {
            ahead.read_borrowed(&mut scratch, offset, 1 << 20).unwrap();
        }
        let stats = reader.stats();
        assert_eq!(stats.bytes_verified, SIZE);
        assert_eq!(stats.data_requests, 192);
        stats.tree_requests
    };
    let with = requests(VerifyOptions::DEFAULT_TREE_READAHEAD);
    assert!(with <= 192 / 16, "{with}");
    // One block of level 0 for each 512 KiB; two reads of 1 MiB share none. Each read asks for its
    // two at once; three blocks of level 1 and the root block come on top.
    let without = requests(0);
    assert_eq!(without, 192 + 3 + 1);
}

#[test]
fn readers_with_one_account_are_counted_together() {
    let options = VerifyOptions::default();
    let readers = [5_000, 3 << 20].map(|size| {
        let bytes = sealed_bytes(
            &noise(size, 3),
            SealLayout::Appended,
            &TreeParams::default(),
        );
        reader(Arc::new(bytes), options.clone())
    });
    for reader in &readers {
        let mut all = vec![0; reader.size() as usize];
        reader.read_exact_at(&mut all, 0).unwrap();
    }
    let stats = readers[0].stats();
    assert_eq!(stats, readers[1].stats());
    assert_eq!(stats.bytes_verified, 8192 + (3 << 20));
    assert_eq!(stats.data_requests, 2);
}

#[test]
fn a_sequential_reader_does_not_wait_for_what_is_read_ahead() {
    const SIZE: usize = 4 << 20;
    // A tree block has the digests of this much data; a window of the tree has 32 blocks.
    const PIECE: usize = 32 << 10;
    let sealed = sealed_bytes(&noise(SIZE, 9), SealLayout::Appended, &small_blocks());
    let source = Arc::new(Watched::new(sealed));
    let options = VerifyOptions {
        tree_readahead: 1 << 20,
        ..VerifyOptions::default()
    };
    let reader = ReadAhead::new(reader(source.clone(), options));
    source.take_events();
    for start in (0..SIZE as u64).step_by(PIECE) {
        reader.read_exact_at(&mut [0; PIECE], start).unwrap();
    }
    let events = source.take_events();
    let is_data = |range: &Range<u64>| range.end <= SIZE as u64;
    let of_windows = events.iter().enumerate().filter(|(_, (event, range))| {
        *event == WatchedEvent::Read && !is_data(range) && range.end - range.start > 8 << 10
    });
    let windows: Vec<_> = of_windows.skip(1).collect();
    assert!(windows.len() >= 3, "{}", windows.len());
    for (at, (_, window)) in windows {
        let announced = events.iter().position(|(event, range)| {
            *event == WatchedEvent::Hint && range.start <= window.start && window.end <= range.end
        });
        let since = &events[announced.unwrap()..at];
        let data = since
            .iter()
            .filter(|(event, range)| *event == WatchedEvent::Read && is_data(range));
        assert!(data.count() >= 4, "{window:?}");
    }
}

/// Readers of different places do not wait for one another, not even while the tree is slow to
/// come: the first one's tree block is held back until the second one is done.
#[test]
fn readers_do_not_wait_for_each_other() {
    const SIZE: u64 = 64 << 20;
    struct Gate {
        inner: Vec<u8>,
        held: std::ops::Range<u64>,
        open: Mutex<bool>,
        opened: Condvar,
        waiting: Barrier,
    }
    impl ReadAt for Gate {
        fn size(&self) -> u64 {
            self.inner.size()
        }
        fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
            let mut open = self.open.lock().unwrap();
            if self.held.contains(&offset) && !*open {
                drop(open);
                self.waiting.wait();
                open = self.open.lock().unwrap();
                while !*open {
                    open = self.opened.wait(open).unwrap();
                }
            }
            drop(open);
            self.inner.read_exact_at(buf, offset)
        }
    }
    // The tree: one block of level 1, then 128 of level 0. Held back: the first of level 0.
    let gate = Arc::new(Gate {
        inner: Ones(SIZE).seal(),
        held: 4096..8192,
        open: Mutex::new(false),
        opened: Condvar::new(),
        waiting: Barrier::new(2),
    });
    let sealed = Sealed::open_sidecar(Arc::new(Ones(SIZE)), gate.clone()).unwrap();
    let reader = reader_of(&sealed, VerifyOptions::default());
    thread::scope(|scope| {
        let slow = scope.spawn(|| reader.read_exact_at(&mut [0; 4096], 0));
        gate.waiting.wait();
        reader.read_exact_at(&mut [0; 4096], 60 << 20).unwrap();
        *gate.open.lock().unwrap() = true;
        gate.opened.notify_all();
        slow.join().unwrap().unwrap();
    });
}

/// However many readers need the same tree blocks at once, they are read and verified once.
#[test]
fn a_tree_block_is_fetched_once_for_all_waiting_readers() {
    const SIZE: usize = 8 << 20;
    const READERS: usize = 16;
    let bytes = sealed_bytes(&vec![1; SIZE], SealLayout::Appended, &TreeParams::default());
    let reader = reader(Arc::new(bytes), VerifyOptions::default());
    let start = Barrier::new(READERS);
    thread::scope(|scope| {
        for place in 0..READERS as u64 {
            let (reader, start) = (&reader, &start);
            scope.spawn(move || {
                start.wait();
                reader.read_exact_at(&mut [0; 4096], place * 4096).unwrap();
            });
        }
    });
    let stats = reader.stats();
    // All of them lie in the first 512 KiB: a window of level 0 and the block above it.
    assert_eq!(stats.tree_requests, 2);
}

/// A failed fetch does not leave those who wait for it hanging.
#[test]
fn a_failed_fetch_is_retried_by_waiting_readers() {
    const READERS: usize = 8;
    struct FailsFirst {
        inner: Vec<u8>,
        tree: u64,
        left: AtomicU64,
    }
    impl ReadAt for FailsFirst {
        fn size(&self) -> u64 {
            self.inner.size()
        }
        fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
            let fails = |left: u64| left.checked_sub(1);
            if offset >= self.tree && self.left.fetch_update(SeqCst, SeqCst, fails).is_ok() {
                let len = buf.len();
                return Err(ReadError::Truncated { offset, len });
            }
            self.inner.read_exact_at(buf, offset)
        }
    }
    let inner = sealed_bytes(
        &vec![1; 8 << 20],
        SealLayout::Appended,
        &TreeParams::default(),
    );
    let source = Arc::new(FailsFirst {
        inner,
        tree: 8 << 20,
        left: AtomicU64::new(0),
    });
    let reader = reader(source.clone(), VerifyOptions::default());
    source.left.store(4, SeqCst);
    let failed = AtomicU64::new(0);
    thread::scope(|scope| {
        for place in 0..READERS as u64 {
            let (reader, failed) = (&reader, &failed);
            scope.spawn(move || {
                if reader.read_exact_at(&mut [0; 4096], place * 4096).is_err() {
                    failed.fetch_add(1, SeqCst);
                }
            });
        }
    });
    // Each failing reader uses up two failures: of the window, and of what it needs itself.
    assert_eq!(failed.load(SeqCst), 2);
    reader.read_exact_at(&mut [0; 4096], 0).unwrap();
}

#[test]
fn only_the_right_digest_is_trusted() {
    let bytes = sealed_bytes(b"content", SealLayout::Appended, &TreeParams::default());
    let sealed = Sealed::open_appended(Arc::new(bytes)).unwrap();
    let right = Trust::Digest(sealed.file_digest());
    assert!(sealed.accepted_by(&right).is_ok());
    let empty: FileDigest =
        "sha256:3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95"
            .parse()
            .unwrap();
    let refused = sealed.accepted_by(&Trust::Digest(empty));
    assert!(matches!(refused.err(), Some(Error::WrongDigest { .. })));
    let longer = format!("sha512:{}", "0".repeat(128)).parse().unwrap();
    let refused = sealed.accepted_by(&Trust::Digest(longer));
    assert!(matches!(refused.err(), Some(Error::WrongDigest { .. })));
}

/// The data is read once for each read, whatever the tree needs.
#[test]
fn data_is_read_once() {
    let data = Arc::new(Counting::new(noise(1 << 20, 8)));
    let seal = sealed_bytes(data.inner(), SealLayout::Sidecar, &TreeParams::default());
    let sealed = Sealed::open_sidecar(data.clone(), Arc::new(seal)).unwrap();
    let reader = reader_of(&sealed, VerifyOptions::default());
    let before = data.counts();
    reader.read_exact_at(&mut vec![0; 1 << 20], 0).unwrap();
    assert_eq!(data.counts().requests - before.requests, 1);
    assert_eq!(data.counts().bytes - before.bytes, 1 << 20);
}

/// In the last block, too, of which the rest is hashed as zeros.
#[test]
fn nothing_is_read_behind_the_end_of_the_data() {
    let bytes = sealed_bytes(&noise(10_000, 1), SealLayout::Appended, &small_blocks());
    let reader = reader(Arc::new(bytes), VerifyOptions::default());
    let block = reader.leaf_function().block_size();
    let last = 10_000 / block * block;
    for (offset, len) in [(last, block), (last + 1, block - 1), (9_999, 2)] {
        let offset = offset as u64;
        let exact = reader.read_exact_at(&mut vec![0; len], offset);
        assert!(matches!(exact, Err(ReadError::PastEnd { .. })), "{offset}");
        let mut scratch = Scratch::default();
        let borrowed = reader.read_borrowed(&mut scratch, offset, len);
        assert!(
            matches!(borrowed, Err(ReadError::PastEnd { .. })),
            "{offset}"
        );
    }
}

/// With the descriptor it fits into 16 KiB, as the kernel demands.
#[test]
fn too_long_a_signature_is_none() {
    let data = noise(10_000, 1);
    let seal = sealed_bytes(&data, SealLayout::Sidecar, &TreeParams::default());
    let descriptor = seal.len() - 4096;
    let opened = |len: usize| {
        let mut signed = seal[..descriptor + 256].to_vec();
        signed[descriptor + 4..descriptor + 8].copy_from_slice(&(len as u32).to_le_bytes());
        signed.resize(signed.len() + len, 1);
        signed.resize((signed.len() + 4).next_multiple_of(4096) - 4, 0);
        signed.extend((len as u32 + 256).to_le_bytes());
        Sealed::open_sidecar(Arc::new(data.clone()), Arc::new(signed))
    };
    assert!(opened(16_384 - 256).is_ok());
    assert!(matches!(opened(16_385 - 256), Err(Error::NotSealed)));
}

/// Such data may have its seal in another file.
#[test]
fn data_that_ends_like_a_seal_has_none_unless_it_is_whole_blocks() {
    let mut data = noise(10_000, 1);
    data[9_996..].copy_from_slice(&256_u32.to_le_bytes());
    assert!(matches!(
        Sealed::open_appended(Arc::new(data)),
        Err(Error::NotSealed)
    ));
}

/// Where the tree is follows from the sizes, so that they must be exact.
#[test]
fn a_seal_in_a_longer_file_is_refused() {
    let data = noise(10_000, 1);
    let seal = sealed_bytes(&data, SealLayout::Sidecar, &TreeParams::default());
    let mut longer = seal.clone();
    longer.splice(seal.len() - 4096..seal.len() - 4096, [0; 4096]);
    assert!(matches!(
        Sealed::open_sidecar(Arc::new(data), Arc::new(longer)),
        Err(Error::Corrupt(Corruption::Length { expected, actual })) if expected + 4096 == actual
    ));
}
