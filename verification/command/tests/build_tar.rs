//! Images of tar archives.

use std::ffi::CString;

use rustix::mount::mount as mount_system;

use crate::{models::sha256, prelude::*};

/// The archive that GNU tar makes of a directory; `None` if that is not installed.
fn archived(world: &World, name: &str, tree: &Path) -> Option<PathBuf> {
    let archive = world.path(name);
    let mut tar = Command::new(tools::find("tar")?);
    tar.args([
        "--create",
        "--format=posix",
        "--sparse",
        "--xattrs",
        "--acls",
    ]);
    tar.arg("--file").arg(&archive).arg("--directory").arg(tree);
    assert!(tar.arg(".").status().unwrap().success());
    Some(archive)
}

fn build(source: &Path, image: &Path, options: &[&str]) -> Ended {
    verimount(args!["build", source, image; options.iter()])
}

/// Builds what comes through standard input.
fn build_from(input: impl Into<Stdio>, image: &Path, options: &[&str]) -> Ended {
    let mut command = User::Current.command();
    command.arg("build").arg("-").arg(image).args(options);
    command
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let described = format!("{command:?}");
    finish_spawned(command.spawn().unwrap(), described)
}

#[test]
fn an_archive_gives_the_image_of_its_directory() {
    let world = World::new();
    let tree = world.directory("tree");
    create(&tree, false);
    // Archives have none.
    fs::remove_file(tree.join("socket")).unwrap();
    File::create(tree.join("sparse"))
        .unwrap()
        .set_len(1 << 20)
        .unwrap();
    let archive = needs!(archived(&world, "archive", &tree));
    let image = world.path("image");
    let built = |ended: Ended| {
        ended.succeeds();
        fs::read(&image).unwrap()
    };
    for options in [
        &["--format", "erofs"][..],
        &[
            "--format",
            "erofs",
            "--all-root",
            "--mtime",
            "5",
            "--xattrs",
            "none",
        ],
        &[
            "--format",
            "erofs",
            "--owner",
            "1:2",
            "--exclude",
            "many",
            "--exclude",
            "a/**",
        ],
        &["--format", "romfs"],
    ] {
        let expected = built(build(&tree, &image, options));
        assert!(
            built(build(&archive, &image, options)) == expected,
            "{options:?}"
        );
        let input = File::open(&archive).unwrap();
        assert!(
            built(build_from(input, &image, options)) == expected,
            "{options:?}"
        );
        let cat = Command::new("cat")
            .arg(&archive)
            .stdout(Stdio::piped())
            .spawn();
        let mut cat = cat.unwrap();
        let pipe = cat.stdout.take().unwrap();
        assert!(
            built(build_from(pipe, &image, options)) == expected,
            "{options:?}"
        );
        assert!(cat.wait().unwrap().success());
    }
}

/// Nothing is written to the tree, so neither owners nor devices need root.
#[test]
fn an_ordinary_user_gets_the_image_that_root_gets() {
    let world = World::new();
    let archive = TarArchive::default()
        .member(b'5', b"dir", b"", b"")
        .member(b'0', b"dir/file", b"", b"content")
        .member(b'3', b"dir/null", b"", b"")
        .records(&[("SCHILY.xattr.trusted.x", b"1"), ("uid", b"70000")])
        .file("other")
        .finish();
    let archive = world.write("archive", archive);
    let user = User::ordinary(&world);
    let own = world.directory("own");
    user.own(&own);
    let [mine, theirs] = [world.path("image"), own.join("image")];
    let format = ["--format", "erofs"];
    build(&archive, &mine, &format).succeeds();
    let arguments = args!["build", &archive, &theirs, "--format", "erofs"];
    verimount_as(&user, arguments).succeeds();
    assert!(fs::read(mine).unwrap() == fs::read(theirs).unwrap());
}

