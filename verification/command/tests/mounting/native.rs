//! Images that the kernel reads itself, and of which it is given verified blocks.

use rustix::fs::StatVfsMountFlags;

use super::is_empty;
use crate::common::daemon::status;
use crate::prelude::*;

/// An image of everything, and a mount point.
struct Native {
    world: World,
    digest: String,
}

impl Native {
    /// With a tree of everything.
    fn new() -> Option<Self> {
        let everything = RichTree {
            files: 300,
            sizes: &[4096, 200_000, 3_000_000],
        };
        Self::of(&everything, &[])
    }

    /// With these options of `build`. `None`, after a note, where root cannot mount or the kernel has no EROFS.
    fn of(tree: &RichTree, options: &[&str]) -> Option<Self> {
        if !native_or_skip() {
            return None;
        }
        let world = World::with_mount_point()?;
        tree.grow(&world.directory("tree")).unwrap();
        let [tree, image] = ["tree", "image"].map(|name| world.path(name));
        let digest = verimount(args!["build", tree, image; options.iter()]).digest();
        Some(Self { world, digest })
    }

    fn image(&self) -> PathBuf {
        self.world.path("image")
    }

    fn directory(&self) -> PathBuf {
        self.world.path("mnt")
    }

    fn mount(&self) -> Daemon {
        let options = ["--native", "--allow-other", "--digest", &self.digest];
        Daemon::mount(&self.image(), &self.directory(), &options)
    }
}

/// All that `tar` stores of a directory: owners, permissions, times, targets, attributes and content.
fn archived(directory: &Path) -> Vec<u8> {
    let mut tar = Command::new("tar");
    let times = "--pax-option=delete=atime,delete=ctime";
    tar.args(["--create", "--format=pax", times, "--xattrs"]);
    tar.args(["--xattrs-include=*", "--acls", "--sort=name"]);
    tar.arg("--directory").arg(directory).arg(".");
    let ended = finish(tar);
    assert!(ended.status.success(), "{ended:?}");
    ended.stdout
}

#[test]
fn it_shows_what_a_served_mount_shows() {
    let native = needs!(Native::new());
    let other = native.world.directory("other");
    let served = Daemon::mount(&native.image(), &other, &["--unpinned", "--allow-other"]);
    let mounted = native.mount();
    assert!(archived(mounted.directory()) == archived(&other));
    assert!(name_on(mounted.directory()).starts_with("/run/verimount/native"));
    let restricted =
        StatVfsMountFlags::RDONLY | StatVfsMountFlags::NOSUID | StatVfsMountFlags::NODEV;
    let flags = statvfs(mounted.directory()).unwrap().f_flag;
    assert!(flags.contains(restricted), "{flags:?}");
    served.unmount();
    mounted.unmount();
}

#[test]
fn it_is_found_asked_and_ended_as_others() {
    let native = needs!(Native::new());
    let mounted = native.mount();
    let told = status(mounted.directory());
    assert_eq!(
        (&told["kind"], &told["native"]),
        (&json!("image"), &json!(true))
    );
    verimount(args!["status", mounted.directory()]).says("image, read by the kernel's EROFS");
    assert_eq!(told["pin"]["by"], "digest");
    assert_eq!(told["daemon"]["pid"], mounted.pid());
    assert!(told["bytes_verified"].as_u64() > Some(0));
    let listed = verimount(["list", "--json"]).json();
    let target = mounted.directory().to_str().unwrap();
    let listed = listed.as_array().unwrap();
    let entry = listed.iter().find(|entry| entry["target"] == target);
    assert_eq!(entry.unwrap()["pid"], mounted.pid());
    let again = verimount(args![
        "mount",
        "--unpinned",
        native.image(),
        mounted.directory()
    ]);
    again.fails_saying("already mounted");
    unless_busy(|| verimount(args!["umount", mounted.directory()])).succeeds_quietly();
    mounted.ends_well();
}

#[test]
fn a_signal_detaches_it_and_what_is_open_is_served() {
    let native = needs!(Native::new());
    let mounted = native.mount();
    let mut opened = File::open(mounted.path("deep/3000000")).unwrap();
    mounted.signal(Signal::TERM);
    eventually("it is out of sight", || is_empty(mounted.directory()));
    let mut content = Vec::new();
    opened.read_to_end(&mut content).unwrap();
    assert!(content == fs::read(native.world.path("tree/deep/3000000")).unwrap());
    drop(opened);
    mounted.ends_well();
}

