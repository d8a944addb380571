//! Trees that the writer refuses, naming the offending path.

use std::{
    fs::{self, File},
    io::{self, Write},
    ops::ControlFlow,
    os::unix::fs::symlink,
    path::Path,
    time::{Duration, SystemTime},
};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use tempfile::TempDir;
use verimount_romfs::{BlockSize, Options, Plan, Romfs, Unstorable, VolumeName};
use verimount_scan::{BuildError, Error as ScanError, Limit, Options as ScanOptions, scan};
use verimount_testkit::{
    go_on,
    plain_tree::{can_make_devices, create, one_of_everything},
    skip,
};
use verimount_tree::MAX_DEPTH;

fn plan(root: &Path) -> Result<Plan, BuildError> {
    let options = Options {
        volume_name: VolumeName::default(),
        block_size: BlockSize::MIN,
    };
    verimount_romfs::plan(scan(root, &ScanOptions::default(), &mut go_on)?, &options)
}

#[track_caller]
fn assert_unstorable(root: &Path, culprit: impl AsRef<Path>, expected: Unstorable) {
    match plan(root) {
        Err(BuildError::Unstorable { path, reason }) => {
            assert_eq!(path, root.join(culprit));
            assert_eq!(reason.downcast_ref(), Some(&expected));
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("planning succeeded"),
    }
}

/// A sparse file of that size.
fn hole(path: impl AsRef<Path>, size: u64) {
    File::create(path).unwrap().set_len(size).unwrap();
}

#[test]
fn names_have_a_length_that_the_kernel_lists() {
    let folder = tempfile::tempdir().unwrap();
    let name = |len| "x".repeat(len);
    hole(folder.path().join(name(127)), 0);
    plan(folder.path()).unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    let culprit = Path::new("sub").join(name(128));
    hole(folder.path().join(&culprit), 0);
    assert_unstorable(folder.path(), culprit, Unstorable::NameTooLong(128));
}

#[test]
fn files_are_smaller_than_four_gib() {
    let folder = tempfile::tempdir().unwrap();
    hole(folder.path().join("big"), 1 << 32);
    assert_unstorable(folder.path(), "big", Unstorable::FileTooLarge(1 << 32));
    // One byte less is valid for a romfs file, but it fits in no image.
    hole(folder.path().join("big"), (1 << 32) - 1);
    assert_unstorable(folder.path(), "big", Unstorable::ImageTooLarge);
}

#[test]
fn images_are_smaller_than_four_gib() {
    let folder = tempfile::tempdir().unwrap();
    hole(folder.path().join("a"), 2 << 30);
    // The space left by the superblock, the root's two headers, and those of the files, with the
    // first file aligned to 1 KiB.
    let left = (1 << 32) - 16 - (1024 + (2 << 30)) - 1024;
    hole(folder.path().join("b"), left);
    let fits = plan(folder.path()).unwrap();
    assert_eq!(fits.image_size(), (1 << 32) + 1024);
    hole(folder.path().join("b"), left + 1);
    assert_unstorable(folder.path(), "b", Unstorable::ImageTooLarge);
}

#[test]
fn device_numbers_have_sixteen_bits() {
    if !can_make_devices() {
        skip("only root can make devices");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("device");
    let number = makedev(8, 0x1_0000);
    mknodat(CWD, &device, FileType::BlockDevice, Mode::RUSR, number).unwrap();
    let expected = Unstorable::DeviceNumber {
        major: 8,
        minor: 0x1_0000,
    };
    assert_unstorable(folder.path(), "device", expected);
}

#[test]
fn directories_are_nested_to_the_readers_bound() {
    let folder = tempfile::tempdir().unwrap();
    let mut path = folder.path().to_owned();
    for _ in 1..MAX_DEPTH {
        path.push("d");
        fs::create_dir(&path).unwrap();
    }
    let planned = plan(folder.path()).unwrap();
    let mut image = Vec::new();
    planned.write_to(&mut image, &mut go_on).unwrap();
    Romfs::open(image).unwrap().check_index().unwrap();

    path.push("d");
    fs::create_dir(&path).unwrap();
    match plan(folder.path()) {
        Err(BuildError::Scan(ScanError::TooLarge {
            path: culprit,
            limit,
        })) => {
            assert_eq!((culprit, limit), (path.clone(), Limit::Depth));
        }
        result => panic!("{result:?}"),
    }
    // Remove from the inside out, as a recursive removal keeps every level open.
    while path != folder.path() {
        fs::remove_dir(&path).unwrap();
        path.pop();
    }
}

#[test]
fn the_root_is_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let unreadable = |root: &Path| match plan(root) {
        Err(BuildError::Scan(ScanError::Unreadable { path, .. })) => path == root,
        _ => false,
    };
    assert!(unreadable(&missing));
    let file = folder.path().join("file");
    hole(&file, 0);
    assert!(unreadable(&file));
    let link = folder.path().join("link");
    symlink(".", &link).unwrap();
    assert_eq!(plan(&link).unwrap().tree().entry_count(), 3);
}

/// A planned tree with one file, `file`, of 100 bytes.
fn planned() -> (TempDir, Plan) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), [1; 100]).unwrap();
    let plan = plan(folder.path()).unwrap();
    (folder, plan)
}

