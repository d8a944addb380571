//! A new mount for each position: everything but the data of large files, and random positions.

use super::sample::{Sample, THREADS, place, small_sample};
use crate::prelude::*;

/// Everything that is read before any file: superblock, headers, index, small files between them,
/// descriptor and padding.
#[test]
fn every_other_byte() {
    needs!(fuse_or_skip());
    let sample = small_sample();
    let positions = all_or_some(sample.other_positions(), seed());
    // Interleaved, as those that prevent mounting take less time than the others.
    let interleaved = |first| positions.iter().copied().skip(first).step_by(THREADS);
    let shared_out: Vec<_> = (0..THREADS).flat_map(interleaved).collect();
    let must_be_noticed = sample.positions_of_use();
    sample.in_threads(&shared_out, |copy, positions| {
        for &position in positions {
            let noticed = copy.is_noticed(position);
            assert!(
                noticed || !must_be_noticed.contains(&position),
                "{position}"
            );
        }
    });
}

/// Here only the signature protects the digest.
#[test]
fn every_byte_of_a_signature() {
    needs!(fuse_or_skip());
    let mut sample = small_sample();
    let keys = KeyPair::generate(None).unwrap();
    let image = sample.world.path("image");
    let sealed = SealedFile::open(&image, &OpenOptions::new().unpinned()).unwrap();
    let secret = SecretKey::parse(&keys.secret, None).unwrap();
    sealed.sign(&secret).unwrap();
    sample.bytes = fs::read(&image).unwrap();
    let public = PublicKey::parse(&keys.public).unwrap();
    sample.options = OpenOptions::new().key(public);
    let descriptor = sample.tree().end;
    let bytes = &sample.bytes[descriptor..];
    let end = bytes[..4092].iter().rposition(|&byte| byte != 0).unwrap() + 1;
    let all = (descriptor..descriptor + end).chain(descriptor + 4092..descriptor + 4096);
    let positions = all_or_some(all.collect(), seed());
    let signature = String::from_utf8(bytes[256..end].to_vec()).unwrap();
    let comment = descriptor + 256..descriptor + 256 + signature.find('\n').unwrap();
    sample.in_threads(&positions, |copy, positions| {
        for &position in positions {
            let noticed = copy.is_noticed(position);
            // The comment says of itself that it is not signed.
            assert!(noticed || comment.contains(&position), "{position}");
        }
    });
}

/// Random positions, each with a new mount, also as an ordinary user.
#[track_caller]
pub(super) fn random_positions(sample: &Sample, count: usize) {
    let seed = seed();
    let positions = random_numbers(count, sample.bytes.len() as u64, seed);
    let positions: Vec<_> = positions
        .into_iter()
        .map(|position| position as usize)
        .collect();
    sample.in_threads(&positions, |copy, positions| {
        for &position in positions {
            let noticed = copy.is_noticed(position);
            let is_data = sample
                .large
                .iter()
                .any(|(_, place)| place.contains(&position));
            assert!(noticed || !is_data, "{position}");
        }
    });
}

#[test]
fn random_bytes_of_a_small_image() {
    if fuse_or_skip() {
        random_positions(&small_sample(), random_cases(200) as usize);
    }
}

/// 64 MiB, in files of all sizes.
#[test]
fn random_bytes_of_a_large_image() {
    needs!(fuse_or_skip());
    let world = World::new();
    let tree = world.directory("tree");
    let sizes = (1..=10).map(|number| number * 1_000_000 + number * 37);
    for (number, size) in sizes.enumerate() {
        fs::write(
            tree.join(format!("large {number}")),
            noise(size, number as u64),
        )
        .unwrap();
    }
    for number in 0..1000 {
        let name = format!("small {number}");
        fs::write(tree.join(name), noise(10_000, 100 + number)).unwrap();
    }
    let image = world.path("image");
    let built = build(&tree, &image, &BuildOptions::default()).unwrap();
    let bytes = fs::read(&image).unwrap();
    let expected = snapshot(&tree).unwrap();
    let large = expected
        .iter()
        .filter_map(|(name, (_, stored))| match stored {
            Stored::File { content, .. } if content.len() > 1_000_000 => {
                Some((name.clone(), place(&bytes, content)))
            }
            _ => None,
        });
    let sample = Sample {
        large: large.collect(),
        expected,
        options: OpenOptions::new().digest(built.digest.unwrap()),
        sidecar: None,
        bytes,
        world,
    };
    assert!(sample.bytes.len() > 64 << 20);
    random_positions(&sample, 24);
}
