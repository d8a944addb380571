//! Images and files in a container registry.

use crate::common::docker_registry::{DockerRegistry, Login, ME, PASSWORD, WRONG};
use crate::prelude::*;

/// What `push` has printed: the name with a digest.
fn pinned(output: &str) -> &str {
    let name = output.trim_end();
    assert!(
        name.starts_with("oci://") && name.contains("@sha256:"),
        "{output}"
    );
    name
}

#[test]
fn what_is_pushed_is_read_by_every_command() {
    let world = World::new();
    let tree = world.directory("tree");
    create(&tree, false);
    let image = world.path("image");
    let digest = verimount(args!["build", &tree, &image]).digest();
    let registry = needs!(DockerRegistry::start(&world, Login::Nobody));
    let tagged = registry.image("folder/image:1.0");
    let pushed = verimount(args!["push", &image, &tagged]);
    let name = pinned(pushed.succeeds().text());
    assert!(pushed.stderr.is_empty(), "{pushed:?}");
    for (name, options) in [(name, vec![]), (&*tagged, vec!["--digest", &*digest])] {
        for command in ["verify", "ls"] {
            let here = verimount(args![command, &image, "--digest", &digest]);
            let mut arguments = vec![command, name];
            arguments.extend(&options);
            let there = verimount(arguments);
            there.succeeds();
            // It is pinned, so that there is nothing to say.
            assert!(there.stderr.is_empty(), "{there:?}");
            let expected = here.text().replace(image.to_str().unwrap(), name);
            assert_eq!(there.text(), expected);
        }
    }
    let info = verimount(args!["info", name]);
    info.succeeds().says(&digest);
    let copy = world.path("copy");
    verimount(args!["extract", name, &copy]).succeeds_quietly();
    assert_same(&snapshot(&copy).unwrap(), &snapshot(&tree).unwrap());
    let again = verimount(args!["push", &image, &tagged]);
    assert_eq!(pinned(again.text()), name);
}

#[test]
fn a_copy_is_as_it_was() {
    let (world, elsewhere) = (World::new(), World::new());
    let registry = needs!(DockerRegistry::start(&elsewhere, Login::Nobody));
    for (image, has_sidecar) in [
        (world.sealed_image("appended"), false),
        (world.image_with_sidecar("beside"), true),
    ] {
        let tagged = registry.image("image:1.0");
        let pushed = verimount(args!["push", &image, &tagged]);
        let name = pinned(pushed.succeeds().text());
        let copy = image.with_extension("copy");
        let pulled = verimount(args!["pull", name, &copy]);
        pulled.succeeds();
        assert!(pulled.stderr.is_empty(), "{pulled:?}");
        assert_eq!(fs::read(&copy).unwrap(), fs::read(&image).unwrap());
        let beside = |path: &Path| fs::read(format!("{}.verity", path.to_str().unwrap())).ok();
        assert_eq!(beside(&copy), beside(&image));
        assert_eq!(beside(&copy).is_some(), has_sidecar);
        let cat = verimount(args!["cat", name, HELLO]);
        assert_eq!(cat.succeeds().text(), "Hello, world!\n");
        // A file that exists is not replaced, and a copy by tag may be of anybody.
        world
            .unchanged_by(|| verimount(args!["pull", name, &copy]))
            .fails_saying("exists");
        let other = image.with_extension("other");
        let unpinned = verimount(args!["pull", &tagged, &other]);
        unpinned.succeeds_quietly();
        unpinned.notes("only against its own digest");
        let digest = format!("sha256:{}", "0".repeat(64));
        let third = image.with_extension("third");
        for source in [name, &tagged] {
            let arguments = args!["pull", source, &third, "--digest", &digest];
            world.unchanged_by(|| verimount(arguments)).fails();
        }
    }
}

