//! EROFS images: those of `mkfs.erofs` are read, and ours are read by `fsck.erofs` and by the kernel.

mod fsck;
mod kernel;
mod mkfs;

use std::{io::Cursor, num::NonZeroUsize, path::Path};

use verimount_erofs::{Compression, Options, plan};
use verimount_scan::{Options as ScanOptions, scan};
use verimount_testkit::go_on;

const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// The image that the writer makes of a directory.
fn image_of(root: &Path, compression: Option<Compression>) -> Vec<u8> {
    let tree = scan(root, &ScanOptions::default(), &mut go_on).unwrap();
    let options = Options {
        compression,
        ..Options::default()
    };
    let mut image = Cursor::new(Vec::new());
    plan(tree, &options, &mut go_on)
        .unwrap()
        .write_to(&mut image, TWO, &mut go_on)
        .unwrap();
    image.into_inner()
}

fn compressed(root: &Path, codec: &str, cluster: u64) -> Vec<u8> {
    let compression = Compression {
        codec: codec.parse().unwrap(),
        cluster: cluster.try_into().unwrap(),
    };
    image_of(root, Some(compression))
}

fn text(len: usize) -> Vec<u8> {
    let lines = (0_u32..).flat_map(|number| format!("line {number} of a text\n").into_bytes());
    lines.take(len).collect()
}
