//! Trees whose directories are replaced while an image is built from them.

use std::{
    env, fs, hint,
    io::{self, Write},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use verimount_romfs::{BlockSize, Options, Plan, VolumeName, plan};
use verimount_scan::{BuildError, Error as ScanError, Options as ScanOptions, scan};
use verimount_testkit::go_on;

const INSIDE: &[u8] = b"inside the tree";
const OUTSIDE: &[u8] = b"outside of the tree";

/// Files per directory: enough for some replacements to happen during the scan.
const FILES: usize = 20;

/// How long to build images; `VERIMOUNT_RACE_SECONDS` overrides it.
const SECONDS: u64 = 2;

fn plan_of(root: &Path) -> Result<Plan, BuildError> {
    let options = Options {
        volume_name: VolumeName::default(),
        block_size: BlockSize::MIN,
    };
    plan(scan(root, &ScanOptions::default(), &mut go_on)?, &options)
}

fn image_of(plan: &Plan) -> Result<Vec<u8>, BuildError> {
    let mut image = Vec::new();
    plan.write_to(&mut image, &mut go_on)?;
    Ok(image)
}

fn contains(image: &[u8], content: &[u8]) -> bool {
    image.windows(content.len()).any(|part| part == content)
}

/// A folder with `tree`, which has a file in `a/b`, and `outside`, with the same structure.
fn lay_out(folder: &Path) -> PathBuf {
    let tree = folder.join("tree");
    for (directory, content) in [("tree/a/b", INSIDE), ("outside/b", OUTSIDE)] {
        let directory = folder.join(directory);
        fs::create_dir_all(&directory).unwrap();
        for number in 0..FILES {
            fs::write(directory.join(number.to_string()), content).unwrap();
        }
    }
    symlink("../outside", folder.join("link")).unwrap();
    tree
}

/// Swaps a directory of the tree with a symbolic link out of it until told to stop.
fn exchange(folder: &Path, stop: &AtomicBool) {
    let (directory, link) = (folder.join("tree/a"), folder.join("link"));
    for spins in (0..64).cycle() {
        if stop.load(Relaxed) {
            break;
        }
        renameat_with(CWD, &directory, CWD, &link, RenameFlags::EXCHANGE).unwrap();
        // Vary how long each is in place.
        for _ in 0..spins * 64 {
            hint::spin_loop();
        }
    }
}

#[test]
fn nothing_outside_the_tree_gets_into_an_image() {
    let folder = tempfile::tempdir().unwrap();
    let tree = lay_out(folder.path());
    let given = env::var("VERIMOUNT_RACE_SECONDS").ok();
    let seconds = given.map_or(SECONDS, |seconds| seconds.parse().unwrap());
    let stop = AtomicBool::new(false);
    let [mut inside, mut outside, mut links, mut refused] = [0; 4];
    thread::scope(|scope| {
        scope.spawn(|| exchange(folder.path(), &stop));
        let end = Instant::now() + Duration::from_secs(seconds);
        // On a busy machine it may take longer until all outcomes have occurred.
        while Instant::now() < end || [inside, links, refused].contains(&0) {
            match plan_of(&tree).and_then(|plan| image_of(&plan)) {
                Ok(image) if contains(&image, OUTSIDE) => outside += 1,
                Ok(image) if contains(&image, INSIDE) => inside += 1,
                Ok(_) => links += 1,
                Err(_) => refused += 1,
            }
        }
        stop.store(true, Relaxed);
    });
    println!(
        "images: {inside} of the directory, {links} of the link, {outside} of what is outside; \
         {refused} refused"
    );
    assert_eq!(outside, 0, "images with files from outside");
}

/// Replacements of `tree/a/b` in a planned tree.
fn replacements() -> [fn(&Path); 4] {
    [
        |folder| {
            // The directory itself, moved out of the tree.
            fs::rename(folder.join("tree/a/b"), folder.join("moved")).unwrap();
            symlink("../../moved", folder.join("tree/a/b")).unwrap();
        },
        |folder| {
            // A different directory with the same files.
            let (old, new) = (folder.join("moved"), folder.join("tree/a/b"));
            fs::rename(&new, &old).unwrap();
            fs::create_dir(&new).unwrap();
            for number in 0..FILES {
                let name = number.to_string();
                fs::hard_link(old.join(&name), new.join(&name)).unwrap();
            }
        },
        |folder| fs::rename(folder.join("tree/a/b"), folder.join("moved")).unwrap(),
        |folder| {
            fs::rename(folder.join("tree/a/b"), folder.join("moved")).unwrap();
            fs::write(folder.join("tree/a/b"), INSIDE).unwrap();
        },
    ]
}

#[test]
fn a_directory_that_is_replaced_fails_the_image() {
    for (number, replace) in replacements().iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let tree = lay_out(folder.path());
        let plan = plan_of(&tree).unwrap();
        replace(folder.path());
        match image_of(&plan) {
            Err(BuildError::Scan(ScanError::Changed { path })) => {
                assert_eq!(path, tree.join("a/b"));
            }
            result => panic!("replacement {number}: {result:?}"),
        }
    }
}

/// The tree may be renamed, and another one take its name.
#[test]
fn the_root_stays_the_one_that_was_planned() {
    let folder = tempfile::tempdir().unwrap();
    let tree = lay_out(folder.path());
    let plan = plan_of(&tree).unwrap();
    let image = image_of(&plan).unwrap();
    fs::rename(&tree, folder.path().join("moved")).unwrap();
    symlink("outside", &tree).unwrap();
    assert!(image_of(&plan).unwrap() == image);
}

/// Moves a directory at the first write.
struct Mover<'a>(&'a Path);

impl Write for Mover<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = fs::rename(self.0.join("tree/a/b"), self.0.join("outside/moved"));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// From there, `..` leads out of the tree.
#[test]
fn a_directory_that_is_moved_while_it_is_read_fails_the_image() {
    let folder = tempfile::tempdir().unwrap();
    let tree = lay_out(folder.path());
    fs::write(tree.join("a/b/large"), vec![1; 1 << 20]).unwrap();
    fs::write(tree.join("a/c"), INSIDE).unwrap();
    fs::write(folder.path().join("outside/c"), OUTSIDE).unwrap();
    let plan = plan_of(&tree).unwrap();
    match plan.write_to(&mut Mover(folder.path()), &mut go_on) {
        Err(BuildError::Scan(ScanError::Changed { path })) => assert_eq!(path, tree.join("a/b")),
        result => panic!("{result:?}"),
    }
}
