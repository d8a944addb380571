//! Contents that this process has mounted.

mod damage;
mod flips;
mod kernels;
mod powers;
mod prelude;
mod reading;
mod resident;

use std::num::NonZeroUsize;

use verimount::Location;
use verimount_host::{
    MountOptions,
    mounts::{EndSignals, ImageStatus, Status, ask_mount, our_mount_on, unmount, unmount_lazily},
};

use crate::prelude::*;

/// A mounted content, unmounted at last.
struct Mounted {
    directory: PathBuf,
    serving: Option<thread::JoinHandle<io::Result<()>>>,
}

impl Mounted {
    fn new(source: &Path, directory: &Path, options: &OpenOptions) -> Result<Self, Error> {
        Self::with(source, directory, options, &MountOptions::default())
    }

    fn with(
        source: impl Into<Location>,
        directory: &Path,
        options: &OpenOptions,
        mount: &MountOptions,
    ) -> Result<Self, Error> {
        let content = Content::open(source.into(), options)?.read_ahead();
        let threads = NonZeroUsize::new(2).unwrap();
        let mount = MountOptions {
            threads: Some(threads),
            ..mount.clone()
        };
        let mount = verimount_host::mount(&content, directory, &mount)?;
        let signals = EndSignals::new(None).unwrap();
        Ok(Self {
            directory: directory.to_owned(),
            serving: Some(thread::spawn(move || mount.wait(signals))),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Its status, as JSON.
    fn json(&self) -> Value {
        serde_json::to_value(self.status()).unwrap()
    }

    fn directory(&self) -> &Path {
        &self.directory
    }

    fn status(&self) -> Status {
        ask_mount(&our_mount_on(&self.directory).unwrap().unwrap()).unwrap()
    }

    /// The statistics of an image.
    fn image(&self) -> ImageStatus {
        match self.status().kind {
            Kind::Image(image) => image,
            other => panic!("{other:?}"),
        }
    }

    /// How many READs the kernel has sent.
    fn reads(&self) -> u64 {
        self.json()["requests"]["read"].as_u64().unwrap()
    }

    /// Unmounts it, and waits for its end. It can be busy although its files are closed: a process that
    /// another test starts has copies of all open descriptors for a moment.
    fn unmount(mut self) {
        eventually("it is not busy", || unmount(&self.directory).is_ok());
        self.serving.take().unwrap().join().unwrap().unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.serving.is_some() {
            // The test has failed, and may still have files open.
            let _ = unmount_lazily(&self.directory, None);
        }
    }
}

/// Mounts what is sealed, whatever it is.
#[track_caller]
fn mount(source: &Path, directory: &Path) -> Mounted {
    Mounted::new(source, directory, &OpenOptions::new().unpinned()).unwrap()
}

/// Mounts what is sealed, whatever it is, as a single file.
#[track_caller]
fn mount_as_file(source: &Path, directory: &Path) -> Mounted {
    let unpinned = OpenOptions::new().unpinned();
    Mounted::with(
        source,
        directory,
        &unpinned,
        &MountOptions {
            as_file: true,
            ..MountOptions::default()
        },
    )
    .unwrap()
}

/// A world with a mount point `mnt`, a tree of everything, and its image `image`.
fn world_with_image(options: &BuildOptions) -> Option<World> {
    let world = World::with_mount_point()?;
    let tree = world.directory("tree");
    create(&tree, false);
    build(&tree, world.path("image"), options).unwrap();
    Some(world)
}

/// The options for an image of romfs.
fn romfs() -> BuildOptions {
    BuildOptions {
        format: ImageFormat::Romfs(RomfsOptions::default()),
        ..BuildOptions::default()
    }
}

/// An image with two files.
fn small_image(world: &World) -> PathBuf {
    let (tree, image) = (world.directory("small"), world.path("image"));
    fs::create_dir(tree.join("folder")).unwrap();
    fs::write(tree.join(HELLO), "Hello, world!\n").unwrap();
    fs::write(tree.join("folder/noise"), noise(70_000, 1)).unwrap();
    build(&tree, &image, &BuildOptions::default()).unwrap();
    image
}

/// The file that every small image has, at its root.
const HELLO: &str = "hello";

/// Nearly all tests again, by an ordinary user.
#[test]
fn by_nobody() {
    let names = [
        "damage::",
        "reading::",
        "flips::fresh::random_bytes_of_a_small_image",
        "flips::fresh::every_byte_of_a_signature",
    ];
    pass_again_as_nobody(&names);
}
