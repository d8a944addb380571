//! Models: their signatures, and the blobs of Hugging Face.
//!
//! The signatures are those that the tests of the crate `models` have.

use verimount_support::workspace::root;

use crate::prelude::*;

/// What signs the model, and keys.
fn data(name: &str) -> PathBuf {
    root().join("crates/models/tests/data").join(name)
}

/// The model that is signed, with what its signature ignores, and the signature in it.
fn model(world: &World, signature: &str) -> PathBuf {
    let model = world.directory("model");
    fs::create_dir(model.join("sub")).unwrap();
    fs::write(model.join("a.bin"), [b'x'; 2500]).unwrap();
    fs::write(model.join("sub/é b"), "2").unwrap();
    fs::write(model.join("sub.txt"), "1").unwrap();
    fs::write(model.join(".gitignore"), "ignored").unwrap();
    fs::copy(data(signature), model.join("model.sig")).unwrap();
    model
}

fn build(model: &Path, key: &str, image: &Path) -> Ended {
    let signature = model.join("model.sig");
    verimount(args![
        "build",
        model,
        image,
        "--model-signature",
        signature,
        "--model-key",
        data(key)
    ])
}

/// The image depends on nothing that is not signed: neither on attributes nor on ignored files.
#[test]
fn a_signed_model_is_built_and_verified_again() {
    for (signature, key) in [
        ("files.sig", "p256.pem"),
        ("shards.sig", "p384.pem"),
        ("blake2b.sig", "p521.pem"),
    ] {
        let world = World::new();
        let (model, image) = (model(&world, signature), world.path("image"));
        let built = build(&model, key, &image);
        let digest = built.succeeds().digest();
        assert_eq!(
            built.stderr,
            "note: left out: .gitignore\nnote: left out: model.sig\n"
        );
        fs::remove_file(model.join(".gitignore")).unwrap();
        fs::set_permissions(model.join("a.bin"), Permissions::from_mode(0o751)).unwrap();
        File::open(model.join("sub"))
            .unwrap()
            .set_modified(std::time::SystemTime::now())
            .unwrap();
        assert_eq!(build(&model, key, &image).digest(), digest);

        let verify = |key| {
            verimount(args![
                "verify",
                &image,
                "--digest",
                &digest,
                "--model-key",
                data(key)
            ])
        };
        verify(key)
            .succeeds()
            .says("all 3 files are those of the signed model model");
        let other = if key == "p256.pem" {
            "p384.pem"
        } else {
            "p256.pem"
        };
        verify(other).ends_with(1).notes("not made with this key");
        let hint = &fs::read_to_string(data(signature)).unwrap();
        let hint: Value = serde_json::from_str(hint).unwrap();
        let hint = hint["verificationMaterial"]["publicKey"]["hint"]
            .as_str()
            .unwrap();
        let found = verimount(args!["info --json", &image])
            .succeeds_quietly()
            .json();
        assert_eq!(found["model"]["key"], hint);
        assert_eq!(found["model"]["files"], 3);
        let copy = world.path("copy");
        verimount(args!["extract", &image, &copy, "--digest", &digest]).succeeds();
        for name in ["a.bin", "sub/é b", "sub.txt", "model.sig"] {
            assert_eq!(
                fs::read(copy.join(name)).unwrap(),
                fs::read(model.join(name)).unwrap()
            );
        }
    }
}

