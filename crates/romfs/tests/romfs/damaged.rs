//! Partly unreadable images.

use std::{
    collections::BTreeSet,
    ops::{ControlFlow, Range},
    path::PathBuf,
};

use verimount_romfs::{Error, Romfs};
use verimount_testkit::Unreadable;

use crate::{image_of_everything, model::in_image};

/// All paths that are found, and whether entries were reported as lost.
fn paths(image: &Romfs<Unreadable<&[u8]>>) -> (BTreeSet<PathBuf>, bool) {
    let mut paths = BTreeSet::new();
    let mut lost = false;
    let walked = image.walk_damaged(|found| {
        match found {
            Ok((path, _)) => _ = paths.insert(path.to_owned()),
            Err(_) => lost = true,
        }
        ControlFlow::Continue(())
    });
    assert!(walked.is_continue());
    (paths, lost)
}

fn blocks(image: &[u8]) -> impl Iterator<Item = Range<u64>> {
    let starts = (0..image.len() as u64).step_by(1024);
    starts.map(|start| start..start + 1024)
}

#[test]
fn with_an_index_no_block_takes_names_away() {
    let image = &image_of_everything();
    let whole = in_image(&Romfs::open(image).unwrap()).unwrap();
    for range in blocks(image) {
        let romfs = Romfs::open_damaged(Unreadable::new(&**image, range)).unwrap();
        let (paths, lost) = paths(&romfs);
        assert!(!lost);
        assert!(paths.iter().eq(whole.keys()), "{paths:?}");
    }
}

#[test]
fn without_one_only_what_is_behind_bad_headers_is_lost() {
    let image = image_of_everything();
    let size = Romfs::open(&image).unwrap().size() as usize;
    let image = &image[..size];
    let whole = in_image(&Romfs::open(image).unwrap()).unwrap();
    // The first headers are read together with the superblock.
    let headers = headers(image).split_off(&512);
    assert!(!headers.is_empty());
    for at in headers {
        let range = at..at + 1;
        let romfs = Romfs::open_damaged(Unreadable::new(image, range)).unwrap();
        let (paths, lost) = paths(&romfs);
        assert!(lost && paths.len() < whole.len(), "{at}: {paths:?}");
        assert!(paths.iter().all(|path| whole.contains_key(path)));
    }
    let superblock = Unreadable::new(image, 0..1);
    let refused = Romfs::open_damaged(superblock);
    assert!(matches!(refused, Err(Error::Source(_))));
}

/// The offsets of all headers except the root's and those of hard links.
fn headers(image: &[u8]) -> BTreeSet<u64> {
    let mut headers = BTreeSet::new();
    let romfs = Romfs::open(image).unwrap();
    let walked = romfs.walk(|_, node| {
        headers.insert(node.id.into());
        Ok::<_, Error>(())
    });
    walked.unwrap();
    headers
}
