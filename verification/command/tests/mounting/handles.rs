//! File handles: by them overlays, the kernel's NFS server and programs find files again ([overlays](crate::overlays)).

use rustix::mount::mount_remount;
use verimount_sys::FileHandle;

use crate::{common::daemon::status, prelude::*};

/// A file of a mount, and its handle.
struct Handled {
    path: PathBuf,
    handle: FileHandle,
}

/// Whether the kernel gives handles of the files of an image, which it then also finds again.
fn has_handles_or_skip(mnt: &Path) -> bool {
    let handle = FileHandle::of(File::open(mnt).unwrap());
    if let Err(error) = &handle {
        assert_eq!(error.raw_os_error(), Some(Errno::OPNOTSUPP.raw_os_error()));
        skip(
            "this kernel does not find files of FUSE again by handles (before Linux 6.16 it does)",
        );
    }
    handle.is_ok()
}

fn handled(mnt: &Path) -> Vec<Handled> {
    let paths = [".", "f1", "d", "d/l", "d/deep", "d/deep/f2", "link"];
    let taken = paths.map(|path| {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let file = rustix::fs::open(mnt.join(path), flags, Mode::empty()).unwrap();
        Handled {
            path: path.into(),
            handle: FileHandle::of(file).unwrap(),
        }
    });
    taken.into()
}

impl Handled {
    /// Opens it, and checks that this is the file of its path.
    #[track_caller]
    fn opens(&self, mnt: &Path) {
        let found = self.open(mnt).unwrap_or_else(|errno| {
            panic!("{:?}: {errno}", self.path);
        });
        let found = rustix::fs::fstat(&found).unwrap();
        let named = rustix::fs::lstat(mnt.join(&self.path)).unwrap();
        assert_eq!(found.st_ino, named.st_ino, "{:?}", self.path);
        assert_eq!(found.st_mode, named.st_mode, "{:?}", self.path);
    }

    fn open(&self, mnt: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let opened = self
            .handle
            .open(File::open(mnt).unwrap(), flags.bits().cast_signed());
        opened.map_err(|error| Errno::from_io_error(&error).unwrap())
    }
}

/// Has the kernel forget all files of a mount that nobody uses, as each change of a mount's options does.
fn forget(mnt: &Path) {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount_remount(mnt, flags, c"").unwrap();
}

/// A tree with hard links, a symbolic link, and directories in one another.
fn tree(world: &World, name: &str) -> PathBuf {
    let tree = world.directory(name);
    fs::create_dir_all(tree.join("d/deep")).unwrap();
    fs::write(tree.join("f1"), "one\n").unwrap();
    fs::write(tree.join("d/deep/f2"), "two\n").unwrap();
    fs::hard_link(tree.join("f1"), tree.join("d/l")).unwrap();
    symlink("f1", tree.join("link")).unwrap();
    tree
}

#[test]
fn an_image_finds_its_files_again() {
    needs!(root_or_skip());
    let world = needs!(World::with_mount_point());
    let (source, mnt) = (tree(&world, "tree"), world.path("mnt"));
    let [image, other, place] = ["first", "second", "place"].map(|name| world.path(name));
    for (build, trust) in [
        ("--format=erofs", "--unpinned"),
        ("--format=romfs", "--unpinned"),
        ("--no-seal", "--unverified"),
    ] {
        let _ = fs::remove_file(source.join("new"));
        verimount(args!["build --force", build, &source, &image]).succeeds();
        fs::write(source.join("new"), "").unwrap();
        verimount(args!["build --force", build, &source, &other]).succeeds();
        let mount = |image: &Path| {
            fs::copy(image, &place).unwrap();
            Daemon::mount(&place, &mnt, &[trust])
        };
        let mounted = mount(&image);
        if !has_handles_or_skip(&mnt) {
            return;
        }
        let files = handled(&mnt);
        forget(&mnt);
        let before = status(&mnt)["requests"]["lookup"].as_u64().unwrap();
        for file in &files {
            file.open(&mnt).unwrap();
        }
        let after = status(&mnt)["requests"]["lookup"].as_u64().unwrap();
        assert!(after >= before + 5, "it was not asked by number");
        files.iter().for_each(|file| file.opens(&mnt));
        mounted.unmount();
        let mounted = mount(&image);
        files.iter().for_each(|file| file.opens(&mnt));
        mounted.unmount();
        let mounted = mount(&other);
        for file in files.iter().skip(1) {
            assert_eq!(
                file.open(&mnt).unwrap_err(),
                Errno::STALE,
                "{:?}",
                file.path
            );
        }
        mounted.unmount();
    }
}
