//! Appending writes go to the current end; all other writes go to their offsets.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::FileExt,
    process::Command,
};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::{WAYS, mount_in, python, world};
use crate::common::{run::finish, user::root_or_skip};

/// Other processes append in the source at the same time.
#[test]
fn appended_bytes_overwrite_nothing() {
    for way in WAYS {
        let Some(world) = world() else { return };
        let file = world.path("src/file");
        fs::write(&file, "start ").unwrap();
        let mounted = mount_in(&world, way);
        let append = |path| OpenOptions::new().append(true).open(path).unwrap();
        let (mut mirrored, mut native) = (append(mounted.path("file")), append(file.clone()));
        for _ in 0..3 {
            mirrored.write_all(b"mirrored ").unwrap();
            native.write_all(b"native ").unwrap();
        }
        drop(mirrored);
        let content = fs::read_to_string(&file).unwrap();
        assert_eq!(content, format!("start {}", "mirrored native ".repeat(3)));
        mounted.unmount();
    }
}

#[test]
fn many_append_at_once() {
    for way in WAYS {
        let Some(world) = world() else { return };
        let mounted = mount_in(&world, way);
        let path = mounted.path("log");
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    let mut log = OpenOptions::new();
                    let mut log = log.create(true).append(true).open(path).unwrap();
                    for line in 0..100 {
                        log.write_all(format!("{writer}:{line}\n").as_bytes())
                            .unwrap();
                    }
                });
            }
        });
        let mut lines: Vec<_> = fs::read_to_string(&path)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), 800);
        mounted.unmount();
    }
}

/// `O_APPEND` is set and cleared while the file is open. If the file is passed through, the kernel ignores
/// both.
#[test]
fn appending_can_be_switched() {
    let Some(world) = world() else { return };
    fs::write(world.path("src/file"), "content").unwrap();
    let mounted = mount_in(&world, "never");
    let mut options = OpenOptions::new();
    let mut file = options.append(true).open(mounted.path("file")).unwrap();
    let flags = fcntl_getfl(&file).unwrap();
    fcntl_setfl(&file, flags.difference(OFlags::APPEND)).unwrap();
    file.write_all_at(b"C", 0).unwrap();
    fcntl_setfl(&file, flags).unwrap();
    file.write_all(b"s").unwrap();
    drop(file);
    assert_eq!(fs::read(world.path("src/file")).unwrap(), b"Contents");
    mounted.unmount();
}

/// Changes a page of a file that was opened for appending.
const CHANGE_MAPPED: &str = "
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_APPEND)
with mmap.mmap(fd, 10000) as pages:
    pages[5000:5003] = b'new'
os.write(fd, b'end')
os.close(fd)
";

#[test]
fn mapped_pages_are_written_where_they_belong() {
    for way in WAYS {
        let Some(world) = world() else { return };
        let mut content = vec![b'-'; 10_000];
        fs::write(world.path("src/file"), &content).unwrap();
        let mounted = mount_in(&world, way);
        let Some(changed) = python(CHANGE_MAPPED, &[&mounted.path("file")]) else {
            return;
        };
        changed.succeeds();
        content[5000..5003].copy_from_slice(b"new");
        content.extend(b"end");
        assert!(fs::read(mounted.path("file")).unwrap() == content);
        mounted.unmount();
        assert!(fs::read(world.path("src/file")).unwrap() == content);
    }
}

/// Sets or clears an attribute of a file; `false`, after a note, if that is not supported.
fn chattr(change: &str, path: &std::path::Path) -> bool {
    let mut chattr = Command::new("chattr");
    chattr.arg(change).arg(path);
    let ended = finish(chattr);
    if !ended.status.success() {
        eprintln!("skipped: {}", ended.stderr);
    }
    ended.status.success()
}

/// A file that can only be appended to (`chattr +a`).
#[test]
fn a_file_for_appending_only() {
    if !root_or_skip() {
        return;
    }
    for way in WAYS {
        let Some(world) = world() else { return };
        let file = world.path("src/file");
        fs::write(&file, "content").unwrap();
        if !chattr("+a", &file) {
            return;
        }
        let mounted = mount_in(&world, way);
        let mut options = OpenOptions::new();
        let written = options.write(true).open(mounted.path("file"));
        let appended = OpenOptions::new().append(true).open(mounted.path("file"));
        let appended = appended.and_then(|mut file| file.write_all(b"s"));
        assert!(chattr("-a", &file));
        assert!(written.is_err());
        appended.unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"contents");
        mounted.unmount();
    }
}
