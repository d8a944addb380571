//! Operations on names and attributes have the same results as in a directory of the source's own file
//! system: the same steps are done in both, and compared.

use std::{os::unix::fs::FileTypeExt, time::UNIX_EPOCH};

use rustix::fs::{FileType, RenameFlags, linkat, lremovexattr, mkdirat, renameat_with, statx};

use super::{WAYS, mount_in};
use crate::prelude::*;

/// A step in a directory, and its visible result.
type Step = fn(&Path) -> io::Result<String>;

const STEPS: &[Step] = &[
    |at| seen(fs::write(at.join("file"), "content")),
    |at| seen(File::create_new(at.join("file"))),
    |at| seen(fs::create_dir(at.join("folder"))),
    |at| seen(fs::create_dir(at.join("folder"))),
    |at| seen(fs::create_dir(at.join("missing/folder"))),
    |at| seen(fs::create_dir(at.join("file/folder"))),
    |at| seen(fs::write(at.join("folder/inner"), "inner")),
    |at| seen(fs::remove_dir(at.join("folder"))),
    |at| seen(fs::remove_file(at.join("folder"))),
    |at| seen(fs::read_dir(at.join("file"))),
    |at| seen(fs::read(at.join("folder"))),
    |at| seen(symlink("file", at.join("link"))),
    |at| seen(symlink("/nowhere/at all", at.join("dangling"))),
    |at| seen(symlink("loop", at.join("loop"))),
    |at| seen(fs::read(at.join("loop"))),
    |at| seen(fs::read(at.join("dangling"))),
    |at| fs::read_to_string(at.join("link")),
    |at| Ok(format!("{:?}", fs::read_link(at.join("dangling"))?)),
    |at| seen(fs::read_link(at.join("file"))),
    |at| seen(fs::write(at.join("n".repeat(255)), "long")),
    |at| seen(fs::write(at.join("n".repeat(256)), "too long")),
    |at| seen(fs::hard_link(at.join("file"), at.join("hard"))),
    |at| seen(fs::hard_link(at.join("file"), at.join("hard"))),
    |at| seen(fs::hard_link(at.join("folder"), at.join("hard folder"))),
    |at| seen(fs::hard_link(at.join("link"), at.join("hard link"))),
    |at| Ok(fs::metadata(at.join("hard"))?.nlink().to_string()),
    |at| seen(fs::rename(at.join("file"), at.join("hard"))),
    |at| seen(fs::rename(at.join("hard"), at.join("folder/moved"))),
    |at| seen(fs::rename(at.join("folder"), at.join("folder/into itself"))),
    |at| seen(fs::rename(at.join("file"), at.join("folder"))),
    |at| seen(rename(at, "file", "link", RenameFlags::NOREPLACE)),
    |at| seen(rename(at, "file", "folder", RenameFlags::EXCHANGE)),
    |at| fs::read_to_string(at.join("file/inner")),
    |at| seen(rename(at, "folder", "file", RenameFlags::EXCHANGE)),
    |at| seen(rename(at, "file", "new", RenameFlags::EXCHANGE)),
    |at| seen(mode(at, "file", 0o4751)),
    |at| seen(mode(at, "folder", 0o3770)),
    |at| seen(mode(at, "file", 0o640)),
    |at| Ok(format!("{:o}", fs::metadata(at.join("file"))?.mode())),
    |at| Ok(format!("{:o}", fs::metadata(at.join("folder"))?.mode())),
    |at| set_times(at).and_then(|()| times(at)),
    |at| seen(make_node(at, "fifo", FileType::Fifo)),
    |at| seen(make_node(at, "fifo", FileType::Fifo)),
    |at| seen(make_node(at, "regular", FileType::RegularFile)),
    |at| seen(UnixListener::bind(at.join("socket"))),
    |at| {
        Ok(format!(
            "{:?}",
            fs::metadata(at.join("socket"))?.file_type().is_socket()
        ))
    },
    |at| seen(set_xattr(at, "user.one", b"1", XattrFlags::empty())),
    |at| seen(set_xattr(at, "user.one", b"2", XattrFlags::CREATE)),
    |at| seen(set_xattr(at, "user.two", b"2", XattrFlags::REPLACE)),
    |at| seen(set_xattr(at, "user.two", &[7; 3000], XattrFlags::empty())),
    |at| seen(set_xattr(at, "user.two", &[7; 70_000], XattrFlags::empty())),
    |at| seen(set_xattr(at, "unknown.kind", b"", XattrFlags::empty())),
    |at| xattr(at, "user.one"),
    |at| xattr(at, "user.two"),
    |at| xattr(at, "user.none"),
    |at| xattrs(at),
    |at| Ok(format!("{:?}", lremovexattr(at.join("file"), "user.one")?)),
    |at| Ok(format!("{:?}", lremovexattr(at.join("file"), "user.one")?)),
    |at| xattrs(at),
    |at| seen(OpenOptions::new().write(true).open(at.join("missing"))),
    |at| seen(OpenOptions::new().write(true).open(at.join("folder"))),
    |at| seen(File::open(at.join("folder"))?.sync_all()),
    |at| seen(fs::remove_file(at.join("missing"))),
    |at| seen(fs::remove_file(at.join("dangling"))),
    |at| seen(mkdirat(CWD, at.join("folder/deep/"), Mode::RWXU)),
    |at| Ok(fs::metadata(at.join("folder"))?.nlink().to_string()),
    |at| seen(fs::remove_dir(at.join("folder/deep"))),
];

