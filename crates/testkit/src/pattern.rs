use crate::Random;

/// The test data of the kernel's fs-verity tests, whose digests are known.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| ((i % 11) + (i % 439) + (i % 1103)) as u8)
        .collect()
}

/// Pseudorandom bytes, which do not compress or repeat.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = vec![0; len];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&random.number().to_le_bytes()[..chunk.len()]);
    }
    bytes
}