#[test]
fn a_file_that_changes_before_it_is_written_fails_the_image() {
    let changes: [fn(&Path); 8] = [
        |file| fs::remove_file(file).unwrap(),
        |file| fs::write(file, [1; 99]).unwrap(),
        |file| fs::write(file, [1; 101]).unwrap(),
        |file| {
            // As if it were rewritten with as many bytes.
            let later = SystemTime::now() + Duration::from_secs(1);
            File::options()
                .write(true)
                .open(file)
                .unwrap()
                .set_modified(later)
                .unwrap();
        },
        |file| {
            // Another file in its place. It cannot reuse the inode while the old file exists.
            let other = file.with_extension("new");
            fs::write(&other, [1; 100]).unwrap();
            fs::rename(other, file).unwrap();
        },
        |file| {
            let moved = file.with_extension("moved");
            fs::rename(file, &moved).unwrap();
            symlink(moved, file).unwrap();
        },
        |file| {
            // A pipe with a writer that writes nothing as long as this process lives.
            fs::remove_file(file).unwrap();
            mknodat(CWD, file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            let writer = File::options().read(true).write(true).open(file);
            std::mem::forget(writer.unwrap());
        },
        |file| {
            fs::remove_file(file).unwrap();
            mknodat(CWD, file, FileType::Socket, Mode::RUSR, 0).unwrap();
        },
    ];
    for (number, change) in changes.iter().enumerate() {
        let (folder, plan) = planned();
        let file = folder.path().join("file");
        change(&file);
        match plan.write_to(&mut Vec::new(), &mut go_on) {
            Err(BuildError::Scan(ScanError::Changed { path })) => assert_eq!(path, file),
            result => panic!("change {number}: {result:?}"),
        }
    }
}

/// Appends to a file at the first write.
struct Meddler<'a>(&'a Path);

impl Write for Meddler<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        File::options()
            .append(true)
            .open(self.0)?
            .write_all(b"more")?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_file_that_grows_while_it_is_written_fails_the_image() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    hole(&file, 1 << 20);
    let plan = plan(folder.path()).unwrap();
    let result = plan.write_to(&mut Meddler(&file), &mut go_on);
    assert!(matches!(result, Err(BuildError::Scan(ScanError::Changed { path })) if path == file));
}

/// A sink that accepts this many bytes, and then fails.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        match taken {
            0 => Err(io::ErrorKind::StorageFull.into()),
            taken => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_failing_write_is_told_apart_from_a_failing_read() {
    let (_folder, plan) = planned();
    let all = usize::try_from(plan.image_size()).unwrap();
    plan.write_to(&mut Full(all), &mut go_on).unwrap();
    let result = plan.write_to(&mut Full(all - 1), &mut go_on);
    assert!(
        matches!(result, Err(BuildError::Output(error)) if error.kind() == io::ErrorKind::StorageFull)
    );
}

#[test]
fn progress_adds_up_to_the_images_size() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path(), one_of_everything().iter());
    hole(folder.path().join("hole"), 3 << 20);
    let plan = plan(folder.path()).unwrap();
    let mut told = Vec::new();
    plan.write_to(&mut io::sink(), &mut |bytes| {
        told.push(bytes);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(told.len() > 2);
    assert_eq!(told.iter().sum::<u64>(), plan.image_size());
}

#[test]
fn writing_ends_when_progress_says_so() {
    let folder = tempfile::tempdir().unwrap();
    hole(folder.path().join("hole"), 3 << 20);
    let plan = plan(folder.path()).unwrap();
    let mut image = Vec::new();
    let result = plan.write_to(&mut image, &mut |_| ControlFlow::Break(()));
    assert!(matches!(result, Err(BuildError::Cancelled)));
    assert!((image.len() as u64) < plan.image_size());
}
