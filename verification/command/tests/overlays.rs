//! Overlays above mounts: they show the same as above directories, whatever is written through them, and whatever the kernel has
//! forgotten in between.

mod step;

use verimount_sys::FileHandle;

use self::step::Step;
use crate::prelude::*;

/// What an overlay can remember of the files below it, by their handles or names; and what of it needs no handles.
const OPTIONS: [(&str, &str); 6] = [
    ("index=on", ""),
    ("index=on,nfs_export=on", ""),
    ("redirect_dir=on", "redirect_dir=on,"),
    (
        "redirect_dir=on,metacopy=on",
        "redirect_dir=on,metacopy=on,",
    ),
    ("xino=on", "xino=on,"),
    ("index=on,xino=on", "xino=on,"),
];

/// How many steps there are between two mounts.
const STEPS_OF_A_MOUNT: usize = 100;

/// How many files there are in each directory.
const FILES: usize = 8;

/// The number of steps with each option.
fn steps() -> usize {
    env::var("VERIMOUNT_OVERLAY_STEPS").map_or(500, |steps| steps.parse().unwrap())
}

fn seed() -> u64 {
    env::var("VERIMOUNT_SEED").map_or(1, |seed| seed.parse().unwrap())
}

/// Fills a directory: each file has three names, in different directories.
fn grow(tree: &Path) {
    let random = &mut Random::new(0);
    for directory in step::DIRECTORIES {
        fs::create_dir_all(tree.join(directory)).unwrap();
    }
    for number in 0..FILES {
        let content = noise(random.below(20_000), number as u64);
        let mut names = step::DIRECTORIES.map(|directory| tree.join(directory));
        names.rotate_left(random.below(step::DIRECTORIES.len()));
        let [first, others @ ..] = names.map(|directory| directory.join(number.to_string()));
        fs::write(&first, content).unwrap();
        for other in &others[..2] {
            fs::hard_link(&first, other).unwrap();
        }
        fs::write(&others[2], noise(100, number as u64)).unwrap();
    }
}

/// An overlay above a directory.
struct Shown {
    /// What it is above.
    above: &'static str,
    lower: PathBuf,
    directory: PathBuf,
    options: String,
    overlay: Option<KernelMount>,
    changes: KernelMount,
}

impl Shown {
    /// `None`, after a note, if the kernel has no overlays.
    fn new(world: &World, above: &'static str, lower: &Path, options: &str) -> Option<Self> {
        let [changes, directory] = ["changes", "merged"].map(|name| {
            let directory = world.path(&format!("{name} of {above}"));
            fs::create_dir_all(&directory).unwrap();
            directory
        });
        let mut shown = Self {
            above,
            lower: lower.to_owned(),
            directory,
            options: format!(",{options}"),
            overlay: None,
            changes: KernelMount::memory(&changes),
        };
        shown.mount();
        shown.overlay.is_some().then_some(shown)
    }

    fn mount(&mut self) {
        let Self {
            lower,
            directory,
            options,
            changes,
            ..
        } = self;
        self.overlay = KernelMount::overlay(lower, changes, directory, options);
    }

    /// All but times and what file systems give to directories.
    fn tree(&self) -> ShownTree {
        let mut tree = as_copied(shown(&self.directory).unwrap());
        for file in tree.values_mut() {
            file.mtime = (0, 0);
        }
        tree
    }
}

/// Does the same in all overlays, and compares what each then shows with what the first shows. Between two mounts of them, what is
/// below them is mounted again, too, and the kernel forgets what it can.
fn compare_all(overlays: &mut [Shown], options: &str, mut mount_lower_again: impl FnMut()) {
    let (steps, seed) = (steps(), seed());
    let above: Vec<_> = overlays.iter().map(|overlay| overlay.above).collect();
    println!("{options}, {steps} steps, VERIMOUNT_SEED={seed}, above {above:?}");
    let random = &mut Random::new(seed);
    for number in 1..=steps {
        let step = Step::some(random);
        let results = overlays.iter().map(|overlay| step.take(&overlay.directory));
        let results: Vec<_> = results.collect();
        let is_same = results.iter().all(|result| *result == results[0]);
        assert!(
            is_same,
            "{options}, step {number}: {step:?}: {results:?} above {above:?}"
        );
        if number % STEPS_OF_A_MOUNT != 0 {
            continue;
        }
        overlays.iter_mut().for_each(|it| it.overlay = None);
        mount_lower_again();
        fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
        overlays.iter_mut().for_each(Shown::mount);
        let expected = overlays[0].tree();
        for overlay in &overlays[1..] {
            if let Err(differences) = compare(&expected, &overlay.tree()) {
                panic!("{options}, step {number}: above {above:?}: {differences}");
            }
        }
    }
}