/// A change of a model, and the path that the error names.
type Change = (&'static str, fn(&Path));

#[test]
fn what_is_not_signed_is_named_and_nothing_is_built() {
    let changes: [Change; 9] = [
        ("a.bin: it has sha256:", |model| {
            let file = OpenOptions::new()
                .write(true)
                .open(model.join("a.bin"))
                .unwrap();
            file.write_all_at(b"y", 2499).unwrap();
        }),
        ("a.bin: it has sha256:", |model| {
            fs::write(model.join("a.bin"), "").unwrap();
        }),
        ("sub.txt", |model| {
            fs::remove_file(model.join("sub.txt")).unwrap();
        }),
        ("sub/other", |model| {
            fs::rename(model.join("sub/é b"), model.join("sub/other")).unwrap();
        }),
        ("extra", |model| fs::write(model.join("extra"), "").unwrap()),
        ("empty", |model| {
            fs::create_dir(model.join("empty")).unwrap();
        }),
        ("link: ", |model| {
            symlink("a.bin", model.join("link")).unwrap();
        }),
        ("socket: ", |model| {
            drop(UnixListener::bind(model.join("socket")).unwrap());
        }),
        ("model.sig", |model| {
            let path = model.join("model.sig");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(path, text.replace("\"sig\":\"ME", "\"sig\":\"MF")).unwrap();
        }),
    ];
    for (named, change) in changes {
        let world = World::new();
        let (model, image) = (model(&world, "files.sig"), world.path("image"));
        change(&model);
        build(&model, "p256.pem", &image).ends_with(1).notes(named);
        assert!(!image.exists());
    }
}

/// Files that are compressed, in any order of threads, are compared as well; so are those with holes.
#[test]
fn contents_are_compared_however_they_are_stored() {
    let world = World::new();
    let snapshot = world.directory("snapshot");
    let blobs = world.directory("blobs");
    let mut large = noise(20 << 20, 1);
    large[3 << 20..7 << 20].fill(0);
    let sparse = blobs.join("sparse");
    let file = File::create(&sparse).unwrap();
    file.set_len(9 << 20).unwrap();
    file.write_all_at(&large[..10_000], 5 << 20).unwrap();
    fs::write(blobs.join("large"), &large).unwrap();
    fs::write(blobs.join("small"), "small").unwrap();
    for name in ["large", "small", "sparse"] {
        let digest = sha256(&blobs.join(name));
        fs::rename(blobs.join(name), blobs.join(&digest)).unwrap();
        symlink(format!("../blobs/{digest}"), snapshot.join(name)).unwrap();
    }
    let image = world.path("image");
    for options in ["", "--compress lz4", "--format romfs"] {
        let build = || {
            let options = options.split_whitespace();
            let build = args!["build --dereference --hugging-face", &snapshot, &image; options];
            verimount(build)
        };
        build().succeeds();
        fs::remove_file(&image).unwrap();
        for name in ["large", "small", "sparse"] {
            let path = snapshot.join(name);
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .open(&path)
                .unwrap();
            let last = file.metadata().unwrap().len() - 1;
            let right = last_byte(&file);
            file.write_all_at(&[!right[0]], last).unwrap();
            build().ends_with(1).notes(name);
            assert!(!image.exists());
            file.write_all_at(&right, last).unwrap();
        }
    }
}

/// As `sha256sum` prints it.
pub(crate) fn sha256(path: &Path) -> String {
    let mut command = Command::new("sha256sum");
    let ended = finish({
        command.arg(path);
        command
    });
    ended.succeeds().text()[..64].to_owned()
}

fn last_byte(file: &File) -> [u8; 1] {
    let mut byte = [0];
    let last = file.metadata().unwrap().len() - 1;
    file.read_exact_at(&mut byte, last).unwrap();
    byte
}

#[test]
fn blobs_are_links_named_by_their_digest() {
    let world = World::new();
    let snapshot = world.directory("snapshot");
    let build = || {
        let image = world.path("image");
        verimount(args![
            "build --dereference --hugging-face",
            &snapshot,
            image
        ])
    };
    // By git hash-object.
    let blob = world.write("ce013625030ba8dba906f756967f9e9ca394464a", "hello\n");
    symlink(&blob, snapshot.join("config.json")).unwrap();
    build().succeeds();
    for (name, target) in [
        ("plain", None),
        ("other", Some(world.write("weights", "x"))),
    ] {
        match target {
            Some(target) => symlink(target, snapshot.join(name)).unwrap(),
            None => fs::write(snapshot.join(name), "x").unwrap(),
        }
        build().ends_with(1).notes(name);
        fs::remove_file(snapshot.join(name)).unwrap();
    }
    for target in ["nothing", "circle", "."] {
        symlink(target, snapshot.join("circle")).unwrap();
        build().fails_saying("circle");
        fs::remove_file(snapshot.join("circle")).unwrap();
    }
}

#[test]
fn one_signed_file_is_sealed() {
    for (signature, key) in [("one.sig", "p256.pem"), ("one-sharded.sig", "p384.pem")] {
        let world = World::new();
        let file = world.write("any name", [b'x'; 2500]);
        let check = args![
            "--model-signature",
            data(signature),
            "--model-key",
            data(key)
        ];
        let seal = || verimount([args!["seal", &file], check.clone()].concat());
        let digest = seal().digest();
        assert_eq!(verimount(args!["seal", &file]).digest(), digest);
        let sealed = fs::read(world.path("any name.verity")).unwrap();
        for wrong in [&[b'x'; 2499][..], b"x", b"", &[b'y'; 2500]] {
            fs::write(&file, wrong).unwrap();
            seal().ends_with(1).notes("any name");
            assert_eq!(fs::read(world.path("any name.verity")).unwrap(), sealed);
        }
    }
}

#[test]
fn options_of_models_belong_together() {
    let world = World::new();
    let model = model(&world, "files.sig");
    let (image, signature, key) = (world.path("image"), data("files.sig"), data("p256.pem"));
    let build = |more: Vec<OsString>| verimount([args!["build", &model, &image], more].concat());
    let both = || args!["--model-signature", &signature, "--model-key", &key];
    for more in [
        args!["--model-signature", &signature],
        args!["--model-key", &key],
        args!["--hugging-face"],
        [both(), args!["--mtime 0"]].concat(),
        [both(), args!["--all-root"]].concat(),
    ] {
        build(more).is_wrong_usage();
    }
    // Of a file, and of a directory.
    let one = args!["--model-signature", data("one.sig"), "--model-key", &key];
    build(one).fails_saying("of one file");
    let file = model.join("a.bin");
    verimount([args!["seal", &file], both()].concat()).fails_saying("of a directory");
    // An archive cannot be compared.
    let tar = world.write("empty.tar", [0; 1024]);
    let archive = [args!["build", tar, &image], both()].concat();
    verimount(archive).fails_saying("empty.tar: a model signature is checked in directories only");
    let store = [args!["build --layer-store", &model, &image], both()].concat();
    verimount(store).fails_saying("model: a model signature is checked in directories only");
}
