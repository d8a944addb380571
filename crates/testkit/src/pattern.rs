/// The test data of the kernel's fs-verity tests, whose digests are known.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| ((i % 11) + (i % 439) + (i % 1103)) as u8)
        .collect()
}

/// Bytes that do not compress or repeat, the same for the same seed.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    // SplitMix64, from its public-domain description.
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let mut bytes = vec![0; len];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&next().to_le_bytes()[..chunk.len()]);
    }
    bytes
}
