//! Appending writes go to the current end; all other writes go to their offsets.

use rustix::fs::{fcntl_getfl, fcntl_setfl};

use super::{WAYS, for_all, mount, mount_in};
use crate::prelude::*;

/// Other processes append in the source at the same time.
#[test]
fn appended_bytes_overwrite_nothing() {
    for way in WAYS {
        let world = needs!(World::with_source());
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
        let world = needs!(World::with_source());
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
    let world = needs!(World::with_source());
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
        let world = needs!(World::with_source());
        let mut content = vec![b'-'; 10_000];
        fs::write(world.path("src/file"), &content).unwrap();
        let mounted = mount_in(&world, way);
        let changed = needs!(python(CHANGE_MAPPED, &[&mounted.path("file")]));
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
        skip(&ended.stderr);
    }
    ended.status.success()
}

/// Tries what could overwrite a file that is given: prints `refused`, or what was not.
const OVERWRITE: &str = r#"
import fcntl, mmap, os, sys
def mapped(flags, protection):
    file = os.open(sys.argv[1], flags)
    try:
        pages = mmap.mmap(file, 0, mmap.MAP_SHARED, protection)
        pages[0:4] = b'EVIL'
        pages.flush()
        print('mapped')
    except OSError:
        pass
mapped(os.O_RDWR | os.O_APPEND, mmap.PROT_READ | mmap.PROT_WRITE)
file = os.open(sys.argv[1], os.O_RDWR | os.O_APPEND)
try:
    fcntl.fcntl(file, fcntl.F_SETFL, 0)
    os.pwrite(file, b'EVIL', 0)
except OSError:
    pass
for flags in os.O_RDWR, os.O_RDWR | os.O_APPEND | os.O_TRUNC:
    try:
        os.open(sys.argv[1], flags)
        print('opened')
    except OSError:
        pass
try:
    os.truncate(sys.argv[1], 0)
    print('truncated')
except OSError:
    pass
print(os.pread(file, 5, 0).decode())
"#;

/// A file that can only be appended to (`chattr +a`) is overwritten by nobody.
#[test]
fn an_append_only_file_is_appended_to_and_not_overwritten() {
    needs!(root_or_skip());
    for way in WAYS {
        let world = needs!(World::with_source());
        let file = world.path("src/log");
        fs::write(&file, "first ").unwrap();
        if !chattr("+a", &file) {
            return;
        }
        let mounted = mount(&world, for_all(way));
        let mirrored = mounted.path("log");
        let append = || OpenOptions::new().append(true).open(&mirrored).unwrap();
        let mut log = append();
        log.write_all(b"second ").unwrap();
        let tried = python(OVERWRITE, &[&mirrored]);
        let flags = fcntl_getfl(&log).unwrap();
        fcntl_setfl(&log, flags.difference(OFlags::APPEND)).unwrap();
        log.write_all(b"third ").unwrap();
        let content = fs::read_to_string(&mirrored).unwrap();
        drop(log);
        drop(append());
        mounted.unmount();
        assert!(chattr("-a", &file));
        if let Some(tried) = tried {
            assert_eq!(tried.text(), "first\n");
        }
        assert!(content.starts_with("first second "), "{content}");
        assert!(content.ends_with("third "), "{content}");
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
    }
}

/// Root's writes clear set-ID bits as everybody's do, which nothing can in a file that is append-only.
#[test]
fn root_appends_to_set_id_files_as_others_do() {
    needs!(root_or_skip());
    for way in WAYS {
        let world = needs!(World::with_source());
        let file = world.path("src/log");
        fs::write(&file, "first").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o2775)).unwrap();
        if !chattr("+a", &file) {
            return;
        }
        let mounted = mount(&world, for_all(way));
        let mut log = OpenOptions::new()
            .append(true)
            .open(mounted.path("log"))
            .unwrap();
        let refused = log.write_all(b"second");
        drop(log);
        mounted.unmount();
        assert!(chattr("-a", &file));
        assert_eq!(error_of(refused), Errno::PERM, "{way}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "first");
    }
}

/// A file that is open can be mapped. So it is not opened for writing once it is append-only.
#[test]
fn a_file_that_becomes_append_only_is_opened_again_first() {
    needs!(root_or_skip());
    for way in WAYS {
        let world = needs!(World::with_source());
        let file = world.path("src/log");
        fs::write(&file, "first ").unwrap();
        let mounted = mount(&world, for_all(way));
        let mirrored = mounted.path("log");
        let append = || OpenOptions::new().append(true).open(&mirrored);
        let (reader, mut writer) = (File::open(&mirrored).unwrap(), append().unwrap());
        if !chattr("+a", &file) {
            return;
        }
        writer.write_all(b"second ").unwrap();
        let refused = append().map(drop);
        let read = fs::read_to_string(&mirrored);
        drop((reader, writer));
        // Descriptors are released a moment after they are closed.
        eventually("it can be opened", || append().is_ok());
        mounted.unmount();
        assert!(chattr("-a", &file));
        assert_eq!(error_of(refused), Errno::BUSY);
        assert_eq!(read.unwrap(), "first second ");
    }
}
