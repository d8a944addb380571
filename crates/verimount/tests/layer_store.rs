//! Stores of the layers of container images.

use std::{
    fs::{self, File},
    io::Write,
    ops::ControlFlow,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256, Sha512};
use verimount::{
    BuildOptions, Built, Error, ErrorKind, FileType, Image, OpenOptions, Step, Watcher,
};
use verimount_testkit::TarArchive;

/// The digest of a blob, as container images have it.
fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A directory in OCI's layout.
struct Layout(tempfile::TempDir);

impl Layout {
    /// With images of these layers.
    fn new(images: &[&[&[u8]]]) -> Self {
        let layout = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(layout.path().join("blobs/sha256")).unwrap();
        fs::write(layout.path().join("oci-layout"), "{}").unwrap();
        let manifests: Vec<_> = images.iter().map(|layers| layout.image(layers)).collect();
        layout.index(&json!({ "manifests": manifests }));
        layout
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn image(&self, layers: &[&[u8]]) -> Value {
        let layers: Vec<_> = layers.iter().map(|layer| self.blob(layer)).collect();
        self.blob(json!({ "layers": layers }).to_string().as_bytes())
    }

    /// Adds a blob, and returns its description.
    fn blob(&self, bytes: &[u8]) -> Value {
        let digest = digest(bytes);
        self.named(&digest, bytes);
        json!({ "digest": digest })
    }

    /// Stores this as the blob with this digest, and returns where.
    fn named(&self, digest: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path().join("blobs").join(digest.replace(':', "/"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// All files of the layout in an archive.
    fn archive(&self) -> PathBuf {
        let mut archive = TarArchive::default();
        let blobs = fs::read_dir(self.path().join("blobs/sha256")).unwrap();
        let blobs = blobs.map(|blob| blob.unwrap().path());
        let others = ["oci-layout", "index.json"].map(|name| self.path().join(name));
        for path in blobs.chain(others) {
            let name = path.strip_prefix(self.path()).unwrap().to_str().unwrap();
            archive = archive.member(b'0', name.as_bytes(), b"", &fs::read(&path).unwrap());
        }
        let path = self.path().join("archive.tar");
        fs::write(&path, archive.finish()).unwrap();
        path
    }

    fn index(&self, index: &Value) {
        fs::write(self.path().join("index.json"), index.to_string()).unwrap();
    }
}

fn build(sources: &[&Path], image: &Path) -> Result<Built, Error> {
    verimount::build_layer_store(sources, image, &replacing())
}

/// The options with which an older image is replaced.
fn replacing() -> BuildOptions {
    BuildOptions {
        replace: true,
        ..BuildOptions::default()
    }
}

/// Two layers: the upper one deletes a file and hides a directory of the lower one, and has a hard link.
fn layers() -> [Vec<u8>; 2] {
    let lower = TarArchive::default().file("a/file").file("b/file").finish();
    let upper = TarArchive::default()
        .member(b'0', b"a/.wh.file", b"", b"")
        .member(b'0', b"b/.wh..wh..opq", b"", b"")
        .member(b'0', b"c", b"", b"text")
        .member(b'1', b"d", b"c", b"")
        .finish();
    [lower, gzip(&upper)]
}

#[test]
fn a_store_has_each_layer_with_what_is_known_of_it() {
    let [lower, upper] = layers();
    let layout = Layout::new(&[&[&lower, &upper], &[&lower]]);
    let image = layout.path().join("store.img");
    let built = build(&[layout.path(), layout.path()], &image).unwrap();
    assert_eq!(built.layers, Some(2));
    let options = OpenOptions::new().digest(built.digest.unwrap());
    let store = Image::open(&image, &options).unwrap();

    let [lower_at, upper_at] = [&lower, &upper].map(|layer| digest(layer));
    assert_eq!(store.read(format!("{upper_at}/blob")).unwrap(), upper);
    assert_eq!(store.read(format!("{lower_at}/blob")).unwrap(), lower);
    assert_eq!(
        store.read_to_string(format!("{upper_at}/diff/d")).unwrap(),
        "text"
    );
    let metadata = |path: &str| {
        store
            .symlink_metadata(format!("{upper_at}/diff/{path}"))
            .unwrap()
    };
    assert_eq!(metadata("c").ino(), metadata("d").ino());
    assert_eq!(metadata("a/file").file_type(), FileType::CharDevice);
    for name in ["trusted.overlay.opaque", "user.overlay.opaque"] {
        let value = store.xattr(format!("{upper_at}/diff/b"), name).unwrap();
        assert_eq!(value.as_deref(), Some(&b"y"[..]), "{name}");
    }
    let info = store.read(format!("{upper_at}/info")).unwrap();
    let info: Value = serde_json::from_slice(&info).unwrap();
    let plain = layers_plain();
    assert_eq!(
        info,
        json!({
            "compressed-diff-digest": upper_at,
            "compressed-size": upper.len(),
            "diff-digest": digest(&plain),
            "diff-size": plain.len(),
            "compression": 2,
        })
    );
    // The same images make the same store.
    let again = layout.path().join("again.img");
    assert_eq!(
        build(&[layout.path()], &again).unwrap().digest,
        built.digest
    );
}

/// The upper layer before it was compressed.
fn layers_plain() -> Vec<u8> {
    let [_, upper] = layers();
    let mut plain = Vec::new();
    std::io::copy(&mut flate2::read::GzDecoder::new(&upper[..]), &mut plain).unwrap();
    plain
}

#[test]
fn what_has_no_container_images_is_refused() {
    let layout = Layout::new(&[]);
    let image = layout.path().join("store.img");
    let kind = |source: &Path| build(&[source], &image).unwrap_err().kind();
    let archive = layout.path().join("archive");
    fs::write(&archive, TarArchive::default().file("a").finish()).unwrap();
    let empty = tempfile::tempdir().unwrap();
    for source in [&archive, &empty.path().to_owned()] {
        assert_eq!(kind(source), ErrorKind::NotOneImage, "{source:?}");
    }
    assert_eq!(kind(&PathBuf::from("/missing")), ErrorKind::NotFound);
    assert!(!image.exists());
}

/// The digests in a layout are no paths, whatever they are.
#[test]
fn a_digest_leads_to_no_other_file() {
    let layout = Layout::new(&[]);
    let image = layout.path().join("store.img");
    let secret = layout.path().join("secret");
    fs::write(&secret, json!({ "layers": [] }).to_string()).unwrap();
    for digest in [
        "..:..:secret".to_owned(),
        "sha256:../../secret".to_owned(),
        format!("sha256:..{}", secret.to_str().unwrap()),
    ] {
        layout.index(&json!({ "manifests": [{ "digest": digest }] }));
        let refused = build(&[layout.path()], &image).unwrap_err();
        assert!(refused.to_string().contains("is not in it"), "{refused}");
    }
}

/// All that builds something of container images refuses them, plain or compressed, in a directory or an archive.
#[test]
fn blobs_that_do_not_have_their_digests_are_refused() {
    let [lower, upper] = layers();
    let manifest =
        json!({ "layers": [{ "digest": digest(&lower) }, { "digest": digest(&upper) }] });
    let manifest = manifest.to_string().into_bytes();
    let with_space = [&manifest[..], b" "].concat();
    let other = TarArchive::default().file("other").finish();
    let all_built = |layout: &Layout| {
        let (archive, image) = (layout.archive(), layout.path().join("image"));
        let options = replacing();
        [
            build(&[layout.path()], &image),
            build(&[archive.as_path()], &image),
            verimount::build(&archive, &image, &options),
        ]
    };
    let layout = Layout::new(&[&[&lower, &upper]]);
    for built in all_built(&layout) {
        built.unwrap();
    }
    for (right, wrong) in [
        (&lower, other.clone()),
        (&upper, gzip(&other)),
        (&manifest, with_space),
    ] {
        let name = digest(right);
        layout.named(&name, &wrong);
        for refused in all_built(&layout).map(Result::unwrap_err) {
            assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
            let text = refused.to_string();
            assert!(text.contains(&name.replace(':', "/")), "{text}");
            assert!(text.contains(&digest(&wrong)), "{text}");
        }
        layout.named(&name, right);
    }
    for built in all_built(&layout) {
        built.unwrap();
    }
}

/// As new versions of docker save them.
#[test]
fn layers_of_docker_that_are_blobs_have_their_digests() {
    let layout = Layout::new(&[]);
    let layer = TarArchive::default().file("a").finish();
    let name = digest(&layer).replace(':', "/");
    let path = format!("blobs/{name}");
    let manifest = json!([{ "Config": "config", "Layers": [path] }]).to_string();
    let image = layout.path().join("image");
    let built = |layer: &[u8]| {
        let archive = TarArchive::default()
            .member(b'0', path.as_bytes(), b"", layer)
            .member(b'0', b"manifest.json", b"", manifest.as_bytes());
        let at = layout.path().join("archive.tar");
        fs::write(&at, archive.finish()).unwrap();
        verimount::build(&at, &image, &replacing())
    };
    built(&layer).unwrap();
    let other = TarArchive::default().file("b").finish();
    assert_eq!(built(&other).unwrap_err().kind(), ErrorKind::Corrupt);
}

/// What is about an image, such as a bill of materials, is none, but an image may have a type of its own.
#[test]
fn artifacts_beside_an_image_are_left_alone() {
    let layout = Layout::new(&[]);
    let [lower, upper] = layers();
    let image = layout.image(&[&lower, &upper]);
    let mut artifacts = [
        json!({ "artifactType": "application/spdx+json" }),
        json!({ "subject": image }),
    ];
    for artifact in &mut artifacts {
        artifact["layers"] = json!([layout.blob(b"{}")]);
        *artifact = layout.blob(artifact.to_string().as_bytes());
    }
    let [typed, about] = &artifacts;
    layout.index(&json!({ "manifests": [image, typed, about] }));
    let output = layout.path().join("image");
    let options = replacing();
    let built = verimount::build(layout.archive(), &output, &options).unwrap();
    assert_eq!(built.layers, Some(2));
    layout.index(&json!({ "manifests": [typed, about] }));
    let refused = verimount::build(layout.archive(), &output, &options).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotOneImage, "{refused}");
    let manifest = json!({ "artifactType": "own", "layers": [layout.blob(&lower)] }).to_string();
    layout.index(&json!({ "manifests": [layout.blob(manifest.as_bytes())] }));
    let built = verimount::build(layout.archive(), &output, &options).unwrap();
    assert_eq!(built.layers, Some(1));
}

/// A layer that is named often is read once, and the tree is the one that its layers make in their order.
#[test]
fn of_a_layer_that_is_there_several_times_the_uppermost_counts() {
    let layout = Layout::new(&[]);
    let [lower, upper] = layers();
    // Other bytes of the same tree.
    let copy = gzip(&lower);
    let output = layout.path().join("image");
    let built = |layers: &[&[u8]]| {
        layout.index(&json!({ "manifests": [layout.image(layers)] }));
        let options = replacing();
        verimount::build(layout.archive(), &output, &options).unwrap()
    };
    let [once, often] =
        [[&*lower, &upper, &copy], [&*lower, &upper, &lower]].map(|all| built(&all));
    assert_eq!(often.layers, Some(2));
    assert_eq!(once.digest, often.digest);
    assert_ne!(built(&[&lower, &upper]).digest, often.digest);
}

#[test]
fn lists_of_images_are_bounded() {
    let layout = Layout::new(&[]);
    let at = layout.path().join("archive.tar");
    let image = json!({ "Config": "config", "Layers": [] });
    let manifest = json!(vec![image; 1025]).to_string();
    let archive = TarArchive::default().member(b'0', b"manifest.json", b"", manifest.as_bytes());
    fs::write(&at, archive.finish()).unwrap();
    let output = layout.path().join("image");
    let refused = verimount::build(&at, &output, &BuildOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("more than 1024"), "{refused}");
}

#[test]
fn directories_with_container_images_are_known() {
    let layout = Layout::new(&[&[]]);
    let output = tempfile::tempdir().unwrap();
    let built = |directory: &Path| {
        let options = replacing();
        let built = verimount::build(directory, output.path().join("image"), &options);
        built.unwrap().container_layout
    };
    assert_eq!(built(layout.path()), Some("oci"));
    let of_skopeo = tempfile::tempdir().unwrap();
    fs::write(of_skopeo.path().join("manifest.json"), "{}").unwrap();
    assert_eq!(built(of_skopeo.path()), None);
    fs::write(
        of_skopeo.path().join("version"),
        "Directory Transport Version: 1.1\n",
    )
    .unwrap();
    assert_eq!(built(of_skopeo.path()), Some("dir"));
}

#[test]
fn digests_are_of_known_algorithms() {
    let layout = Layout::new(&[]);
    let layer = TarArchive::default().file("a").finish();
    let image = layout.path().join("image");
    let sha512 = format!("sha512:{}", hex(&Sha512::digest(&layer)));
    let built = |digest: &str, layer: &[u8]| {
        layout.named(digest, layer);
        let manifest = json!({ "layers": [{ "digest": digest }] }).to_string();
        let manifest = layout.blob(manifest.as_bytes());
        layout.index(&json!({ "manifests": [manifest] }));
        build(&[layout.path()], &image).map_err(|error| error.kind())
    };
    built(&sha512, &layer).unwrap();
    let refused = |digest: &str, layer: &[u8]| built(digest, layer).unwrap_err();
    let other = TarArchive::default().file("b").finish();
    assert_eq!(refused(&sha512, &other), ErrorKind::Corrupt);
    for digest in ["md5:d41d8cd98f00b204e9800998ecf8427e", "sha256:00", "layer"] {
        assert_eq!(refused(digest, &layer), ErrorKind::Unsupported, "{digest}");
    }
}

/// Root builds a store of what users have copied.
#[test]
fn links_that_others_may_have_put_into_a_directory_are_not_followed() {
    let [lower, upper] = layers();
    let layout = Layout::new(&[&[&lower, &upper]]);
    let secret = layout.path().join("secret");
    let blob = layout.named(&digest(&lower), &lower);
    fs::rename(&blob, &secret).unwrap();
    symlink(&secret, &blob).unwrap();
    let image = layout.path().join("store.img");
    let set_mode = |mode| {
        let blobs = fs::Permissions::from_mode(mode);
        fs::set_permissions(blob.parent().unwrap(), blobs).unwrap();
    };
    set_mode(0o755);
    build(&[layout.path()], &image).unwrap();
    set_mode(0o777);
    let refused = build(&[layout.path()], &image).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied, "{refused}");
    let name = blob.file_name().unwrap().to_str().unwrap();
    assert!(refused.to_string().contains(name), "{refused}");
}

#[test]
fn whoever_watches_can_end_it() {
    let [lower, upper] = layers();
    let layout = Layout::new(&[&[&lower, &upper]]);
    let image = layout.path().join("store.img");
    let cancelled = BuildOptions {
        watcher: Watcher::new(|progress| match progress.step {
            Step::Hash => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }),
        ..BuildOptions::default()
    };
    let ended = verimount::build_layer_store(&[layout.path()], &image, &cancelled);
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(!image.exists());
}

#[test]
fn damaged_layers_are_refused() {
    let [lower, upper] = layers();
    let layout = Layout::new(&[&[&lower, &upper]]);
    let name = digest(&upper).replace(':', "/");
    let blob = File::options()
        .write(true)
        .open(layout.path().join("blobs").join(name))
        .unwrap();
    blob.set_len(upper.len() as u64 / 2).unwrap();
    let image = layout.path().join("store.img");
    assert!(build(&[layout.path()], &image).is_err());
    assert!(!image.exists());
}