#[test]
fn what_is_no_good_archive_leaves_the_older_image() {
    let world = World::new();
    let image = world.path("image");
    let good = world.write("good", TarArchive::default().file("file").finish());
    build(&good, &image, &["--format", "erofs"]).succeeds();
    let hostile = TarArchive::default()
        .file("file")
        .file("../escape")
        .finish();
    let cut = TarArchive::default().file("file").unfinished();
    for (bytes, words) in [
        (&b"\x1f\x8b\x08\0"[..], "cannot be decompressed by gzip"),
        (b"\x28\xb5\x2f\xfd", "cannot be decompressed by zstd"),
        (b"\xfd7zXZ\0", "compressed by xz: decompress it first"),
        (b"#!/bin/sh\n", "not a tar archive"),
        (b"", "not a tar archive"),
        (&hostile, "../escape: its path contains .."),
        (&cut, "truncated"),
    ] {
        let archive = world.write("bad", bytes);
        world.unchanged_by(|| {
            build(&archive, &image, &[]).fails_saying(words);
            let input = File::open(&archive).unwrap();
            build_from(input, &image, &[]).fails_saying(words);
        });
    }
    world.unchanged_by(|| {
        build_from(File::open("/dev/null").unwrap(), &image, &[])
            .fails_saying("neither a directory");
        build(&world.path("missing"), &image, &[]).fails_saying("missing");
        build(&image, &world.path("other"), &[]).fails_saying("it is an image of the format erofs");
        let ended = build(&good, Path::new("-"), &[]);
        ended.is_wrong_usage().notes("IMAGE must be a file");
    });
}

/// What a program makes of a file.
fn piped(program: &str, options: &[&str], input: &Path) -> Option<Vec<u8>> {
    let mut command = Command::new(tools::find(program)?);
    let output = command
        .args(options)
        .stdin(File::open(input).unwrap())
        .output();
    let output = output.unwrap();
    assert!(output.status.success());
    Some(output.stdout)
}

#[test]
fn a_compressed_archive_gives_the_same_image() {
    let world = World::new();
    let archive = TarArchive::default()
        .member(b'0', b"noise", b"", &noise(3 << 20, 1))
        .member(b'0', b"zeros", b"", &[0; 3 << 20])
        .finish();
    let (plain, image) = (world.write("plain", archive), world.path("image"));
    build(&plain, &image, &[]).succeeds();
    let expected = fs::read(&image).unwrap();
    for program in ["gzip", "zstd"] {
        let Some(compressed) = piped(program, &["-1", "-c"], &plain) else {
            continue;
        };
        let archive = world.write("compressed", &compressed);
        build(&archive, &image, &[]).succeeds();
        assert!(fs::read(&image).unwrap() == expected, "{program}");
        build_from(File::open(&archive).unwrap(), &image, &[]).succeeds();
        assert!(fs::read(&image).unwrap() == expected, "{program}");
        let cut = world.write("cut", &compressed[..compressed.len() / 2]);
        world.unchanged_by(|| {
            build(&cut, &image, &[]).fails_saying("cannot be decompressed");
        });
    }
}

