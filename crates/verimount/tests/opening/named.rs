//! Images in registries that are named by the digest of their manifests: the name pins data, size and layout.

use std::fs;

use verimount::{Cache, Content, Error, ErrorKind, Location, OpenOptions, ReadAt};
use verimount_remote::registry::BlobDigest;
use verimount_testkit::noise;

use crate::{
    in_registry::Registry,
    stored::{Keys, Known, Layout, Stored},
    trust::{Pins, Trust, open},
};

const BLOCKS: usize = 200;

fn read(opened: &Content) -> Vec<u8> {
    let content = opened.file();
    let mut bytes = vec![0; content.size() as usize];
    content.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn is_other_superblock(error: &Error) -> bool {
    let is_said = error.to_string().contains("another superblock");
    is_said && error.kind() == ErrorKind::WrongContent
}

/// The superblock with another number of data blocks.
fn with_data_blocks(sidecar: &[u8], blocks: u64) -> Vec<u8> {
    let mut changed = sidecar.to_vec();
    changed[72..80].copy_from_slice(&blocks.to_le_bytes());
    changed
}

#[test]
fn a_registry_cannot_change_how_a_tree_is_read() {
    let registry = Registry::new();
    let stored = Stored::new(noise(BLOCKS * 4096, 1), Layout::DmVerity, None);
    let name = registry.push(&stored, "1");
    let options = OpenOptions::new();
    let opened = || open(&name, &Trust::named(), &options);
    assert!(read(&opened().unwrap()) == stored.data);
    let sidecar = stored.sidecar.as_ref().unwrap();
    // With one block, the topmost block of hashes would be the content.
    for blocks in [150, 1] {
        registry.replace(sidecar, &with_data_blocks(sidecar, blocks));
        let refused = opened().unwrap_err();
        assert!(is_other_superblock(&refused), "{blocks}: {refused}");
    }
    registry.replace(sidecar, sidecar);
    assert!(read(&opened().unwrap()) == stored.data);
}

/// Manifests of before have no digest of the superblock.
#[test]
fn the_superblock_of_an_older_manifest_is_compared_with_its_layer() {
    let registry = Registry::new();
    let stored = Stored::new(noise(BLOCKS * 4096, 1), Layout::DmVerity, None);
    registry.push(&stored, "1");
    let manifest = String::from_utf8(registry.server.manifest("1").unwrap()).unwrap();
    let mut manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let without = |annotations: &mut serde_json::Value| {
        let annotations = annotations.as_object_mut().unwrap();
        assert!(
            annotations
                .remove("dev.verimount.dmverity-superblock")
                .is_some()
        );
    };
    without(&mut manifest["annotations"]);
    without(&mut manifest["layers"][0]["annotations"]);
    let manifest = manifest.to_string();
    let digest = BlobDigest::of(manifest.as_bytes());
    registry
        .server
        .store_manifest(&digest.to_string(), manifest);
    let name = format!("oci://{}/repository@{digest}", registry.server.host());
    let name: Location = name.parse().unwrap();

    let opened = || open(&name, &Trust::named(), &OpenOptions::new());
    assert!(read(&opened().unwrap()) == stored.data);
    let sidecar = stored.sidecar.as_ref().unwrap();
    registry.replace(sidecar, &with_data_blocks(sidecar, 150));
    assert!(is_other_superblock(&opened().unwrap_err()));
}

#[test]
fn a_key_does_not_replace_what_a_name_pins() {
    let registry = Registry::new();
    let keys = Keys::new();
    let release = |seed| {
        Stored::new(
            noise(BLOCKS * 4096, seed),
            Layout::Appended,
            Some((&keys, 0)),
        )
    };
    let (first, second) = (release(1), release(2));
    let name = registry.push(&second, "2");
    let options = OpenOptions::new();
    let both = [Trust::named(), keys.public(0).into()];
    for trust in &both {
        assert!(read(&open(&name, trust, &options).unwrap()) == second.data);
    }
    assert!(open(&name, &keys.public(1).into(), &options).is_err());
    // The older release has the right size and is signed as well.
    registry.replace(&second.file, &first.file);
    for trust in both.iter().chain([&Trust::Unpinned]) {
        assert!(open(&name, trust, &options).is_err(), "{trust:?}");
    }
}

/// The registry itself does not know the name.
#[test]
fn only_a_mirror_of_the_same_name_says_what_that_pins() {
    let [registry, empty] = [(); 2].map(|()| Registry::new());
    let [first, second] =
        [1, 2].map(|seed| Stored::new(noise(BLOCKS * 4096, seed), Layout::Appended, None));
    let (name, other) = (registry.push(&first, "1"), registry.push(&second, "2"));
    let at_registry = name.to_string();
    let (_, digest) = at_registry.split_once('@').unwrap();
    let gone: Location = format!("oci://{}/repository@{digest}", empty.server.host())
        .parse()
        .unwrap();
    for trust in [Trust::named(), Trust::Unpinned] {
        let opened = |mirror: &Location| open(&gone, &trust, &OpenOptions::new().mirror(mirror));
        assert!(read(&opened(&name).unwrap()) == first.data);
        assert!(opened(&other).is_err(), "{trust:?}");
    }
}

#[test]
fn pins_of_two_seals_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let stored = Stored::new(noise(4096, 1), Layout::Sidecar, None);
    let path = stored.write_to(folder.path());
    let both = Trust::Pinned(Pins {
        key: Some(Keys::new().public(0)),
        root_hash: Some("00".repeat(32).parse().unwrap()),
        digest: None,
    });
    let refused = open(&path, &both, &OpenOptions::new());
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    let refused = open(&path, &Trust::named(), &OpenOptions::new());
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotTrusted);
}

