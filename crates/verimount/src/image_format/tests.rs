//! What an image is of, and what a tree cannot tell.

use std::{fs, ops::ControlFlow, sync::Arc};

use verimount_romfs::{BlockSize, Options, VolumeName, plan};
use verimount_scan::{Options as ScanOptions, scan};
use verimount_testkit::noise;
use verimount_verity::dm_verity;

use super::*;
use crate::{Content, OpenOptions, SealFormat, SealOptions, seal};

/// An image of two files, `first` and `second`.
fn image() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    for (name, seed) in [("first", 1), ("second", 2)] {
        fs::write(folder.path().join(name), noise(50_000, seed)).unwrap();
    }
    let options = Options {
        volume_name: VolumeName::default(),
        block_size: BlockSize::MIN,
    };
    let mut bytes = Vec::new();
    let plan = plan(
        scan(folder.path(), &ScanOptions::default(), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap(),
        &options,
    )
    .unwrap();
    plan.write_to(&mut bytes, &mut |_| ControlFlow::Continue(()))
        .unwrap();
    bytes
}

fn source(bytes: impl Into<Vec<u8>>) -> Checked {
    Checked::unverified(Arc::new(bytes.into()))
}

#[test]
fn an_image_is_recognised() {
    let bytes = image();
    let tree = open(source(bytes.clone()), Vec::new()).unwrap().unwrap();
    let first = tree.lookup(NodeId::ROOT, "first".as_ref()).unwrap();
    assert_eq!(first.size, 50_000);
    let description = describe(&source(bytes.clone())).unwrap().unwrap();
    assert_eq!(
        (description.format, description.size),
        ("romfs", tree.usage().bytes)
    );
    check(source(bytes.clone())).unwrap();
    assert!(truncation(&source(bytes.clone())).is_none());
    for other in [&b""[..], b"text", b"-rom1fs-"] {
        assert!(open(source(other), Vec::new()).unwrap().is_none());
        assert_eq!(describe(&source(other)).unwrap(), None);
        check(source(other)).unwrap();
        assert!(truncation(&source(other)).is_none());
    }
    let cut = &bytes[..60_000];
    assert!(matches!(
        open(source(cut), Vec::new()),
        Err(Error::Corrupt(_))
    ));
    assert!(truncation(&source(cut)).is_some());
}

#[test]
fn an_erofs_image_is_recognised() {
    let bytes = include_bytes!("../../../erofs/tests/erofs/images/inline.erofs").to_vec();
    let tree = open(source(bytes.clone()), Vec::new()).unwrap().unwrap();
    let large = tree.lookup(NodeId::ROOT, "large".as_ref()).unwrap();
    assert_eq!(large.size, 1300);
    let description = describe(&source(bytes.clone())).unwrap().unwrap();
    let size = bytes.len() as u64;
    assert_eq!((description.format, description.size), ("erofs", size));
    assert_eq!(description.volume_name, b"first");
    check(source(bytes.clone())).unwrap();
    assert!(truncation(&source(bytes.clone())).is_none());
    assert!(truncation(&source(&bytes[..4096])).is_some());
    let mut damaged = bytes;
    damaged[1024 + 0x10] ^= 1;
    assert!(matches!(
        open(source(damaged), Vec::new()),
        Err(Error::Corrupt(_))
    ));
}

#[test]
fn an_erofs_image_that_cannot_be_opened_does_not_pass_a_check() {
    let bytes = include_bytes!("../../../erofs/tests/erofs/images/inline.erofs").to_vec();
    let mut wrong_checksum = bytes.clone();
    wrong_checksum[1024 + 4] ^= 1;
    assert!(matches!(
        check(source(wrong_checksum)),
        Err(Error::Corrupt(_))
    ));
    let mut of_composefs = bytes;
    of_composefs[..4].copy_from_slice(&[0x9a, 0x62, 0x78, 0xd0]);
    assert!(matches!(
        check(source(of_composefs)),
        Err(Error::Unsupported(_))
    ));
}