/// It is known as dead, and another mount takes its place.
#[test]
fn a_daemon_that_was_killed_leaves_no_wrong_byte() {
    let native = needs!(Native::new());
    let mut mounted = native.mount();
    mounted.signal(Signal::KILL);
    mounted.wait();
    let read = fs::read(mounted.path("deep/3000000"));
    assert!(read.is_err());
    let listed = verimount(["list"]);
    listed.notes("it is dead, as its process has ended");
    let name = name_on(&native.directory());
    assert!(name.exists());
    let again = native.mount();
    let content = fs::read(again.path("deep/3000000")).unwrap();
    assert!(content == fs::read(native.world.path("tree/deep/3000000")).unwrap());
    assert!(!name.exists());
    again.unmount();
    assert!(is_empty(&native.directory()));
}

/// A served mount as well.
#[test]
fn by_force_it_is_ended_whatever_its_process_does() {
    let native = needs!(Native::new());
    let served = ["--allow-other", "--digest", &native.digest];
    for options in [&served[..], &[&["--native"], &served[..]].concat()] {
        let mut mounted = Daemon::mount(&native.image(), &native.directory(), options);
        let is_native = options.contains(&"--native");
        let name = is_native.then(|| name_on(mounted.directory()));
        mounted.signal(Signal::STOP);
        let mut cat = Command::new("cat");
        cat.arg(mounted.path("deep/3000000")).stdout(Stdio::null());
        let mut reader = cat.stderr(Stdio::null()).spawn().unwrap();
        let waits = || ['S', 'D'].iter().any(|state| is_in_state(&reader, *state));
        eventually("it waits", waits);
        verimount(args!["umount", "--force", mounted.directory()]).succeeds_quietly();
        assert!(!reader.wait().unwrap().success());
        assert_eq!(mounted.wait().signal(), Some(Signal::KILL.as_raw()));
        assert!(is_empty(mounted.directory()));
        assert!(name.is_none_or(|name| !name.exists()));
    }
}

#[test]
fn a_reader_that_is_killed_takes_nothing_from_others() {
    let native = needs!(Native::new());
    let mounted = native.mount();
    mounted.signal(Signal::STOP);
    let mut readers = [(); 4].map(|()| {
        let mut cmp = Command::new("cmp");
        cmp.arg(mounted.path("deep/3000000"));
        cmp.arg(native.world.path("tree/deep/3000000"));
        cmp.spawn().unwrap()
    });
    let waits = |reader: &Child| ['S', 'D'].iter().any(|state| is_in_state(reader, *state));
    eventually("all wait", || readers.iter().all(waits));
    readers[0].kill().unwrap();
    mounted.signal(Signal::CONT);
    let [killed, others @ ..] = &mut readers;
    assert!(!killed.wait().unwrap().success());
    assert!(
        others
            .iter_mut()
            .all(|reader| reader.wait().unwrap().success())
    );
    mounted.unmount();
}

#[test]
fn a_bad_block_is_told_with_the_path_of_its_file() {
    let native = needs!(Native::new());
    let content = fs::read(native.world.path("tree/deep/3000000")).unwrap();
    flip_where(&native.image(), &content[1 << 20..][..4096]);
    let mounted = native.mount();
    assert!(fs::read(mounted.path("deep/3000000")).is_err());
    let told = verimount(args!["status --json", mounted.directory()]);
    let told = told.reports_bad_data().json();
    assert_eq!(told["recent_failures"][0]["file"], "/deep/3000000");
    assert!(fs::read(mounted.path("deep/200000")).is_ok());
    mounted.unmount();
}

#[test]
fn a_container_has_it_as_its_root() {
    needs!(native_or_skip());
    let [busybox, unshare] = ["busybox", "unshare"].map(tools::find);
    let (busybox, unshare) = (needs!(busybox), needs!(unshare));
    let world = needs!(World::with_mount_point());
    let (tree, image) = (world.directory("tree"), world.path("image"));
    fs::copy(busybox, tree.join("busybox")).unwrap();
    fs::write(tree.join("file"), "content").unwrap();
    let digest = verimount(args!["build", &tree, &image]).digest();
    let options = ["--native", "--allow-other", "--digest", &digest];
    let mounted = Daemon::mount(&image, &world.path("mnt"), &options);
    let mut contained = Command::new(unshare);
    contained.args(["--mount", "--pid", "--fork", "--root"]);
    contained
        .arg(mounted.directory())
        .args(["/busybox", "cat", "/file"]);
    assert_eq!(finish(contained).succeeds().text(), "content");
    mounted.unmount();
}

