//! A mount shows what was stored.

use super::world_with_image;
use crate::prelude::*;

#[test]
fn the_whole_tree() {
    let world = needs!(world_with_image(&[]));
    let (image, mnt) = (world.path("image"), world.path("mnt"));
    let expected = snapshot(&world.path("tree")).unwrap();
    let digest = verimount(args!["digest", world.path("image")]);
    digest.succeeds();
    for options in [
        &["--unpinned"][..],
        &["--unpinned", "--threads", "1"],
        &["--unpinned", "--threads", "30"],
        &["--unpinned", "--tree-cache", "0"],
        &["--unverified"],
    ] {
        let mounted = Daemon::mount(&image, &mnt, options);
        // Once from the storage, once as the kernel has it.
        for _ in 0..2 {
            assert_same(&snapshot(&mnt).unwrap(), &expected);
        }
        mounted.unmount();
    }
}

#[test]
fn a_seal_beside_the_image_or_elsewhere() {
    let world = needs!(World::with_mount_point());
    let image = world.image_with_sidecar("image");
    let digest = verimount(args!["digest", &image]).digest();
    let mnt = world.path("mnt");
    let hello = || fs::read(mnt.join("hello")).unwrap();
    let mounted = Daemon::mount(&image, &mnt, &["--digest", &digest]);
    assert_eq!(hello(), b"Hello, world!\n");
    mounted.unmount();
    let elsewhere = world.path("elsewhere");
    fs::rename(world.path("image.verity"), &elsewhere).unwrap();
    let options = [
        "--digest",
        &digest,
        "--sidecar",
        elsewhere.to_str().unwrap(),
    ];
    let mounted = Daemon::mount(&image, &mnt, &options);
    assert_eq!(hello(), b"Hello, world!\n");
    mounted.unmount();
}

#[test]
fn a_signed_image() {
    let world = needs!(World::with_mount_point());
    let (public, secret) = world.keys("signer");
    let image = world.sealed_image("image");
    verimount(args!["sign", &image, "--key", &secret]).succeeds_quietly();
    let options = ["--key", public.to_str().unwrap()];
    let mounted = Daemon::mount(&image, &world.path("mnt"), &options);
    assert_eq!(fs::read(mounted.path("hello")).unwrap(), b"Hello, world!\n");
    mounted.unmount();
}

#[test]
fn programs_run() {
    let world = needs!(world_with_image(&[]));
    let mounted = Daemon::mount(&world.path("image"), &world.path("mnt"), &["--unpinned"]);
    let status = Command::new(mounted.path("bin/program")).status().unwrap();
    assert!(status.success());
    mounted.unmount();
}

/// A sealed file is shown as a file of its owner; so is an image with `--as-file`.
#[test]
fn a_single_file() {
    let world = needs!(World::with_mount_point());
    let content = noise(200_000, 1);
    let data = world.write("model.data", &content);
    verimount(args!["seal", &data]).succeeds_quietly();
    let program = world.write("program", "#!/bin/sh\nexit 7\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    verimount(args!["seal --append", &program]).succeeds_quietly();
    let empty = world.write("empty", "");
    fs::set_permissions(&empty, fs::Permissions::from_mode(0o600)).unwrap();
    verimount(args!["seal", &empty]).succeeds_quietly();
    let plain = fs::read(world.plain_image("plain")).unwrap();
    let image = world.sealed_image("image");
    for (source, options, content, mode) in [
        (&data, &["--unpinned"][..], &content[..], 0o100_444),
        (&program, &["--unpinned"], b"#!/bin/sh\nexit 7\n", 0o100_500),
        (&empty, &["--unpinned"], b"", 0o100_400),
        (&image, &["--unpinned", "--as-file"], &plain, 0o100_444),
        (&data, &["--unverified"], content.as_slice(), 0o100_444),
    ] {
        let mounted = Daemon::mount(source, &world.path("mnt"), options);
        let name = source.file_name().unwrap();
        let names: Vec<_> = fs::read_dir(mounted.directory())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, [name]);
        let path = mounted.directory().join(name);
        assert!(fs::read(&path).unwrap() == content, "{name:?}");
        let (shown, stored) = (fs::metadata(&path).unwrap(), fs::metadata(source).unwrap());
        assert_eq!(shown.mode(), mode);
        assert_eq!((shown.uid(), shown.gid()), (stored.uid(), stored.gid()));
        assert_eq!(shown.modified().unwrap(), stored.modified().unwrap());
        if name == "program" {
            assert_eq!(Command::new(&path).status().unwrap().code(), Some(7));
        }
        mounted.unmount();
    }
}

/// The kernel's interface returns the same digest as on a file system with fs-verity.
#[test]
fn fsverity_measures_a_single_file() {
    let tool = needs!(tools::find("fsverity"));
    let world = needs!(World::with_mount_point());
    let fsverity = |arguments: &[&str], path: &Path| {
        let output = Command::new(&tool).args(arguments).arg(path).output();
        let output = output.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let digest = text.split(' ').next().unwrap().to_owned();
        output.status.success().then_some(digest)
    };
    for (len, hash) in [(0, "sha256"), (4096, "sha512"), (1_000_000, "sha256")] {
        let file = world.write("file", noise(len, 1));
        let hash_alg = format!("--hash-alg={hash}");
        let expected = fsverity(&["digest", &hash_alg], &file).unwrap();
        verimount(args!["seal", &file, &hash_alg]).succeeds_quietly();
        let mounted = Daemon::mount(&file, &world.path("mnt"), &["--digest", &expected]);
        assert_eq!(
            fsverity(&["measure"], &mounted.path("file")),
            Some(expected)
        );
        mounted.unmount();
    }
    // A file in an image has no digest of its own.
    let image = world.sealed_image("image");
    let mounted = Daemon::mount(&image, &world.path("mnt"), &["--unpinned"]);
    assert_eq!(fsverity(&["measure"], &mounted.path("hello")), None);
    mounted.unmount();
}
