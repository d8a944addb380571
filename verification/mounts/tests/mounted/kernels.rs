//! The kernel mounts an EROFS image that is mounted as a file: then it reads nothing that was not verified, and what
//! cannot be verified is an error, never missing.

use crate::prelude::*;

/// How the kernel reads the image.
#[derive(Debug, Clone, Copy)]
enum Way {
    File,
    Loop,
    DirectLoop,
}

impl Way {
    const ALL: [Self; 3] = [Self::File, Self::Loop, Self::DirectLoop];

    fn mount(self, image: &Path, directory: &Path) -> Option<KernelMount> {
        match self {
            Self::File => KernelMount::erofs(image, directory, MountFlags::empty()),
            Self::Loop => KernelMount::erofs_on_loop(image, directory, false),
            Self::DirectLoop => KernelMount::erofs_on_loop(image, directory, true),
        }
    }
}

/// An EROFS image `image` of `tree`, and mount points.
struct Sample {
    world: World,
    digest: FileDigest,
    bytes: Vec<u8>,
}

impl Sample {
    /// `None`, after a note, where it cannot be mounted.
    fn new(add: impl FnOnce(&Path)) -> Option<Self> {
        if !root_or_skip() {
            return None;
        }
        let world = World::with_mount_point()?;
        let tree = world.directory("tree");
        add(&tree);
        let image = world.path("image");
        let digest = build(&tree, &image, &BuildOptions::default())
            .unwrap()
            .digest
            .unwrap();
        world.directory("kernel");
        let bytes = fs::read(image).unwrap();
        Some(Self {
            world,
            digest,
            bytes,
        })
    }

    /// The image as a file, verified.
    fn mount(&self) -> Mounted {
        let image = self.world.path("image");
        let options = OpenOptions::new().digest(self.digest);
        let as_file = MountOptions {
            as_file: true,
            ..MountOptions::default()
        };
        Mounted::with(&image, &self.world.path("mnt"), &options, &as_file).unwrap()
    }

    fn shown(&self) -> PathBuf {
        self.world.path("kernel")
    }

    /// Where in the image the bytes are.
    fn position(&self, bytes: &[u8]) -> u64 {
        position_of(bytes, &self.bytes) as u64
    }
}

#[test]
fn the_kernel_shows_the_same_tree() {
    let sample = needs!(Sample::new(|tree| create(tree, false)));
    let expected = snapshot(&sample.world.path("tree")).unwrap();
    for way in Way::ALL {
        let mounted = sample.mount();
        let Some(kernel) = way.mount(&mounted.path("image"), &sample.shown()) else {
            continue;
        };
        assert_same(&snapshot(&sample.shown()).unwrap(), &expected);
        drop(kernel);
        mounted.unmount();
    }
}

const LEN: usize = 300_000;

/// Files and directories of several blocks each.
fn add_large(tree: &Path) {
    for (name, seed) in [("first", 1), ("second", 2), ("third", 3)] {
        fs::write(tree.join(name), noise(LEN, seed)).unwrap();
        let folder = tree.join(format!("{name} folder"));
        fs::create_dir(&folder).unwrap();
        for number in 0..500 {
            fs::write(folder.join(format!("{name} name {number:03}")), "").unwrap();
        }
    }
}

/// How many names a directory has.
fn count(directory: &Path) -> io::Result<usize> {
    fs::read_dir(directory)?.try_fold(0, |count, entry| entry.map(|_| count + 1))
}

/// What the program reads is all of it or an error: `bad` are the files and directories with errors.
#[track_caller]
fn check(shown: &Path, bad: &[&str]) {
    for (name, seed) in [("first", 1), ("second", 2), ("third", 3)] {
        let read = fs::read(shown.join(name));
        if bad.contains(&name) {
            assert_eq!(error_of(read), Errno::IO, "{name}");
        } else {
            assert!(read.unwrap() == noise(LEN, seed), "{name}");
        }
        let folder = format!("{name} folder");
        let counted = count(&shown.join(&folder));
        if bad.contains(&&*folder) {
            assert_eq!(error_of(counted), Errno::IO, "{folder}");
        } else {
            assert_eq!(counted.unwrap(), 500, "{folder}");
        }
    }
}

#[test]
fn every_failed_check_is_an_error() {
    let sample = needs!(Sample::new(add_large));
    let storage = sample.world.path("image");
    let content = sample.position(&noise(LEN, 2)[100_000..100_100]);
    let last_of_content = sample.position(&noise(LEN, 3)[LEN - 100..]) + 99;
    let entry = sample.position(b"third name 250");
    for (position, bad) in [
        (content, "second"),
        (last_of_content, "third"),
        (entry, "third folder"),
    ] {
        flip_at(&storage, position);
        for way in Way::ALL {
            let mounted = sample.mount();
            let Some(kernel) = way.mount(&mounted.path("image"), &sample.shown()) else {
                continue;
            };
            check(&sample.shown(), &[bad]);
            drop(kernel);
            mounted.unmount();
        }
        flip_at(&storage, position);
    }
}

/// The end of the image is gone, with the Merkle tree, when it is needed.
#[test]
fn a_truncated_image_is_an_error() {
    let sample = needs!(Sample::new(add_large));
    let storage = sample.world.path("image");
    let file = File::options().write(true).open(&storage).unwrap();
    // The first of the contents is behind all metadata.
    let end = sample.position(&noise(LEN, 1)[..100]);
    for way in Way::ALL {
        let mounted = sample.mount();
        let Some(kernel) = way.mount(&mounted.path("image"), &sample.shown()) else {
            continue;
        };
        // The names are known by then.
        let names = ["first", "second", "third"];
        for name in names {
            fs::metadata(sample.shown().join(name)).unwrap();
        }
        file.set_len(end).unwrap();
        for name in names {
            let read = fs::read(sample.shown().join(name));
            assert_eq!(error_of(read), Errno::IO, "{way:?}: {name}");
        }
        drop(kernel);
        mounted.unmount();
        fs::write(&storage, &sample.bytes).unwrap();
    }
}