/// The options of overlays that remember as much as one with `options` above a mount without handles, or with them.
fn equal_to(mnt: &Path, (options, without): (&str, &str)) -> String {
    match FileHandle::of(File::open(mnt).unwrap()) {
        Ok(_) => options.to_owned(),
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(Errno::OPNOTSUPP.raw_os_error()));
            format!("{without}index=off,nfs_export=off")
        }
    }
}

/// The authorities are the kernel's overlay above a directory, and above the kernel's own mount of the image. From Linux 6.16 on,
/// files of an image have no handles.
#[test]
fn above_an_image_they_are_as_above_what_it_was_made_of() {
    needs!(root_or_skip());
    let world = needs!(World::with_mount_point());
    let tree = world.directory("tree");
    grow(&tree);
    let (image, mnt) = (world.path("app.img"), world.path("mnt"));
    let digest = verimount(args!["build", &tree, &image]).digest();
    let mount = || Daemon::mount(&image, &mnt, &["--digest", &digest]);
    let mut mounted = Some(mount());
    let kernel = world.directory("kernel");
    let in_kernel = KernelMount::erofs(&image, &kernel, MountFlags::empty());
    for options in OPTIONS {
        let equal = equal_to(&mnt, options);
        let mut overlays = vec![
            needs!(Shown::new(&world, "a directory", &tree, &equal)),
            needs!(Shown::new(&world, "an image", &mnt, options.0)),
        ];
        if in_kernel.is_some() {
            let overlay = Shown::new(&world, "the kernel's mount", &kernel, &equal);
            overlays.push(needs!(overlay));
        }
        compare_all(&mut overlays, options.0, || {
            mounted.take().unwrap().unmount();
            mounted = Some(mount());
        });
    }
}

/// With all that an overlay remembers by handles.
#[test]
fn above_a_native_mount_they_are_as_above_a_directory() {
    needs!(native_or_skip());
    let world = needs!(World::with_mount_point());
    let tree = world.directory("tree");
    grow(&tree);
    let (image, mnt) = (world.path("app.img"), world.path("mnt"));
    let digest = verimount(args!["build", &tree, &image]).digest();
    let options = ["--native", "--allow-other", "--digest", &digest];
    let mount = || Daemon::mount(&image, &mnt, &options);
    let mut mounted = Some(mount());
    for (options, _) in OPTIONS {
        let mut overlays = [
            needs!(Shown::new(&world, "a directory", &tree, options)),
            needs!(Shown::new(&world, "a native mount", &mnt, options)),
        ];
        compare_all(&mut overlays, options, || {
            mounted.take().unwrap().unmount();
            mounted = Some(mount());
        });
    }
}

/// Files of a bridge have no handles from Linux 6.9 on.
#[test]
fn above_a_bridge_they_are_as_above_its_source_without_handles() {
    needs!(root_or_skip());
    let world = needs!(World::with_source());
    let (src, mnt) = (world.path("src"), world.path("mnt"));
    grow(&src);
    let mount = || Daemon::bridge(&src, &mnt, &[]);
    let mut mounted = Some(mount());
    if FileHandle::of(File::open(&mnt).unwrap()).is_ok() {
        return skip("this kernel gives handles of all files (Linux 6.9 does not)");
    }
    for options in OPTIONS {
        let equal = equal_to(&mnt, options);
        let mut overlays = [
            needs!(Shown::new(&world, "a directory", &src, &equal)),
            needs!(Shown::new(&world, "a bridge", &mnt, options.0)),
        ];
        compare_all(&mut overlays, options.0, || {
            mounted.take().unwrap().unmount();
            mounted = Some(mount());
        });
    }
}