/// The result of success.
fn seen<T, E: Into<io::Error>>(result: Result<T, E>) -> io::Result<String> {
    result.map(|_| "done".to_owned()).map_err(Into::into)
}

fn rename(at: &Path, from: &str, to: &str, flags: RenameFlags) -> rustix::io::Result<()> {
    renameat_with(CWD, at.join(from), CWD, at.join(to), flags)
}

fn mode(at: &Path, name: &str, mode: u32) -> io::Result<()> {
    fs::set_permissions(at.join(name), Permissions::from_mode(mode))
}

fn make_node(at: &Path, name: &str, kind: FileType) -> rustix::io::Result<()> {
    mknodat(CWD, at.join(name), kind, Mode::RUSR, 0)
}

fn set_times(at: &Path) -> io::Result<()> {
    let before = UNIX_EPOCH - Duration::new(3, 999);
    let after = UNIX_EPOCH + Duration::new(5_000_000_000, 123_456_789);
    let times = fs::FileTimes::new()
        .set_accessed(before)
        .set_modified(after);
    OpenOptions::new()
        .write(true)
        .open(at.join("file"))?
        .set_times(times)
}

fn times(at: &Path) -> io::Result<String> {
    let found = fs::metadata(at.join("file"))?;
    Ok(format!("{:?} {:?}", found.accessed(), found.modified()))
}

fn set_xattr(at: &Path, name: &str, value: &[u8], flags: XattrFlags) -> rustix::io::Result<()> {
    rustix::fs::lsetxattr(at.join("file"), name, value, flags)
}

fn xattr(at: &Path, name: &str) -> io::Result<String> {
    let mut value = vec![0; 4096];
    let len = rustix::fs::lgetxattr(at.join("file"), name, &mut value)?;
    Ok(format!("{:?}", &value[..len]))
}

fn xattrs(at: &Path) -> io::Result<String> {
    let mut names = vec![0; 4096];
    let len = rustix::fs::llistxattr(at.join("file"), &mut names)?;
    let mut names: Vec<_> = names[..len].split(|byte| *byte == 0).collect();
    names.sort_unstable();
    Ok(format!("{names:?}"))
}

/// Every name below a directory, with the attributes that do not depend on when and where it was created.
fn described(world: &World, directory: &str) -> Vec<String> {
    let root = world.path(directory);
    let mut found = Vec::new();
    let mut pending = vec![root.clone()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let known = fs::symlink_metadata(&path).unwrap();
            if known.is_dir() {
                pending.push(path.clone());
            }
            let name = path.strip_prefix(&root).unwrap().to_owned();
            let (mode, links, len) = (known.mode(), known.nlink(), known.len());
            found.push(format!("{name:?} {mode:o} {links} {len}"));
        }
    }
    found.sort_unstable();
    found
}

#[test]
fn operations_have_the_same_result_as_in_the_source() {
    for way in WAYS {
        let world = needs!(World::with_source());
        world.directory("other");
        let mounted = mount_in(&world, way);
        for (number, step) in STEPS.iter().enumerate() {
            let [native, mirrored] = ["other", "mnt"].map(|at| {
                let result = step(&world.path(at));
                result.map_err(|error| error.raw_os_error())
            });
            assert_eq!(mirrored, native, "step {number}");
        }
        let expected = described(&world, "other");
        assert!(expected.len() > 10);
        assert_eq!(described(&world, "mnt"), expected);
        mounted.unmount();
        assert_eq!(described(&world, "src"), expected);
    }
}

