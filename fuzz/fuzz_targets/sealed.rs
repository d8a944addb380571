//! Opens bytes as a sealed file, sidecar and appended, and reads its data verified.
//!
//! The input is the data's length in two bytes, little-endian; the data; and the seal. Whatever the
//! fuzzer makes of them, a read must fail or give the data that is there; and where the digest is
//! the one of the seed, the seed's data.

#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use verimount_source::{ReadAt, Scratch};
use verimount_verity::{
    Error, FileDigest, Sealed, TreeReadahead, Trust, VerifiedReader, VerifyOptions,
};

/// The largest of the inputs to begin with.
const SEED: &[u8] = include_bytes!("../seeds/sealed/two-levels");

/// The seed's data, and its digest.
static ORIGINAL: LazyLock<(&[u8], FileDigest)> = LazyLock::new(|| {
    let (data, seal) = parts(SEED).expect("the seed has data and seal");
    let sealed = Sealed::open_sidecar(source(data), source(seal)).expect("the seed is sealed");
    (data, sealed.file_digest())
});

fuzz_target!(|input: &[u8]| {
    let Some((data, seal)) = parts(input) else {
        return;
    };
    check(data, Sealed::open_sidecar(source(data), source(seal)));
    let mut file = data.to_vec();
    file.resize(data.len().next_multiple_of(65536), 0);
    file.extend(seal);
    check(data, Sealed::open_appended(Arc::new(file)));
});

fn parts(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = input.split_first_chunk()?;
    rest.split_at_checked(u16::from_le_bytes(*len).into())
}

fn source(bytes: &[u8]) -> Arc<dyn ReadAt> {
    Arc::new(bytes.to_vec())
}

fn check(data: &[u8], sealed: Result<Sealed, Error>) {
    let Ok(sealed) = sealed else {
        return;
    };
    let _ = sealed.signature();
    // Appended, data of another length may be meant.
    if sealed.data_unverified().size() == data.len() as u64 {
        check_reads(&sealed, &Trust::Unpinned, data);
    }
    let (original, digest) = *ORIGINAL;
    check_reads(&sealed, &Trust::Digest(digest), original);
}

fn check_reads(sealed: &Sealed, trust: &Trust, expected: &[u8]) {
    let options = VerifyOptions {
        tree_readahead: TreeReadahead::Auto,
        cache_bytes: 1 << 16,
    };
    let Ok(reader) = VerifiedReader::new(sealed, trust, options) else {
        return;
    };
    let size = usize::try_from(reader.size()).expect("no more than the input has");
    let mut scratch = Scratch::default();
    for range in [0..size, size / 2..size, size / 3..size / 2] {
        if let Ok(bytes) = reader.read_borrowed(&mut scratch, range.start as u64, range.len()) {
            assert_eq!(bytes, &expected[range]);
        }
    }
}