/// By another user as well.
#[test]
fn others_see_what_they_see_of_a_served_mount() {
    let native = needs!(Native::new());
    let served = native.world.directory("served");
    let options = ["--allow-other", "--digest", &native.digest];
    let served = Daemon::mount(&native.image(), &served, &options);
    let mounted = native.mount();
    let seen = |mounted: &Daemon| {
        let script = "find . -printf '%p %m %u %g %s %y %l\\n' 2>&1; find . -type f -exec cksum {} + 2>&1; \
                      find . -exec getfattr -h -d -m - {} + 2>&1";
        let mut nobody = as_nobody(&tools::find("sh").unwrap());
        let ended = finish({
            nobody.args(["-c", script]).current_dir(mounted.directory());
            nobody
        });
        String::from_utf8_lossy(&ended.stdout).into_owned()
    };
    let (by_nobody, of_served) = (seen(&mounted), seen(&served));
    assert!(by_nobody.len() > 1000);
    for (native, served) in by_nobody.lines().zip(of_served.lines()) {
        assert_eq!(native, served);
    }
    assert_eq!(by_nobody.len(), of_served.len());
    served.unmount();
    mounted.unmount();
}

/// The name by which the mount on a directory is known.
fn name_on(directory: &Path) -> PathBuf {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let on = format!(" {} ", directory.to_str().unwrap());
    let line = table.lines().find(|line| line.contains(&on)).unwrap();
    let (_, rest) = line.split_once(" - erofs ").unwrap();
    rest.split(' ').next().unwrap().into()
}

/// Each block of the image in turn, of data, structures and Merkle tree.
#[test]
fn what_is_damaged_is_an_error_or_right() {
    let few = RichTree {
        files: 12,
        sizes: &[5000, 40_000],
    };
    for options in [&[][..], &["--compress", "lz4"], &["--compress", "zstd"]] {
        let native = needs!(Native::of(&few, options));
        let mounted = native.mount();
        let right = shown(mounted.directory()).unwrap();
        mounted.unmount();
        let len = fs::metadata(native.image()).unwrap().len();
        let mut refused = 0;
        for at in (7..len).step_by(4096) {
            flip_at(&native.image(), at);
            let options = ["--native", "--allow-other", "--digest", &native.digest];
            let command = User::Current.command();
            match Daemon::start(command, &native.image(), &native.directory(), &options) {
                Ok(mounted) => {
                    refused += unreadable(mounted.directory(), &right).unwrap();
                    mounted.unmount();
                }
                Err(_) => refused += 1,
            }
            flip_at(&native.image(), at);
        }
        assert!(refused as u64 > len / 4096 / 4, "{refused}");
        let mounted = native.mount();
        compare(&right, &shown(mounted.directory()).unwrap()).unwrap();
        mounted.unmount();
    }
}

#[test]
fn what_cannot_be_native_is_refused() {
    let native = needs!(Native::new());
    let (image, mnt) = (native.image(), native.directory());
    let mount = |options: &[&str]| {
        verimount(
            args!["mount", &image, &mnt, "--native", "--digest", &native.digest; options.iter()],
        )
    };
    // An ordinary user would see more than in a served mount.
    mount(&[]).is_wrong_usage();
    for other in [&["--uid", "1"][..], &["--umask", "022"], &["--as-file"]] {
        mount(&[&["--allow-other"], other].concat()).is_wrong_usage();
    }
    for unpinned in ["--unpinned", "--unverified"] {
        let options = [unpinned, "--native", "--allow-other"];
        verimount(args!["mount", &image, &mnt; options.iter()]).is_wrong_usage();
    }
    let (romfs, empty) = (native.world.path("romfs"), native.world.directory("empty"));
    let built = verimount(args!["build", "--format", "romfs", empty, &romfs]);
    let options = ["--native", "--allow-other", "--digest", &built.digest()];
    let refused = verimount(args!["mount", &romfs, &mnt; options.iter()]);
    refused.fails_saying("the kernel's EROFS");
    assert!(is_empty(&mnt));
}