#[test]
fn a_seal_elsewhere_and_one_of_dm_verity_are_stored() {
    let (world, elsewhere) = (World::new(), World::new());
    let registry = needs!(DockerRegistry::start(&elsewhere, Login::Nobody));
    let tagged = registry.image("image:1.0");
    let image = world.image_with_sidecar("image");
    let (beside, moved) = (world.path("image.verity"), world.path("moved"));
    fs::rename(&beside, &moved).unwrap();
    verimount(args!["push", &image, &tagged]).fails_saying("is not sealed");
    let pushed = verimount(args!["push", &image, &tagged, "--sidecar", &moved]);
    let name = pinned(pushed.succeeds().text());
    assert_eq!(
        verimount(args!["cat", name, HELLO]).text(),
        "Hello, world!\n"
    );

    let sealed = verimount(args!["seal --format dm-verity", &image]);
    let (root, _) = sealed.succeeds().text().split_once(' ').unwrap();
    let pushed = verimount(args!["push", &image, &tagged]);
    let name = pinned(pushed.succeeds().text());
    let verified = verimount(args!["verify", name]);
    verified.succeeds_quietly();
    verified.says(root);
    let other = "0".repeat(64);
    verimount(args!["ls", name, "--root-hash", &other])
        .fails_saying(&format!("but {other} is required"));
    let copy = world.path("copy");
    verimount(args!["pull", name, &copy]).succeeds();
    let copied = fs::read(world.path("copy.verity")).unwrap();
    assert!(copied == fs::read(beside).unwrap());
    // Where the tree is begins nothing of the kind.
    verimount(args![
        "pull",
        name,
        world.path("other"),
        "--root-hash",
        root,
        "--hash-offset",
        "4096"
    ])
    .fails();
}

#[test]
fn only_sound_sealed_files_are_pushed() {
    let world = World::new();
    let registry = needs!(DockerRegistry::start(&world, Login::Nobody));
    let tagged = registry.image("image:1.0");
    for file in [world.plain_image("plain"), world.write("other", "text")] {
        verimount(args!["push", &file, &tagged]).fails_saying("is not sealed");
    }
    let damaged = world.sealed_image("damaged");
    let mut bytes = fs::read(&damaged).unwrap();
    let content = bytes.len() / 2;
    bytes[content] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let refused = verimount(args!["push", &damaged, &tagged]);
    refused.fails_saying("is damaged");
    refused.fails_saying(&format!(
        "verimount verify {} lists",
        damaged.to_str().unwrap()
    ));
    // What is advised is right only for the file itself, and for data of the right size.
    let truncated = world.image_with_sidecar("truncated");
    let file = fs::File::options().write(true).open(&truncated).unwrap();
    file.set_len(4096).unwrap();
    let refused = verimount(args!["push", &truncated, &tagged]);
    refused.fails_saying("is truncated");
    assert!(!refused.stderr.contains("verimount verify"), "{refused:?}");
    let seal = world.write("text", "no seal");
    let refused = verimount(args!["push", &truncated, &tagged, "--sidecar", &seal]);
    refused.fails_saying(&format!(
        "{} does not contain a seal",
        seal.to_str().unwrap()
    ));
    assert!(!refused.stderr.contains("verimount seal"), "{refused:?}");
    verimount(args!["ls", &tagged]).fails_saying("no such file");
    let image = world.sealed_image("image");
    for name in ["image", "image:1.0@sha256:", "Image:1.0"] {
        verimount(args!["push", &image, registry.image(name)]).is_wrong_usage();
    }
    let digest = "0".repeat(64);
    let pinned = registry.image(&format!("image@sha256:{digest}"));
    verimount(args!["push", &image, pinned]).is_wrong_usage();
}

#[test]
fn a_tag_is_not_trusted() {
    let world = World::new();
    let (image, mnt) = (world.sealed_image("image"), world.directory("mnt"));
    let registry = needs!(DockerRegistry::start(&world, Login::Nobody));
    let tagged = registry.image("image:1.0");
    let pushed = verimount(args!["push", &image, &tagged]);
    let name = pinned(pushed.succeeds().text());
    let mount = verimount(args!["mount", &tagged, &mnt]);
    mount.is_wrong_usage();
    let ls = verimount(args!["ls", &tagged]);
    ls.succeeds().notes("only against its own digest");
    let other = format!("sha256:{}", "0".repeat(64));
    verimount(args!["ls", name, "--digest", &other])
        .fails_saying(&format!("but {other} is required"));
    verimount(args!["ls", &tagged, "--digest", &other]).fails_saying(&tagged);
    let missing = registry.image(&format!("image@{other}"));
    verimount(args!["ls", missing]).fails_saying("no such file");
}

