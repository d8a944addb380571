//! An interrupted command undoes its work.

use crate::prelude::*;

pub(crate) fn start(arguments: Vec<OsString>) -> Child {
    let mut command = Command::new(binary());
    command.args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

pub(crate) fn interrupt(child: Child, signal: Signal) -> Ended {
    kill_process(Pid::from_child(&child), signal).unwrap();
    finish_spawned(child, "the interrupted command".to_owned())
}

/// Whether a process has a file open that has no name yet, in this folder.
pub(crate) fn has_unnamed_file_in(child: &Child, folder: &Path) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{}/fd", child.id())) else {
        return false;
    };
    descriptors.filter_map(Result::ok).any(|descriptor| {
        fs::read_link(descriptor.path()).is_ok_and(|path| {
            path.starts_with(folder) && path.to_string_lossy().ends_with(" (deleted)")
        })
    })
}

/// A sparse file that takes much longer to read than a signal takes to arrive.
pub(crate) fn endless(world: &World, name: &str) -> std::path::PathBuf {
    let path = world.path(name);
    File::create(&path).unwrap().set_len(1 << 40).unwrap();
    path
}

pub(crate) const SIGNALS: [Signal; 3] = [Signal::HUP, Signal::INT, Signal::TERM];

#[test]
fn an_interrupted_seal_leaves_no_file() {
    let world = World::new();
    let folder = world.directory("folder");
    let file = endless(&world, "folder/file");
    for signal in SIGNALS {
        let child = start(args!["seal", &file]);
        eventually("it has begun", || has_unnamed_file_in(&child, &folder));
        interrupt(child, signal).is_interrupted_by(signal);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }
}

#[test]
fn an_interrupted_append_cuts_off_what_it_wrote() {
    let world = World::new();
    let file = endless(&world, "file");
    // At the start, as more takes too long to read, and at the end.
    let len = 1 << 40;
    let content = noise(100_000, 1);
    let opened = File::options().read(true).write(true).open(&file).unwrap();
    let places = [0, len - content.len() as u64];
    for place in places {
        opened.write_all_at(&content, place).unwrap();
    }
    for signal in SIGNALS {
        let child = start(args!["seal --append", &file]);
        let is_longer = || fs::metadata(&file).unwrap().len() > len;
        eventually("some of the tree is written", is_longer);
        interrupt(child, signal).is_interrupted_by(signal);
        assert_eq!(fs::metadata(&file).unwrap().len(), len);
        for place in places {
            let mut found = vec![0; content.len()];
            opened.read_exact_at(&mut found, place).unwrap();
            assert!(found == content, "the data was changed");
        }
    }
}

/// Started by `nohup`: the end of the terminal's session must not end it.
#[test]
fn ignored_signals_stay_ignored() {
    let world = World::new();
    let file = endless(&world, "file");
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" seal --append \"$1\""]);
    command.args([binary().as_os_str(), file.as_os_str()]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    eventually("it has begun", || bytes_read(&child) > 1 << 20);
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    let before = bytes_read(&child);
    let goes_on = || bytes_read(&child) > before + (16 << 20);
    eventually("it goes on", goes_on);
    interrupt(child, Signal::TERM).is_interrupted_by(Signal::TERM);
}

/// A tree whose image takes long to write: all of a file that has no storage. That is nearly the largest
/// possible image of romfs.
fn large_tree(world: &World) -> std::path::PathBuf {
    let tree = world.directory("tree");
    let file = File::create(tree.join("file")).unwrap();
    file.set_len(0xfff0_0000).unwrap();
    tree
}

#[test]
fn an_interrupted_build_leaves_no_image() {
    let world = World::new();
    let tree = large_tree(&world);
    let folder = world.directory("folder");
    for older in [None, Some(&b"an older image"[..])] {
        let image = folder.join("image");
        if let Some(older) = older {
            fs::write(&image, older).unwrap();
        }
        let child = start(args!["build --format romfs --force", &tree, &image]);
        eventually("it has begun", || has_unnamed_file_in(&child, &folder));
        interrupt(child, Signal::INT).is_interrupted_by(Signal::INT);
        assert_eq!(fs::read(&image).ok().as_deref(), older);
        let left = fs::read_dir(&folder).unwrap().count();
        assert_eq!(left, usize::from(older.is_some()));
    }
}

/// Two files of equal size are compared before the image is begun.
#[test]
fn an_interrupted_comparison_leaves_no_image() {
    needs!(fuse_or_skip());
    let world = World::new();
    let file = endless(&world, "file");
    // A mount has no holes, so that everything is read.
    let tree = world.directory("tree");
    let mounts = ["tree/one", "tree/two"]
        .map(|name| Daemon::mount(&file, &world.directory(name), &["--unverified"]));
    let folder = world.directory("folder");
    let child = start(args!["build --format erofs", &tree, folder.join("image")]);
    eventually("it compares", || bytes_read(&child) > 16 << 20);
    interrupt(child, Signal::INT).is_interrupted_by(Signal::INT);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    drop(mounts);
}

/// The number of bytes that a process has read so far.
pub(crate) fn bytes_read(child: &Child) -> u64 {
    let counts = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap_or_default();
    let read = counts.lines().find_map(|line| line.strip_prefix("rchar: "));
    read.map_or(0, |bytes| bytes.parse().unwrap())
}

#[test]
fn an_interrupted_check_says_how_far_it_came() {
    let world = World::new();
    let path = world.path("vol.img");
    verimount(args!["volume format", &path, "--size", "16G"]).succeeds();
    let last_write = || fs::metadata(&path).unwrap().modified().unwrap();
    let before = last_write();
    for signal in SIGNALS {
        let child = start(args!["volume check", &path]);
        // The journal is read first, which is less than that.
        eventually("it has begun", || bytes_read(&child) > 256 << 20);
        let ended = interrupt(child, signal);
        ended.is_interrupted_by(signal);
        let words: Vec<&str> = ended.stderr.split([' ', ':']).collect();
        let checked = words.iter().position(|word| *word == "checked").unwrap();
        let [done, size] = [1, 3].map(|word| words[checked + word].parse::<u64>().unwrap());
        assert!(0 < done && done < size, "{ended:?}");
        assert!(ended.stdout.is_empty(), "{ended:?}");
    }
    assert_eq!(last_write(), before);
}

/// SIGKILL allows no clean-up, but none is needed.
#[test]
fn a_killed_build_leaves_no_image() {
    let world = World::new();
    let tree = large_tree(&world);
    let folder = world.directory("folder");
    let child = start(args!["build --format romfs", &tree, folder.join("image")]);
    eventually("it has begun", || has_unnamed_file_in(&child, &folder));
    let ended = interrupt(child, Signal::KILL);
    assert_eq!(ended.status.code(), None);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}
