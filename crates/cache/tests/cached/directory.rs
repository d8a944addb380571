//! A directory that is not as it should be.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
};

use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::geteuid,
};
use verimount_cache::{Cache, CacheError};
use verimount_testkit::{noise, skip};

use crate::{Content, LARGE, cache, folder};

/// Some user that is not the present one.
const OTHER: u32 = 65_534;

#[test]
fn it_is_private() {
    let folder = folder();
    let content = Content::new(noise(100_000, 1));
    let cache = cache(folder.path(), LARGE);
    content.assert_read_by(&content.open(&cache, &content.server()));
    let mode = |path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(cache.path().to_owned()), 0o700);
    assert_eq!(mode(content.file(&cache)), 0o600);
}

#[test]
fn links_are_refused() {
    let folder = folder();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    Cache::open(&real, LARGE).unwrap();
    symlink(&real, &link).unwrap();
    let refused = Cache::open(&link, LARGE).unwrap_err();
    assert!(matches!(refused, CacheError::WrongType { .. }), "{refused}");

    let outer = folder.path().join("outer");
    fs::create_dir(&outer).unwrap();
    symlink(real.join("objects"), outer.join("objects")).unwrap();
    let refused = Cache::open(&outer, LARGE).unwrap_err();
    assert!(matches!(refused, CacheError::WrongType { .. }), "{refused}");
}

/// Root may be given a cache in another user's directory.
#[test]
fn links_on_the_way_that_others_may_have_put_there_are_refused() {
    let folder = folder();
    let [real, theirs] = ["real", "theirs"].map(|name| folder.path().join(name));
    for path in [&real, &theirs] {
        fs::create_dir(path).unwrap();
    }
    symlink(&real, theirs.join("link")).unwrap();
    let path = theirs.join("link/new/cache");
    fs::set_permissions(&theirs, Permissions::from_mode(0o777)).unwrap();
    let refused = Cache::open(&path, LARGE).unwrap_err();
    assert!(matches!(refused, CacheError::Io { .. }), "{refused}");
    assert!(!real.join("new").exists());
    fs::set_permissions(&theirs, Permissions::from_mode(0o755)).unwrap();
    Cache::open(&path, LARGE).unwrap();
    assert!(real.join("new/cache").exists());
}

#[test]
fn what_others_may_change_is_refused() {
    let folder = folder();
    let path = folder.path().join("cache");
    Cache::open(&path, LARGE).unwrap();
    for (changed, mode) in [(path.clone(), 0o777), (path.join("objects"), 0o750)] {
        let before = fs::metadata(&changed).unwrap().permissions();
        fs::set_permissions(&changed, Permissions::from_mode(mode)).unwrap();
        let refused = Cache::open(&path, LARGE).unwrap_err();
        assert!(matches!(refused, CacheError::Mode { .. }), "{refused}");
        fs::set_permissions(&changed, before).unwrap();
    }
    Cache::open(&path, LARGE).unwrap();
    if !geteuid().is_root() {
        skip("only root can give files away");
        return;
    }
    for changed in [path.join("objects"), path.clone()] {
        chown(&changed, Some(OTHER), None).unwrap();
        let refused = Cache::open(&path, LARGE).unwrap_err();
        assert!(matches!(refused, CacheError::Foreign { .. }), "{refused}");
    }
}

/// Content whose object cannot be used is read, but not kept.
#[test]
fn wrong_objects_are_refused() {
    let folder = folder();
    let content = Content::new(noise(100_000, 2));
    let cache = cache(folder.path(), LARGE);
    let file = content.file(&cache);
    let target = folder.path().join("target");
    fs::write(&target, "target").unwrap();
    let put: [&dyn Fn(); 4] = [
        &|| symlink(&target, &file).unwrap(),
        &|| fs::create_dir(&file).unwrap(),
        &|| {
            let mode = Mode::from_raw_mode(0o600);
            mknodat(CWD, &file, FileType::Fifo, mode, 0).unwrap();
        },
        &|| {
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        },
    ];
    for (number, put) in (1..).zip(put) {
        put();
        let part = verimount_cache::Part::Data;
        assert!(cache.object(&content.key(), part, 100).is_none());
        assert!(cache.existing(&content.key(), part).is_none());
        assert_eq!(cache.stats().failures, number);
        fs::remove_file(&file)
            .or_else(|_| fs::remove_dir(&file))
            .unwrap();
    }
    assert_eq!(fs::read(&target).unwrap(), b"target");
}