#[test]
fn a_mount_has_the_same_files_and_keeps_secrets() {
    let world = needs!(World::with_mount_point());
    let (tree, mnt, image) = (
        world.directory("tree"),
        world.path("mnt"),
        world.path("image"),
    );
    create(&tree, false);
    verimount(args!["build", &tree, &image]).succeeds();
    let registry = needs!(DockerRegistry::start(&world, Login::Password));
    let tagged = registry.image("image:1.0");
    let push = || registry.verimount(args!["push", &image, &tagged]);
    let without = push();
    without.fails_saying("there are none for 127.0.0.1");
    registry.log_in(WRONG);
    let wrong = push();
    wrong.fails_saying("status 401");
    registry.log_in(ME);
    let pushed = push();
    let name = pinned(pushed.succeeds().text()).to_owned();
    let mounted = Daemon::start(registry.command(), Path::new(&name), &mnt, &[]).unwrap();
    assert_same(&snapshot(&mnt).unwrap(), &snapshot(&tree).unwrap());
    let status = verimount(args!["status", &mnt]);
    status.says(&name);
    status.says("its digest");
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let log = mounted.unmount();
    let outputs = [without, wrong, pushed, status].map(|ended| format!("{ended:?}"));
    for output in outputs.iter().chain([&table, &log]) {
        for secret in [PASSWORD, "wrong-secret", ME, WRONG] {
            assert!(!output.contains(secret), "{output}");
        }
    }
}

#[test]
fn a_token_is_for_all_that_a_command_does() {
    let world = World::new();
    let image = world.image_with_sidecar("image");
    let registry = needs!(DockerRegistry::start(&world, Login::Token));
    let tagged = registry.image("image:1.0");
    let push = || registry.verimount(args!["push", &image, &tagged]);
    push().fails_saying("there are none for 127.0.0.1");
    registry.log_in(WRONG);
    push().fails_saying("status 401");
    registry.log_in(ME);
    let before = registry.tokens();
    push().succeeds_quietly();
    assert_eq!(registry.tokens(), before + 1);
    let verified = registry.verimount(args!["verify", &tagged]);
    verified.succeeds_quietly();
    assert_eq!(registry.tokens(), before + 2);
    let other = registry.verimount(args!["push", &image, registry.image("other:1.0")]);
    other.fails_saying("status 401");
}

#[test]
fn other_clients_copy_it_with_its_digest() {
    let world = World::new();
    let image = world.image_with_sidecar("image");
    let skopeo = needs!(tools::find("skopeo"));
    let registry = needs!(DockerRegistry::start(&world, Login::Nobody));
    let pushed = verimount(args!["push", &image, registry.image("image:1.0")]);
    let name = pinned(pushed.succeeds().text());
    let copied = Command::new(skopeo)
        .args(["--insecure-policy", "copy", "--preserve-digests"])
        .args(["--src-tls-verify=false", "--dest-tls-verify=false"])
        .arg(name.replace("oci://", "docker://"))
        .arg(registry.image("copy:1.0").replace("oci://", "docker://"))
        .stdout(Stdio::null())
        .status();
    assert!(copied.unwrap().success());
    let copy = name.replace("/image@", "/copy@");
    let cat = verimount(args!["cat", copy, HELLO]);
    assert_eq!(cat.succeeds().text(), "Hello, world!\n");
}

