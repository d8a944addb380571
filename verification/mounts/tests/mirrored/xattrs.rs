//! A mount without extended attributes.

use std::{fs::FileTimes, os::unix::fs::fchown, process, time::SystemTime};

use rustix::fs::{getxattr, listxattr, minor, removexattr};

use super::{Mirrored, Shown, WAYS, for_all, mount, status};
use crate::prelude::*;

/// The folder of the kernel's traces, and the event of a FUSE request (Linux 6.11).
const TRACES: &str = "/sys/kernel/tracing/instances";
const SENT: &str = "events/fuse/fuse_request_send";

fn no_xattr(no_xattr: bool) -> Shown<'static> {
    Shown {
        no_xattr,
        ..Shown::default()
    }
}

#[test]
fn the_mount_has_no_extended_attributes() {
    let world = needs!(World::with_source());
    let source = world.write("src/file", "content");
    let is_there = setxattr(&source, "user.one", b"1", XattrFlags::empty()).is_ok();
    let mounted = mount(&world, no_xattr(true));
    let file = mounted.path("file");
    // Again and again: the kernel asks once.
    for _ in 0..2 {
        let set = setxattr(&file, "user.two", b"2", XattrFlags::empty());
        assert_eq!(set, Err(Errno::OPNOTSUPP));
        let value = getxattr(&file, "user.one", &mut [0; 10]);
        assert_eq!(value, Err(Errno::OPNOTSUPP));
        assert_eq!(listxattr(&file, &mut [0; 100]), Err(Errno::OPNOTSUPP));
        assert_eq!(removexattr(&file, "user.one"), Err(Errno::OPNOTSUPP));
    }
    fs::write(&file, "changed").unwrap();
    assert_eq!(fs::read(&source).unwrap(), b"changed");
    let opens = &status(mounted.directory())["opens"];
    let count = |way: &str| opens[way].as_u64().unwrap();
    assert_eq!(count("passthrough") + count("relay"), 1);
    mounted.unmount();
    if is_there {
        assert_eq!(getxattr(&source, "user.one", &mut [0; 10]), Ok(1));
    }
}

/// As in the source, where the write clears them.
#[test]
fn a_write_of_others_clears_capabilities() {
    const USER: u32 = 4321;
    /// `cap_net_raw=ep`, in version 2.
    const RAW: [u8; 20] = [
        1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    needs!(root_or_skip());
    for way in WAYS {
        let world = needs!(World::with_source());
        let mounted = mount(&world, for_all(way));
        for script in [
            "echo more >> file",
            "echo other > file",
            "truncate -s 0 file",
        ] {
            let file = world.write("src/file", "content\n");
            fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
            setxattr(&file, "security.capability", &RAW, XattrFlags::empty()).unwrap();
            shell_as(USER, USER, &[], mounted.directory(), script).succeeds();
            let left = getxattr(&file, "security.capability", &mut [0; 20]);
            assert_eq!(left, Err(Errno::NODATA), "{script}");
        }
        mounted.unmount();
    }
}

#[test]
fn a_new_file_takes_two_requests_less() {
    needs!(root_or_skip());
    for (without, expected) in [(false, 7), (true, 5)] {
        let world = needs!(World::with_source());
        let mounted = mount(&world, no_xattr(without));
        unpack(&mounted.path("first")).unwrap();
        let trace = needs!(Trace::new(&mounted));
        unpack(&mounted.path("second")).unwrap();
        let requests = trace.awaited();
        assert_eq!(requests.len(), expected, "{requests:?}");
        drop(trace);
        mounted.unmount();
    }
}

/// Creates a file as `tar` does.
fn unpack(path: &Path) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(b"content")?;
    file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH))?;
    fchown(&file, Some(0), Some(0))?;
    file.set_permissions(Permissions::from_mode(0o644))
}

/// A trace of the requests of one mount. It ends when this is dropped.
struct Trace(PathBuf);

impl Trace {
    /// `None`, after a note, if tracing is impossible.
    fn new(mounted: &Mirrored) -> Option<Self> {
        let folder = Path::new(TRACES).join(format!("verimount-test-{}", process::id()));
        if let Err(error) = fs::create_dir(&folder) {
            skip(format_args!("the kernel traces nothing here: {error}"));
            return None;
        }
        let trace = Self(folder);
        if !trace.0.join(SENT).exists() {
            skip("this kernel does not trace FUSE");
            return None;
        }
        // The kernel knows the connection by the mount's device number, which has no major part.
        let connection = minor(fs::metadata(mounted.directory()).unwrap().dev());
        trace.set("filter", &format!("connection == {connection}"));
        trace.set("enable", "1");
        Some(trace)
    }

    fn set(&self, file: &str, text: &str) {
        fs::write(self.0.join(SENT).join(file), text).unwrap();
    }

    /// The requests so far for which a program waited.
    fn awaited(&self) -> Vec<String> {
        let text = fs::read_to_string(self.0.join("trace")).unwrap();
        let requests = text.lines().filter_map(|line| line.split_once(" opcode "));
        let requests = requests.map(|(_, opcode)| opcode.to_owned());
        requests
            .filter(|opcode| !opcode.contains("RELEASE"))
            .collect()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