/// A root hash does not cover the size of the data, which is in the superblock of dm-verity.
#[test]
fn a_superblock_that_hides_the_end_of_an_image_is_found() {
    /// Where the superblock has the number of data blocks.
    const DATA_BLOCKS: usize = 72;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let bytes = include_bytes!("../../../erofs/tests/erofs/images/inline.erofs");
    let image = [
        &bytes[..],
        &vec![0; bytes.len().next_multiple_of(4096) - bytes.len()],
    ]
    .concat();
    fs::write(&path, &image).unwrap();
    let format = SealFormat::DmVerity(dm_verity::Params::default());
    let options = SealOptions {
        append: true,
        format,
        ..SealOptions::default()
    };
    let sealed = seal(&path, &options).unwrap();
    let options = OpenOptions::new()
        .root_hash(sealed.identity.to_string().parse().unwrap())
        .hash_offset(sealed.hash_offset);
    let open = || Content::open(&path, &options);
    open().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[image.len() + DATA_BLOCKS] -= 1;
    fs::write(&path, bytes).unwrap();
    let refused = open().map(drop).unwrap_err().to_string();
    assert!(refused.contains("truncated"), "{refused}");
}

#[test]
fn an_image_that_contradicts_itself_is_found() {
    let mut bytes = image();
    // The index is behind the headers, so its names are the last.
    let name = bytes.windows(6).rposition(|window| window == b"second");
    bytes[name.unwrap()] = b'S';
    assert!(matches!(check(source(bytes)), Err(Error::Corrupt(_))));
}

/// The kernel would enforce the list, and a mount would not.
#[test]
fn a_list_that_the_image_denies_is_found() {
    // Whose file `large` has a list.
    let mut bytes = include_bytes!("../../../erofs/tests/erofs/images/inline.erofs").to_vec();
    let may_have_lists = |bytes: &[u8]| {
        let tree = open(source(bytes), Vec::new()).unwrap().unwrap();
        tree.has_access_lists()
    };
    assert!(may_have_lists(&bytes));
    bytes[1008..1017].copy_from_slice(b"verimnt1\x01");
    assert!(!may_have_lists(&bytes));
    let found = check(source(bytes)).unwrap_err().to_string();
    assert!(found.contains("hard has an access control list"), "{found}");
}

#[test]
fn places_are_named() {
    let bytes = image();
    let mut places = Vec::new();
    let tree = open_damaged(source(bytes.clone())).unwrap().unwrap();
    let walked = tree.walk_places(&mut |found| {
        let place = found.unwrap();
        places.push((place.range, place.path.to_owned()));
        ControlFlow::Continue(())
    });
    assert!(walked.is_continue());
    assert_eq!(places.remove(0).1, Path::new("."));
    assert_eq!(places.len(), 2);
    for ((range, path), (name, seed)) in places.iter().zip([("first", 1), ("second", 2)]) {
        assert_eq!(path, Path::new(name));
        let part = &bytes[range.start as usize..range.end as usize];
        assert!(part.ends_with(&noise(50_000, seed)), "{name}");
    }
    assert!(open_damaged(source("text")).unwrap().is_none());
}

/// One of the files has a list, and others have other attributes.
#[test]
fn not_more_attributes_are_looked_at_than_an_image_can_have() {
    let image = include_bytes!("../../../erofs/tests/erofs/images/inline.erofs");
    let checked = |most| {
        let tree =
            ErofsTree::open(Checked::unverified(Arc::new(image.to_vec())), Vec::new()).unwrap();
        let refused = check_that_none_has_a_list(&tree, most).unwrap_err();
        (refused.to_string(), tree.work().attributes)
    };
    let (found, all) = checked(u64::MAX);
    assert!(found.contains("has an access control list"), "{found}");
    let (found, looked_at) = checked(0);
    assert!(found.contains("too long to look at all"), "{found}");
    assert!(0 < looked_at && looked_at < all, "{looked_at} of {all}");
}
