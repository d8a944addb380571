//! Unusable files are refused with one line, and not changed.

use super::{format, mount};
use crate::prelude::*;

const KEYED: [&str; 2] = ["--integrity", "hmac-sha256"];

/// A volume with a key, `key`.
fn keyed(world: &World) -> std::path::PathBuf {
    let key = world.write("key", noise(32, 1));
    let key = ["--integrity-key-file", key.to_str().unwrap()];
    format(world, &[KEYED, key].concat())
}

#[test]
fn a_journal_mac_needs_a_key() {
    for options in [
        args!["--journal-integrity hmac-sha256"],
        args!["--journal-integrity-key-file key"],
    ] {
        verimount([args!["volume format x"], options].concat()).is_wrong_usage();
    }
}

#[test]
fn another_key_or_algorithm() {
    let world = World::new();
    let path = keyed(&world);
    let key = world.path("key");
    let other = world.write("other", noise(32, 2));
    let empty = world.write("empty", "");
    let nothing_matches =
        "matches its tag: the integrity algorithm or the key is wrong: give --integrity";
    for (options, said) in [
        (args![], nothing_matches),
        (args!["--integrity sha256"], nothing_matches),
        (args!["--integrity hmac-sha256"], "needs a key"),
        (args!["--integrity-key-file", &key], "takes no key"),
        (
            args![KEYED[0], KEYED[1], "--integrity-key-file", &other],
            nothing_matches,
        ),
        (
            args![KEYED[0], KEYED[1], "--integrity-key-file", &empty],
            "a key must have",
        ),
        (
            args![
                KEYED[0],
                KEYED[1],
                "--integrity-key-file",
                world.path("none")
            ],
            "none: No such file",
        ),
    ] {
        world.unchanged_by(|| {
            let check = [args!["volume check", &path], options].concat();
            verimount(check).fails_saying(said);
        });
    }
    verimount(args![
        "volume check",
        &path,
        KEYED[0],
        KEYED[1],
        "--integrity-key-file",
        &key
    ])
    .succeeds_quietly();
}

#[test]
fn another_key_of_the_journal() {
    let world = World::new();
    let key = world.write("key", noise(32, 1));
    let other = world.write("other", noise(32, 2));
    let journal = [
        "--journal-integrity",
        "hmac-sha256",
        "--journal-integrity-key-file",
    ];
    let path = format(&world, &[&journal[..], &[key.to_str().unwrap()]].concat());
    let check = |key: &std::path::Path| {
        let key = args![journal[0], journal[1], journal[2], key];
        [args!["volume check", &path], key].concat()
    };
    world.unchanged_by(|| {
        verimount(check(&other)).fails_saying("MAC does not match");
        verimount(args!["volume check", &path]).fails_saying("has a journal MAC");
    });
    verimount(check(&key)).succeeds_quietly();
}

#[test]
fn files_that_are_not_volumes() {
    let world = World::new();
    let foreign = world.write("foreign", noise(1 << 20, 1));
    let tiny = world.write("tiny", "x");
    let folder = world.directory("folder");
    for (path, said) in [
        (&foreign, "foreign: not a dm-integrity volume"),
        (&tiny, "tiny: a device of 0 sectors is too small"),
        (&folder, "folder: "),
        (&world.path("none"), "none: No such file"),
        (&"/dev/null".into(), "/dev/null: "),
    ] {
        world.unchanged_by(|| {
            verimount(args!["volume info", path]).fails_saying(said);
            verimount(args!["volume check", path]).fails_saying(said);
            verimount(args![
                "volume serve",
                path,
                "--socket",
                world.path("socket"),
                "--foreground"
            ])
            .fails_saying(said);
            verimount(args!["volume mount", path, &folder, "--foreground"]).fails_saying(said);
        });
    }
}

#[test]
fn truncated_volumes() {
    let world = World::new();
    let path = format(&world, &[]);
    let whole = fs::metadata(&path).unwrap().len();
    for len in [whole - (1 << 20), 1 << 20, 4096, 512] {
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(len)
            .unwrap();
        world.unchanged_by(|| {
            let check = verimount(args!["volume check", &path]);
            check.fails_saying("too small for the volume");
        });
    }
}

/// A file that was too small is removed.
#[test]
fn too_small_files_are_not_formatted() {
    let world = World::new();
    let path = world.path("vol.img");
    for size in ["1", "512", "64K"] {
        world.unchanged_by(|| {
            let format = args!["volume format", &path, "--size", size];
            verimount(format).fails_saying("too small");
        });
    }
    let path = world.write("file", [0; 65536]);
    world.unchanged_by(|| {
        verimount(args!["volume format", &path]).fails_saying("too small");
    });
}

#[test]
fn volumes_in_use_are_not_opened() {
    let world = needs!(World::with_mount_point());
    let path = format(&world, &[]);
    let mounted = mount(&world, &[]);
    let other = world.directory("other");
    let socket = world.path("socket");
    for arguments in [
        args!["volume check", &path, "--accept", "0..8"],
        args!["volume format", &path, "--force"],
        args!["volume mount", &path, &other],
        args!["volume serve", &path, "--socket", &socket],
    ] {
        verimount(arguments).fails_saying("vol.img: it is in use");
    }
    // To look at it is no use of it.
    verimount(args!["volume info", &path]).succeeds_quietly();
    mounted.unmount();
    verimount(args!["volume check", &path]).succeeds_quietly();
}

/// A volume that cannot be mounted is closed unchanged.
#[test]
fn where_nothing_can_be_mounted() {
    let world = needs!(World::with_mount_point());
    let path = format(&world, &[]);
    let full = world.directory("full");
    fs::write(full.join("file"), "").unwrap();
    for (directory, said) in [
        (&full, "not empty"),
        (&world.path("none"), "none: No such file"),
    ] {
        for mode in super::MODES {
            verimount(args!["volume mount", &path, directory, "--mode", mode]).fails_saying(said);
            let info = super::json(args!["volume info --json", &path], 0);
            assert_eq!(info["dirty_bitmap"], false);
        }
    }
    verimount(args!["volume check", &path]).succeeds_quietly();
}