/// Nor can whoever changes files of the cache.
#[test]
fn a_superblock_in_the_cache_is_compared_with_the_name() {
    let registry = Registry::new();
    let stored = Stored::new(noise(BLOCKS * 4096, 1), Layout::DmVerity, None);
    let name = registry.push(&stored, "1");
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let options = OpenOptions::new().cache(Cache::open(&cache, None).unwrap());
    let size = || read(&open(&name, &Trust::named(), &options).unwrap()).len();
    assert_eq!(size(), BLOCKS * 4096);
    let objects = fs::read_dir(cache.join("objects")).unwrap();
    let mut objects = objects.map(|object| object.unwrap().path());
    let seal = objects.find(|object| object.extension().is_some_and(|end| end == "seal"));
    let seal = seal.unwrap();
    let changed = with_data_blocks(&fs::read(&seal).unwrap(), 150);
    fs::write(&seal, changed).unwrap();
    assert_eq!(size(), BLOCKS * 4096);
}

/// What one server says of a tree does not count for another.
#[test]
fn a_cache_does_not_keep_what_nothing_pins() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path().join("cache"), None).unwrap();
    let options = OpenOptions::new().cache(cache.clone());
    let stored = Stored::new(noise(BLOCKS * 4096, 1), Layout::DmVerity, None);
    let Known::Root { root, .. } = stored.known.clone() else {
        unreachable!()
    };
    let sidecar = stored.sidecar.clone().unwrap();
    let trust = Trust::from(root);
    let size = |sidecar: Vec<u8>| {
        let options = options
            .clone()
            .sidecar(Location::slow_source("seal", sidecar));
        let location = Location::slow_source("content", stored.file.clone());
        read(&open(location, &trust, &options).unwrap()).len()
    };
    assert_eq!(size(with_data_blocks(&sidecar, 150)), 150 * 4096);
    assert_eq!(size(sidecar), BLOCKS * 4096);
}

/// However it is stored, the same content is the same in the cache.
#[test]
fn content_in_two_layouts_is_kept_once() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path().join("cache"), None).unwrap();
    let options = OpenOptions::new().cache(cache.clone());
    let data = noise(BLOCKS * 4096, 1);
    let layouts = [Layout::Appended, Layout::Sidecar];
    let [appended, beside] = layouts.map(|layout| Stored::new(data.clone(), layout, None));
    let Known::Digest(digest) = beside.known else {
        unreachable!()
    };
    for stored in [&appended, &beside, &appended] {
        let sidecar = stored.sidecar.clone();
        let sidecar = sidecar.map(|sidecar| Location::slow_source("seal", sidecar));
        let options = options.clone().sidecar(sidecar);
        let location = Location::slow_source("content", stored.file.clone());
        let opened = open(location, &digest.into(), &options).unwrap();
        assert!(read(&opened) == data);
    }
    let written = cache.stats().written;
    assert!(written < 2 * data.len() as u64, "{written}");
}