/// Attributes, hard links and the time of birth are the source's own.
#[test]
fn attributes_are_the_sources() {
    let world = needs!(World::with_source());
    let (src, mnt) = (world.path("src"), world.path("mnt"));
    fs::write(src.join("one"), "content").unwrap();
    fs::hard_link(src.join("one"), src.join("two")).unwrap();
    fs::create_dir(src.join("folder")).unwrap();
    let mounted = mount_in(&world, "auto");
    let wanted = rustix::fs::StatxFlags::BASIC_STATS | rustix::fs::StatxFlags::BTIME;
    for name in ["one", "two", "folder", "."] {
        let [known, seen] =
            [&src, &mnt].map(|at| statx(CWD, at.join(name), AtFlags::empty(), wanted).unwrap());
        assert_eq!(seen.stx_ino, known.stx_ino, "{name}");
        assert_eq!(seen.stx_nlink, known.stx_nlink, "{name}");
        assert_eq!(seen.stx_blocks, known.stx_blocks, "{name}");
        assert_eq!(seen.stx_mtime.tv_nsec, known.stx_mtime.tv_nsec, "{name}");
        assert_eq!(seen.stx_ctime.tv_nsec, known.stx_ctime.tv_nsec, "{name}");
        let born = |found: &rustix::fs::Statx| {
            let has_it = found.stx_mask & rustix::fs::StatxFlags::BTIME.bits();
            (has_it != 0).then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec))
        };
        assert_eq!(born(&seen), born(&known), "{name}");
    }
    mounted.unmount();
}

/// A file is the same by all its names, and after a move.
#[test]
fn open_files_follow_their_names() {
    for way in WAYS {
        let world = needs!(World::with_source());
        let (src, mnt) = (world.path("src"), world.path("mnt"));
        let mounted = mount_in(&world, way);
        fs::create_dir(mnt.join("from")).unwrap();
        fs::create_dir(mnt.join("to")).unwrap();
        fs::write(mnt.join("from/file"), "before").unwrap();
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .open(mnt.join("from/file"))
            .unwrap();
        fs::hard_link(mnt.join("from/file"), mnt.join("to/link")).unwrap();
        fs::rename(mnt.join("from"), mnt.join("to/from")).unwrap();
        fs::write(mnt.join("to/from/file"), "after").unwrap();
        assert_eq!(fs::read(mnt.join("to/link")).unwrap(), b"after");
        fs::remove_file(mnt.join("to/link")).unwrap();
        fs::remove_file(mnt.join("to/from/file")).unwrap();
        let mut content = [0; 5];
        std::os::unix::fs::FileExt::read_exact_at(&opened, &mut content, 0).unwrap();
        assert_eq!(&content, b"after");
        assert_eq!(opened.metadata().unwrap().nlink(), 0);
        // Changes to what has no name any more work, too.
        opened.set_len(2).unwrap();
        opened
            .set_permissions(Permissions::from_mode(0o600))
            .unwrap();
        assert_eq!(opened.metadata().unwrap().len(), 2);
        let back = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&opened));
        let link = linkat(CWD, &*back, CWD, mnt.join("again"), AtFlags::SYMLINK_FOLLOW);
        assert_eq!(link, Err(rustix::io::Errno::NOENT));
        drop(opened);
        assert_eq!(fs::read_dir(src.join("to/from")).unwrap().count(), 0);
        mounted.unmount();
    }
}

/// More names than fit into one answer, listed while others are created and removed.
#[test]
fn large_directories_are_listed_whole() {
    let world = needs!(World::with_source());
    let (src, mnt) = (world.path("src"), world.path("mnt"));
    for number in 0..5000 {
        fs::write(src.join(format!("file {number}")), "").unwrap();
    }
    let mounted = mount_in(&world, "auto");
    let mut listing = fs::read_dir(&mnt).unwrap();
    let mut seen: Vec<_> = listing.by_ref().take(10).collect();
    for number in 0..500 {
        fs::write(mnt.join(format!("new {number}")), "").unwrap();
        fs::remove_file(mnt.join(format!("new {number}"))).unwrap();
    }
    seen.extend(listing);
    let names = seen.into_iter().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names
        .filter(|name| !name.to_str().unwrap().starts_with("new"))
        .collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 5000);
    mounted.unmount();
}
