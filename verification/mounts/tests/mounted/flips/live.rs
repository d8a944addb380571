//! Data and tree, below one mount without caches.

use rustix::fs::{Advice, fadvise};

use super::{copy::is_refusal, sample::small_sample};
use crate::prelude::*;

/// Data and tree of large files: each changed byte is detected, and makes only its block unreadable, or, in
/// the tree, the data below it.
#[test]
fn every_byte_of_data_and_tree() {
    needs!(fuse_or_skip());
    let sample = small_sample();
    let positions = all_or_some(sample.live_positions(), seed());
    sample.in_threads(&positions, |copy, positions| {
        let daemon = copy.mount(&sample.options.clone().tree_cache(0)).unwrap();
        let files: Vec<_> = sample
            .large
            .iter()
            .map(|(name, place)| (File::open(daemon.directory().join(name)).unwrap(), place))
            .collect();
        for &position in positions {
            copy.flip(position);
            for (file, place) in &files {
                let refused = refused_blocks(file, &sample.bytes[(*place).clone()])
                    .unwrap_or_else(|what| panic!("{position}: {what}"));
                let expected = match () {
                    () if sample.tree().contains(&position) => {
                        (0..place.len().div_ceil(4096)).collect()
                    }
                    () if place.contains(&position) => vec![(position - place.start) / 4096],
                    () => vec![],
                };
                assert_eq!(refused, expected, "{position}");
            }
            copy.restore(position);
        }
        for (file, place) in files {
            let refused = refused_blocks(&file, &sample.bytes[place.clone()]);
            assert_eq!(refused, Ok(vec![]), "all is right again");
        }
        daemon.unmount();
    });
}

/// Reads a file that the kernel has not cached. Content of a file of more than a block is
/// aligned to blocks, so that those of the file are those of the image.
fn refused_blocks(file: &File, content: &[u8]) -> Result<Vec<usize>, String> {
    fadvise(file, 0, None, Advice::DontNeed).unwrap();
    let mut bytes = vec![0; content.len()];
    let mut refused = Vec::new();
    let mut at = 0;
    while at < content.len() {
        match file.read_at(&mut bytes[at..], at as u64) {
            Ok(0) => return Err(format!("the file ends at {at}")),
            Ok(len) => at += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_refusal(&error) => {
                refused.push(at / 4096);
                let next = content.len().min((at / 4096 + 1) * 4096);
                bytes[at..next].copy_from_slice(&content[at..next]);
                at = next;
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    if bytes == content {
        Ok(refused)
    } else {
        Err("other bytes".to_owned())
    }
}

/// The precondition of the test above: such a mount caches nothing.
#[test]
fn a_mount_without_caches_reads_again_each_time() {
    needs!(fuse_or_skip());
    let sample = small_sample();
    let copy = sample.copy(0);
    let daemon = copy.mount(&sample.options.clone().tree_cache(0)).unwrap();
    let (name, place) = &sample.large[0];
    let file = File::open(daemon.directory().join(name)).unwrap();
    let requests = || {
        let Kind::Image(status) = daemon.status().kind else {
            panic!("it is an image");
        };
        (status.data_requests, status.tree_requests)
    };
    let content = &sample.bytes[place.clone()];
    let mut before = requests();
    for _ in 0..10 {
        assert_eq!(refused_blocks(&file, content), Ok(vec![]));
        let after = requests();
        assert!(
            after.0 > before.0 && after.1 > before.1,
            "{before:?} {after:?}"
        );
        before = after;
    }
    drop(file);
    daemon.unmount();
}