#[test]
fn layers_of_others_open_too() {
    let world = World::new();
    let tree = world.directory("tree");
    fs::write(tree.join("file"), noise(100_000, 1)).unwrap();
    let image = world.path("image");
    verimount(args!["build --format erofs --no-seal", &tree, &image]).succeeds();
    let root = verimount(args!["seal --format dm-verity", &image]);
    let root = root.succeeds().text().split(' ').next().unwrap().to_owned();
    let registry = RegistryServer::honest();
    let blob = format!("sha256:{}", "1".repeat(64));
    let content = fs::read(&image).unwrap();
    let layer = format!(
        r#"{{"mediaType": "application/vnd.erofs.layer.v1", "digest": "{blob}", "size": {}}}"#,
        content.len()
    );
    let manifest = |layers: &str| {
        format!(r#"{{"schemaVersion": 2, "config": {layer}, "layers": [{layers}]}}"#)
    };
    registry.store_blob(&blob, content.clone());
    registry.store_manifest("one", manifest(&layer));
    registry.store_manifest("two", manifest(&format!("{layer}, {layer}")));
    let name = |tag: &str| format!("oci://{}/repository:{tag}", registry.host());
    let sidecar = world.path("image.verity");
    let verified = verimount(args![
        "verify",
        name("one"),
        "--root-hash",
        &root,
        "--sidecar",
        &sidecar
    ]);
    verified.succeeds_quietly();
    let cat = verimount(args!["cat", name("one"), "file", "--unverified"]);
    assert!(cat.succeeds().stdout == noise(100_000, 1));
    verimount(args!["cat", name("one"), "file"]).fails_saying("has no seal");
    verimount(args!["ls", name("two")]).fails_saying("has 2 layers");
}

/// A registry that has the small image, and lies as the script wants.
fn lying(
    world: &World,
    script: impl Fn(&HttpRequest, HttpAnswer) -> HttpAnswer + Send + Sync + 'static,
) -> (RegistryServer, String) {
    let honest = RegistryServer::honest();
    let name = |server: &RegistryServer| format!("oci://{}/repository:1", server.host());
    let pushed = verimount(args!["push", world.sealed_image("image"), name(&honest)]);
    let (_, digest) = pinned(pushed.succeeds().text()).split_once('@').unwrap();
    let manifest = honest.manifest("1").unwrap();
    let text = String::from_utf8(manifest.clone()).unwrap();
    let server = RegistryServer::start(RegistryLogin::None, None, move |_, request, right| {
        script(request, right)
    });
    for blob in text.split("\"digest\":\"").skip(1) {
        let (digest, _) = blob.split_once('"').unwrap();
        server.store_blob(digest, honest.blob(digest).unwrap());
    }
    server.store_manifest("1", manifest.clone());
    server.store_manifest(digest, manifest);
    let pinned = format!("oci://{}/repository@{digest}", server.host());
    (server, pinned)
}

#[test]
fn a_mirror_has_what_a_registry_does_not_send_rightly() {
    let world = World::new();
    let (_mirror, mirror) = lying(&world, |_, right| right);
    let is_blob = |request: &HttpRequest| request.path.contains("/blobs/");
    let (_wrong, wrong) = lying(&world, move |request, mut right| {
        let first = request.range.as_ref().is_some_and(|range| range.start == 0);
        if is_blob(request) && first {
            right.body[2000] ^= 1;
        }
        right
    });
    let (_empty, empty) = lying(&world, move |request, right| {
        if is_blob(request) {
            right.only_status(404)
        } else {
            right
        }
    });
    let (_gone, gone) = lying(&world, |_, right| right.only_status(404));
    let image = fs::read(world.path("image")).unwrap();
    for (number, name) in [wrong, empty, gone].iter().enumerate() {
        let copy = world.path(&format!("copy{number}"));
        verimount(args!["pull", name, &copy, "--mirror", &mirror]).succeeds();
        assert!(fs::read(copy).unwrap() == image);
        let cat = args!["cat", name, HELLO, "--mirror", &mirror, "--no-cache"];
        assert_eq!(verimount(cat).succeeds().text(), "Hello, world!\n");
    }
}

#[test]
fn a_lying_registry_is_found_out() {
    let world = World::new();
    let (_server, name) = lying(&world, |_, right| right);
    verimount(args!["verify", &name]).succeeds_quietly();
    let flip = |request: &HttpRequest, mut right: HttpAnswer| {
        let first = request.range.as_ref().is_some_and(|range| range.start == 0);
        if request.path.contains("/blobs/") && first {
            right.body[2000] ^= 1;
        }
        right
    };
    let (_server, name) = lying(&world, flip);
    verimount(args!["verify", &name]).reports_bad_data();
    let copy = world.path("copy");
    world
        .unchanged_by(|| verimount(args!["pull", &name, &copy]))
        .fails_saying("other bytes");
    let other = |request: &HttpRequest, mut right: HttpAnswer| {
        if request.path.contains("/manifests/") {
            let space = right.body.iter().position(|byte| *byte == b',').unwrap();
            right.body.insert(space, b' ');
            let len = right.body.len();
            return right.with("content-length", len);
        }
        right
    };
    let (_server, name) = lying(&world, other);
    verimount(args!["verify", &name]).fails_saying("another manifest");
}

#[test]
fn names_that_are_none_are_wrong_usage() {
    for name in [
        "oci://",
        "oci://host",
        "oci://host/image",
        "oci://me:secret@host/image:1",
    ] {
        let wrong = verimount(args!["ls", name]);
        wrong.is_wrong_usage();
    }
    let nobody = verimount(args!["ls oci://127.0.0.1:1/image:1"]);
    nobody.fails_saying("cannot connect");
}

#[test]
fn plain_http_elsewhere_has_to_be_asked_for() {
    let world = World::new();
    let image = world.sealed_image("image");
    let registry = needs!(DockerRegistry::start(&world, Login::Nobody));
    // This address reaches the same machine, but is not known for that.
    let elsewhere = registry.image("image:1").replace("127.0.0.1", "0.0.0.0");
    verimount(args!["push", &image, &elsewhere]).fails_saying("no secure connection");
    let pushed = verimount(args!["push --plain-http", &image, &elsewhere]);
    let name = pinned(pushed.succeeds().text());
    verimount(args!["ls", name]).fails_saying("no secure connection");
    verimount(args!["ls --plain-http", name]).succeeds_quietly();
    let copy = world.path("copy");
    verimount(args!["pull --plain-http", name, copy]).succeeds_quietly();
}

#[test]
fn what_is_kept_is_read_without_the_registry() {
    let world = World::new();
    for image in [world.sealed_image("one"), world.image_with_sidecar("two")] {
        let elsewhere = World::new();
        let registry = needs!(DockerRegistry::start(&elsewhere, Login::Nobody));
        let tagged = registry.image("image:1");
        verimount(args!["push", &image, &tagged]).succeeds();
        let digest = verimount(args!["verify", &image, "--json"]);
        let digest = digest.text().split("\"digest\": \"").nth(1).unwrap();
        let (digest, _) = digest.split_once('"').unwrap();
        let cache = elsewhere.path("cache");
        let cat = || {
            verimount(args![
                "cat", &tagged, HELLO, "--digest", digest, "--cache", &cache
            ])
        };
        assert_eq!(cat().succeeds().text(), "Hello, world!\n");
        drop(registry);
        assert_eq!(cat().succeeds().text(), "Hello, world!\n");
    }
}

#[test]
fn a_name_with_a_digest_needs_no_registry() {
    let world = World::new();
    for image in [world.sealed_image("one"), world.image_with_sidecar("two")] {
        let elsewhere = World::new();
        let registry = needs!(DockerRegistry::start(&elsewhere, Login::Nobody));
        let tagged = registry.image("image:1");
        let pushed = verimount(args!["push", &image, &tagged]);
        let name = pinned(pushed.succeeds().text());
        let cache = elsewhere.path("cache");
        let cat = |name: &str| verimount(args!["cat", name, HELLO, "--cache", &cache]);
        let is_read = || assert_eq!(cat(name).succeeds().text(), "Hello, world!\n");
        let verify = || verimount(args!["cache verify --cache", &cache]);
        is_read();
        verify().succeeds();

        // What is kept of the manifest is believed only if it has the digest.
        let (_, digest) = name.split_once('@').unwrap();
        let object = cache.join(format!("objects/{}.manifest", digest.replace(':', "-")));
        let right = fs::read(&object).unwrap();
        let text = String::from_utf8(right.clone()).unwrap();
        let other = text.replace("image.manifest", "image.manifold");
        assert_ne!(other, text);
        fs::write(&object, &other).unwrap();
        is_read();
        assert!(fs::read(&object).unwrap() == right);
        fs::write(&object, &other).unwrap();
        assert_eq!(verify().status.code(), Some(1));
        is_read();

        drop(registry);
        is_read();
        cat(&tagged).fails_saying("only the registry can tell what the tag stands for");
        fs::write(&object, &other).unwrap();
        cat(name).fails_saying("cannot connect");
    }
}

#[test]
fn encryption_needs_a_known_certificate() {
    let world = World::new();
    let image = world.image_with_sidecar("image");
    let registry = needs!(DockerRegistry::start_encrypted(&world, Login::Password));
    // This address reaches the same machine, but is not known for that.
    let name = registry.image("image:1").replace("127.0.0.1", "0.0.0.0");
    registry.log_in_at(&registry.host().replace("127.0.0.1", "0.0.0.0"), ME);
    let authority = world.path("registry/cert.pem");
    let push = args!["push", &image, &name];
    registry
        .verimount(push)
        .fails_saying("no secure connection");
    let pushed = registry.verimount(args!["push", &image, &name, "--ca", &authority]);
    let name = pinned(pushed.succeeds().text());
    let cat = registry.verimount(args!["cat", name, HELLO, "--ca", &authority, "--no-cache"]);
    assert_eq!(cat.succeeds().text(), "Hello, world!\n");
    let copy = world.path("copy");
    registry
        .verimount(args!["pull", name, &copy, "--ca", &authority])
        .succeeds();
    assert!(fs::read(copy).unwrap() == fs::read(image).unwrap());
}

#[test]
fn credentials_are_not_sent_without_encryption() {
    let world = World::new();
    let registry = needs!(DockerRegistry::start(&world, Login::Password));
    registry.log_in(ME);
    let elsewhere = registry.image("image:1").replace("127.0.0.1", "0.0.0.0");
    let ls = registry.verimount(args!["ls --plain-http", elsewhere]);
    ls.fails_saying("not sent without encryption");
}
