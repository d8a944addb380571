//! What a file is said to be.

use crate::prelude::*;

#[track_caller]
fn json(ended: &Ended) -> Value {
    ended.succeeds_quietly().json()
}

/// The digest is the one that `mount --digest` takes, wherever the seal is.
#[test]
fn sealed_images() {
    let world = World::new();
    for image in [
        world.sealed_image("appended"),
        world.image_with_sidecar("beside"),
    ] {
        let beside = image.ends_with("beside");
        let found = json(&verimount(args!["info --json", &image]));
        assert_eq!(found["kind"], "image");
        assert_eq!(found["verified"], false);
        assert_eq!(found["size"], fs::metadata(&image).unwrap().len());
        assert_eq!(found["image"]["format"], "erofs");
        let seal = &found["seal"];
        assert_eq!(seal["format"], "fs-verity");
        assert_eq!(seal["place"], if beside { "beside" } else { "appended" });
        let sidecar = world.path("beside.verity");
        assert_eq!(
            seal["sidecar"].as_str(),
            beside.then(|| sidecar.to_str().unwrap())
        );
        assert_eq!(seal["hash"], "sha256");
        assert_eq!(seal["tree_block_size"], 4096);
        assert_eq!(seal["salt"], "");
        assert!(seal["signer"].is_null());
        let digest = seal["digest"].as_str().unwrap();
        verimount(args!["verify", &image, "--digest", digest]).succeeds_quietly();

        let shown = verimount(args!["info", &image]);
        let shown = shown.succeeds_quietly().text();
        assert!(
            shown.contains(&format!("digest         {digest}\n")),
            "{shown}"
        );
        assert!(shown.contains("verified       nothing"), "{shown}");
    }
}

#[test]
fn a_signed_file() {
    let world = World::new();
    let file = world.write("file", noise(100_000, 1));
    let seal = args![
        "seal",
        &file,
        "--append",
        "--hash-alg",
        "sha512",
        "--tree-block-size",
        "1K",
        "--salt",
        "00ff"
    ];
    let digest = verimount(seal).digest();
    let (public, secret) = world.keys("author");
    verimount(args!["sign", &file, "--key", &secret]).succeeds_quietly();
    let found = json(&verimount(args!["info --json", &file]));
    assert_eq!(found["kind"], "file");
    assert!(found["image"].is_null());
    let seal = &found["seal"];
    assert_eq!(seal["digest"], digest);
    assert_eq!(seal["hash"], "sha512");
    assert_eq!(seal["data_block_size"], 1024);
    assert_eq!(seal["salt"], "00ff");
    assert_eq!(seal["data_size"], 100_000);
    // As minisign writes it above the key.
    let public = fs::read_to_string(public).unwrap();
    let comment = public.lines().next().unwrap();
    assert!(
        comment.ends_with(seal["signer"].as_str().unwrap()),
        "{comment}"
    );
}

/// What is read does not depend on what was sealed: damage of the data is not noticed, and not looked for.
#[test]
fn only_the_descriptor_is_read() {
    let world = World::new();
    let file = world.write("file", noise(1 << 20, 1));
    let digest = verimount(args!["seal", &file]).digest();
    fs::write(&file, noise(1 << 20, 2)).unwrap();
    let found = json(&verimount(args!["info --json", &file]));
    assert_eq!(found["seal"]["digest"], digest);
    verimount(args!["verify", &file, "--digest", digest]).reports_bad_data();
}

#[test]
fn dm_verity() {
    let world = World::new();
    let data = noise(100 * 4096, 1);
    let file = world.write("file", &data);
    let sealed = verimount(args!["seal --format dm-verity", &file]);
    let root_hash = sealed
        .succeeds_quietly()
        .text()
        .split(' ')
        .next()
        .unwrap()
        .to_owned();
    let found = json(&verimount(args!["info --json", &file]));
    assert_eq!(found["seal"]["format"], "dm-verity");
    assert_eq!(found["seal"]["place"], "beside");
    assert_eq!(found["seal"]["root_hash"], root_hash);
    assert!(found["seal"]["digest"].is_null());

    let file = world.write("appended", &data);
    let seal = args!["seal --append --format dm-verity", &file];
    let root_hash = verimount(seal).succeeds_quietly().text().to_owned();
    let offset = data.len().to_string();
    let info = args!["info --json", &file, "--hash-offset", &offset];
    let found = json(&verimount(info));
    assert_eq!(found["seal"]["place"], "appended");
    let found = found["seal"]["root_hash"].as_str().unwrap();
    assert!(root_hash.starts_with(found), "{root_hash}");
    verimount(args!["info", &file, "--hash-offset", "4096"])
        .fails_saying("no dm-verity superblock");
}

#[test]
fn an_unsealed_image() {
    let world = World::new();
    let image = world.plain_image("image");
    let found = json(&verimount(args!["info --json", &image]));
    assert_eq!(found["kind"], "image");
    assert!(found["seal"].is_null());
    let shown = verimount(args!["info", &image]);
    shown.says("seal           none\n");
}

#[test]
fn a_volume() {
    let world = World::new();
    let path = world.path("vol.img");
    verimount(args!["volume format", &path, "--size", "16M"]).succeeds();
    let found = json(&verimount(args!["info --json", &path]));
    assert_eq!(found["kind"], "volume");
    let mut info = json(&verimount(args!["volume info --json", &path]));
    // It is a part of the other report, which has a version.
    assert_eq!(
        info.as_object_mut().unwrap().remove("version"),
        Some(1.into())
    );
    assert_eq!(found["volume"], info);
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(8 << 20)
        .unwrap();
    verimount(args!["info", &path]).fails_saying("truncated volume");
}

/// What is wrong is said, and never that it is right.
#[test]
fn wrong_files() {
    let world = World::new();
    let image = fs::read(world.sealed_image("image")).unwrap();
    let truncated = world.write("truncated", &image[..image.len() / 2]);
    verimount(args!["info", truncated]).fails_saying("truncated EROFS image");
    let nothing = world.write("nothing", noise(10_000, 1));
    verimount(args!["info", nothing]).fails_saying("neither an image nor a volume");
    verimount(args!["info", world.write("empty", "")]).fails_saying("neither an image");
    verimount(args!["info", world.path("missing")]).fails_saying("No such file");
    verimount(args!["info", world.directory("directory")]).fails_saying("it is a directory");

    let file = world.write("file", noise(10_000, 1));
    verimount(args!["seal", &file]).succeeds_quietly();
    // The seal by itself is not what is asked about.
    let seal = world.path("file.verity");
    verimount(args!["info", &seal]).fails_saying("may be the seal of");
    fs::write(&file, noise(5000, 1)).unwrap();
    verimount(args!["info", &file]).fails_saying("is truncated");
}

/// A wrong pin is answered with both digests, and with what to do.
#[test]
fn a_wrong_digest_says_what_to_do() {
    let world = World::new();
    let file = world.write("file", "content");
    let digest = verimount(args!["seal", &file]).digest();
    let other = world.write("other", "other content");
    let wrong = verimount(args!["seal", &other]).digest();
    let refused = verimount(args!["cat", &file, "x", "--digest", &wrong]);
    for words in [
        &digest,
        &wrong,
        &format!("verimount info {}", file.to_str().unwrap()),
    ] {
        refused.fails_saying(words);
    }
}