/// A container image of two layers in the format of docker, and the tree that they make together.
#[test]
fn a_container_image_gives_the_tree_of_its_layers() {
    let world = World::new();
    let lower = TarArchive::default()
        .member(b'0', b"kept", b"", b"kept")
        .file("deleted")
        .file("emptied/below")
        .finish();
    let upper = TarArchive::default()
        .file(".wh.deleted")
        .member(b'5', b"emptied", b"", b"")
        .file("emptied/.wh..wh..opq")
        .file("emptied/above")
        .finish();
    let merged = TarArchive::default()
        .member(b'0', b"kept", b"", b"kept")
        .member(b'5', b"emptied", b"", b"")
        .file("emptied/above")
        .finish();
    let image = world.path("image");
    build(&world.write("merged", merged), &image, &[]).succeeds();
    let expected = fs::read(&image).unwrap();
    let compressed = piped("gzip", &["-c"], &world.write("upper", &upper)).unwrap();
    let of_docker = |upper: &[u8]| {
        let manifest = br#"[{"Config":"c.json","RepoTags":null,"Layers":["1/layer.tar","2.tar"]}]"#;
        TarArchive::default()
            .member(b'0', b"c.json", b"", b"{}")
            .member(b'0', b"0.tar", b"", &lower)
            .member(b'2', b"1/layer.tar", b"../0.tar", b"")
            .member(b'0', b"2.tar", b"", upper)
            .member(b'0', b"manifest.json", b"", manifest)
    };
    let blob = |archive: TarArchive, content: &[u8]| {
        let digest = sha256(&world.write("blob", content));
        let archive = archive.member(
            b'0',
            format!("blobs/sha256/{digest}").as_bytes(),
            b"",
            content,
        );
        (archive, json!({ "digest": format!("sha256:{digest}") }))
    };
    let of_oci = TarArchive::default().member(
        b'0',
        b"oci-layout",
        b"",
        br#"{"imageLayoutVersion":"1.0.0"}"#,
    );
    let (of_oci, lower_blob) = blob(of_oci, &lower);
    let (of_oci, upper_blob) = blob(of_oci, &compressed);
    let nowhere = json!({ "digest": format!("sha256:{}", "9".repeat(64)) });
    let manifest = json!({ "config": nowhere, "layers": [lower_blob, upper_blob] });
    let (of_oci, image_blob) = blob(of_oci, manifest.to_string().as_bytes());
    let (of_oci, mut attestation) = blob(of_oci, br#"{"layers":[]}"#);
    attestation["annotations"] = json!({ "vnd.docker.reference.type": "attestation-manifest" });
    let list = json!({ "manifests": [image_blob, attestation] });
    let (of_oci, list) = blob(of_oci, list.to_string().as_bytes());
    let index = json!({ "manifests": [list, nowhere] });
    let of_oci = of_oci.member(b'0', b"index.json", b"", index.to_string().as_bytes());
    for archive in [of_docker(&upper), of_docker(&compressed), of_oci] {
        let archive = world.write("archive", archive.finish());
        let ended = build(&archive, &image, &["--exclude", "*.json"]);
        ended.succeeds();
        ended.notes("a container image of 2 layers");
        assert!(fs::read(&image).unwrap() == expected, "{ended:?}");
    }
}

#[test]
fn what_is_no_single_container_image_is_refused_or_an_archive() {
    let world = World::new();
    let image = world.path("image");
    let docker = |manifest: &str| {
        let archive = TarArchive::default();
        let archive = archive.member(b'0', b"manifest.json", b"", manifest.as_bytes());
        world.write("archive", archive.finish())
    };
    let one = r#"{"Config":"c","Layers":["missing.tar"]}"#;
    for (manifest, words) in [
        (format!("[{one}]"), "missing.tar is not in it"),
        (format!("[{one},{one}]"), "it has 2 container images"),
    ] {
        let ended = build(&docker(&manifest), &image, &[]);
        ended.fails_saying(words);
        ended.notes("podman export");
    }
    // As web applications have one.
    for manifest in [r#"{"name":"app"}"#, "[]", r#"[{"Config":"c"}]"#, "no JSON"] {
        build(&docker(manifest), &image, &[]).succeeds();
        let listed = verimount(args!["ls", &image]);
        listed.succeeds().says("manifest.json");
    }
}

/// As in a cache of Hugging Face, whose files are links to a directory beside.
#[test]
fn links_that_lead_out_of_the_tree_are_noted() {
    let world = World::new();
    let image = world.path("image");
    let tree = world.directory("tree");
    for (name, target) in [("inside", "a"), ("one", "../../blobs/1")] {
        symlink(target, tree.join(name)).unwrap();
    }
    let ended = build(&tree, &image, &[]);
    let note = "note: a link leads out of the tree: one\n";
    assert_eq!(ended.succeeds().stderr, note);
    symlink("..", tree.join("two")).unwrap();
    let ended = build(&tree, &image, &[]);
    let note = "note: 2 links lead out of the tree, such as one\n";
    assert_eq!(ended.succeeds().stderr, note);
}

/// A directory `below`, and the image of a layer that deletes some of it.
fn layers(world: &World) -> (PathBuf, PathBuf) {
    let below = world.directory("below");
    for directory in ["kept", "emptied", "again"] {
        fs::create_dir(below.join(directory)).unwrap();
        fs::write(below.join(directory).join("below"), "below").unwrap();
    }
    fs::write(below.join("deleted"), "below").unwrap();
    let layer = TarArchive::default()
        .file(".wh.deleted")
        .file("emptied/.wh..wh..opq")
        .file("emptied/above")
        .file(".wh.again")
        .file("again/above")
        .file("kept/above")
        .finish();
    let (layer, image) = (world.write("layer.tar", layer), world.path("image"));
    build(&layer, &image, &["--format", "erofs"]).succeeds();
    let kept = world.path("kept");
    build(&layer, &kept, &["--format", "erofs", "--whiteouts", "keep"]).succeeds();
    let names = verimount(args!["ls", &kept]);
    names.succeeds().says(".wh.deleted");
    (below, image)
}

/// Lists everything in the directory that is the argument.
const LIST: &str = r#"cd "$0" && find . -mindepth 1 -printf '%P\n' | LC_ALL=C sort"#;

/// What it shows of an overlay of [`layers`].
const MERGED: &str = "again\nagain/above\nemptied\nemptied/above\nkept\nkept/above\nkept/below\n";

#[test]
fn a_container_layer_is_a_lower_layer_of_overlayfs() {
    needs!(root_or_skip());
    let world = needs!(World::with_mount_point());
    let (below, image) = layers(&world);
    let mnt = world.path("mnt");
    let mounted = Daemon::mount(&image, &mnt, &["--unpinned"]);
    let merged = world.directory("merged");
    let layers = format!(
        "lowerdir={}:{}",
        mnt.to_str().unwrap(),
        below.to_str().unwrap()
    );
    let layers = CString::new(layers).unwrap();
    let is_merged = mount_system("overlay", &merged, "overlay", MountFlags::RDONLY, &*layers);
    if is_merged.is_err() {
        return skip("there is no overlayfs here");
    }
    let listed = Command::new("sh").args(["-c", LIST]).arg(&merged).output();
    assert_eq!(String::from_utf8(listed.unwrap().stdout).unwrap(), MERGED);
    unmount_lazily(&merged);
    mounted.unmount();
}

/// As rootless podman does: in a user namespace, where overlays read other attributes.
#[test]
fn a_container_layer_is_a_lower_layer_of_a_rootless_overlay() {
    let world = needs!(World::with_mount_point());
    let (below, image) = layers(&world);
    let user = User::ordinary(&world);
    let folder = world.directory("folder");
    user.own(&folder);
    let script = r#"
        cd "$3" && mkdir mnt merged
        "$0" mount "$1" mnt --unpinned || exit
        if mount -t overlay overlay -o "ro,userxattr,lowerdir=mnt:$2" merged; then
            sh -c "$4" merged
            umount merged
        else
            echo skipped
        fi
        "$0" umount mnt
    "#;
    let mut unshare = user.program(&tools::find("unshare").expect("util-linux is everywhere"));
    unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    unshare.arg(reachable_copy(&binary(), &world));
    unshare.args([&image, &below, &folder]).arg(LIST);
    let ended = finish(unshare);
    if ended.text() == "skipped\n" || ended.stderr.contains("unshare failed") {
        skip("ordinary users may mount no overlay here");
    } else {
        assert_eq!(ended.text(), MERGED, "{ended:?}");
    }
}

/// The kernel lets only the system's root read them.
#[test]
fn roots_attributes_are_not_listed_in_a_namespace() {
    let world = needs!(World::with_mount_point());
    let (_, image) = layers(&world);
    let user = User::ordinary(&world);
    let folder = world.directory("folder");
    user.own(&folder);
    let script = r#"
        cd "$2" && mkdir mnt && "$0" mount --quiet "$1" mnt --unpinned || exit
        python3 -c '
import os
names = {name for path, _, _ in os.walk("mnt") for name in os.listxattr(path)}
print(*(name for name in names if ".overlay." in name))'
        "$0" umount mnt
    "#;
    let mut unshare = user.program(&tools::find("unshare").expect("util-linux is everywhere"));
    unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    unshare.arg(reachable_copy(&binary(), &world));
    unshare.args([&image, &folder]);
    let ended = finish(unshare);
    if ended.stderr.contains("unshare failed") {
        skip("ordinary users may make no namespace here");
    } else {
        assert_eq!(ended.text(), "user.overlay.opaque\n", "{ended:?}");
    }
}
