//! What most tests need: a small image, keys.

use std::sync::OnceLock;

use crate::prelude::*;

/// The file that every small image has, at its root.
pub(crate) const HELLO: &str = "hello";

/// Makes what a world does not have by itself.
pub(crate) trait Images {
    /// A small image, not sealed.
    fn plain_image(&self, name: &str) -> PathBuf;

    /// A small image, with its seal appended.
    fn sealed_image(&self, name: &str) -> PathBuf;

    /// A small image, with its seal beside it.
    fn image_with_sidecar(&self, name: &str) -> PathBuf;

    /// A key pair without password: public, secret.
    fn keys(&self, name: &str) -> (PathBuf, PathBuf);
}

impl Images for World {
    fn plain_image(&self, name: &str) -> PathBuf {
        self.write(name, &small_images().plain)
    }

    fn sealed_image(&self, name: &str) -> PathBuf {
        self.write(name, &small_images().sealed)
    }

    fn image_with_sidecar(&self, name: &str) -> PathBuf {
        self.write(&format!("{name}.verity"), &small_images().sidecar);
        self.plain_image(name)
    }

    fn keys(&self, name: &str) -> (PathBuf, PathBuf) {
        let (public, secret) = (
            self.path(&format!("{name}.pub")),
            self.path(&format!("{name}.key")),
        );
        verimount(args!["keygen", &public, &secret, "--no-password"]).succeeds_quietly();
        (public, secret)
    }
}

/// One small image in all forms.
struct SmallImages {
    plain: Vec<u8>,
    sealed: Vec<u8>,
    sidecar: Vec<u8>,
}

/// Made once, by the command itself.
fn small_images() -> &'static SmallImages {
    static IMAGES: OnceLock<SmallImages> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let world = World::new();
        let tree = world.directory("tree");
        fs::write(tree.join(HELLO), "Hello, world!\n").unwrap();
        fs::create_dir(tree.join("folder")).unwrap();
        fs::write(tree.join("folder/noise"), noise(70_000, 1)).unwrap();
        let image = world.path("image");
        verimount(args!["build --no-seal", &tree, &image]).succeeds();
        let plain = fs::read(&image).unwrap();
        verimount(args!["seal", &image]).succeeds_quietly();
        let sidecar = fs::read(world.path("image.verity")).unwrap();
        verimount(args!["seal --append", &image]).succeeds_quietly();
        let sealed = fs::read(&image).unwrap();
        SmallImages {
            plain,
            sealed,
            sidecar,
        }
    })
}

/// The size of small images.
pub(crate) fn small_sealed_len() -> usize {
    small_images().sealed.len()
}
