//! Stores of the layers of container images.

use std::{
    fs::{self, File},
    io::Write,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use verimount::{BuildOptions, Built, Error, ErrorKind, FileType, Image, OpenOptions, Step};
use verimount_testkit::TarArchive;

/// The digest of a blob, as container images have it.
fn digest(bytes: &[u8]) -> String {
    let digits = Sha256::digest(bytes);
    let digits: String = digits.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
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
        let name = digest.replace(':', "/");
        fs::write(self.path().join("blobs").join(name), bytes).unwrap();
        json!({ "digest": digest })
    }

    fn index(&self, index: &Value) {
        fs::write(self.path().join("index.json"), index.to_string()).unwrap();
    }
}

fn build(sources: &[&Path], image: &Path) -> Result<Built, Error> {
    verimount::build_layer_store(sources, image, &BuildOptions::new().replace(true))
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

#[test]
fn whoever_watches_can_end_it() {
    let [lower, upper] = layers();
    let layout = Layout::new(&[&[&lower, &upper]]);
    let image = layout.path().join("store.img");
    let cancelled = BuildOptions::new().watch(|progress| match progress.step {
        Step::Hash => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
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
