//! Files that are kept in memory. What they show is tested in `verification/mounts`.

use rustix::fs::fstatfs;

use crate::prelude::*;

/// The type of a tmpfs, in `statfs`.
const TMPFS: i64 = 0x0102_1994;

/// A world with a mount point and an image of a file `file` with this content; `None`, after a note, for others than root.
fn world_with_file(content: &[u8]) -> Option<World> {
    if !root_passes_through_or_skip() {
        return None;
    }
    let world = World::with_mount_point()?;
    let tree = world.directory("tree");
    fs::write(tree.join("file"), content).unwrap();
    verimount(args!["build", &tree, world.path("image")]).succeeds();
    Some(world)
}

fn mount_resident(world: &World) -> Daemon {
    let options = ["--unpinned", "--resident", "all", "--resident-limit", "64M"];
    Daemon::mount(&world.path("image"), &world.path("mnt"), &options)
}

#[test]
fn what_cannot_be_resident_is_refused() {
    let world = needs!(World::with_mount_point());
    let (image, mnt) = (world.sealed_image("image"), world.path("mnt"));
    let mount =
        |options: &[&str]| verimount(args!["mount", &image, &mnt, "--unpinned"; options.iter()]);
    mount(&["--resident", "all"]).is_wrong_usage();
    mount(&["--resident-limit", "1M"]).is_wrong_usage();
    mount(&["--resident", "all", "--resident-limit", "0"]).is_wrong_usage();
    let limited = |pattern| mount(&["--resident", pattern, "--resident-limit", "1M"]);
    if !is_root() {
        limited("all").fails_saying("only root can keep files resident");
        return;
    }
    limited("[a").is_wrong_usage();
    limited("*.missing").fails_saying("no file with content is to be resident");
    let all = [
        "--resident",
        "all",
        "--resident",
        "*.bin",
        "--resident-limit",
        "1M",
    ];
    mount(&all).is_wrong_usage();
    mount(&["--resident", "all", "--resident-limit", "1000T"]).is_wrong_usage();
}

#[test]
fn a_status_shows_what_is_resident() {
    let world = needs!(world_with_file(&noise(100_000, 1)));
    let mounted = mount_resident(&world);
    assert!(fs::read(mounted.path("file")).unwrap() == noise(100_000, 1));
    let shown = verimount(args!["status", mounted.directory()]);
    let line = "resident       1 files; 102400 bytes of 67108864\n";
    assert!(shown.succeeds().text().contains(line), "{shown:?}");
    mounted.unmount();
}

/// The daemon has no descriptor of a loaded file, and no name leads to one: not even root's other processes can write to
/// it, nor to one that is open.
#[test]
fn nobody_can_write_what_is_served() {
    let content = noise(3 << 20, 1);
    let world = needs!(world_with_file(&content));
    let mounted = mount_resident(&world);
    let file = File::open(mounted.path("file")).unwrap();
    let again = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    for path in [mounted.path("file"), again.into()] {
        let opened = OpenOptions::new().write(true).open(path);
        assert_eq!(error_of(opened), Errno::ROFS);
    }
    let descriptors = fs::read_dir(format!("/proc/{}/fd", mounted.pid())).unwrap();
    let mut memories = 0;
    for path in descriptors.map(|descriptor| descriptor.unwrap().path()) {
        // To open a pipe waits for the other end.
        if !path.is_dir() || fs::read_link(&path).unwrap().starts_with("/dev") {
            continue;
        }
        if fstatfs(File::open(&path).unwrap()).unwrap().f_type == TMPFS {
            memories += 1;
            assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "{path:?}");
        }
    }
    // To make files by, and to have them read-only.
    assert_eq!(memories, 2);
    assert!(read_at(&file, 0, content.len()).unwrap() == content);
    drop(file);
    mounted.unmount();
}

#[test]
fn what_is_open_outlives_the_daemon() {
    let world = needs!(world_with_file(&noise(3 << 20, 1)));
    let mounted = mount_resident(&world);
    let (file, original) = (mounted.path("file"), world.path("tree/file"));
    let pid = mounted.pid().to_string();
    let arguments = [&file, &original, Path::new(&pid)];
    let ended = needs!(python(include_str!("resident.py"), &arguments));
    drop(mounted);
    ended.succeeds();
}
