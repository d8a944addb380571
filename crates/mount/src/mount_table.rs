use std::{
    ffi::OsString,
    fs, io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Path, PathBuf, absolute},
};

use rustix::{
    fs::{Mode, OFlags, open, statfs},
    io::Errno,
    process::geteuid,
};

use crate::{ending::mount_of, mount::SUBTYPE, native, native_name};

const TABLE: &str = "/proc/self/mountinfo";

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, Clone)]
pub struct MountEntry {
    /// The kernel's number of the mount.
    pub(crate) id: u64,
    /// Device number, as `MAJOR:MINOR`.
    pub(crate) device: String,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    pub(crate) fs_type: String,
    /// The source, as given by the program that mounted it.
    pub source: String,
    /// For FUSE: the user who mounted it.
    pub user: Option<u32>,
}

impl MountEntry {
    /// Whether this is a mount of Verimount.
    pub(crate) fn is_ours(&self) -> bool {
        self.fs_type.strip_prefix("fuse.") == Some(SUBTYPE) || self.is_native()
    }

    /// Whether the kernel reads its file system itself.
    pub fn is_native(&self) -> bool {
        self.fs_type == native::TYPE && native_name::is_name(&self.source)
    }

    /// Whether its process has ended without unmounting it. `statfs` is used because the kernel never caches its answer,
    /// unlike attributes.
    pub fn is_dead(&self) -> bool {
        if self.is_native() {
            return native_name::is_dead(&self.source);
        }
        statfs(&self.mount_point).is_err_and(|error| error == Errno::NOTCONN)
    }

    /// Its root directory, without asking it for anything; `None` if it is no longer what its mount point leads to.
    pub(crate) fn root(&self) -> io::Result<Option<OwnedFd>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = open(&self.mount_point, flags, Mode::empty())?;
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", root.as_raw_fd()))?;
        Ok((mount_of(&info) == Some(self.id)).then_some(root))
    }

    /// Whether what it says of itself is believed: root or this user has mounted it. Any other user's could say
    /// anything, and could let those who ask wait for ever.
    pub fn is_believed(&self) -> bool {
        let believed = [0, geteuid().as_raw()];
        self.is_native() || self.user.is_some_and(|user| believed.contains(&user))
    }
}

/// A path that leads to a file, whatever its own leads to by now.
pub(crate) fn path_of(file: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// The mounts of Verimount that are visible to this process, in the order in which they were mounted.
///
/// # Errors
/// The system's error if the mount table cannot be read.
pub fn mounts() -> io::Result<Vec<MountEntry>> {
    let table = fs::read(TABLE)?;
    let entries = table.split(|&byte| byte == b'\n').filter_map(parse);
    Ok(entries.filter(MountEntry::is_ours).collect())
}

/// The mount of Verimount on `directory`, if there is one.
///
/// # Errors
/// The system's error if the directory cannot be resolved.
pub fn our_mount_on(directory: &Path) -> io::Result<Option<MountEntry>> {
    Ok(topmost_on(directory)?.filter(MountEntry::is_ours))
}

/// The topmost mount on `directory`, if anything is mounted there. It is not asked for anything, as it may not answer.
///
/// # Errors
/// The system's error if the directory cannot be resolved.
pub(crate) fn topmost_on(directory: &Path) -> io::Result<Option<MountEntry>> {
    let absolute = absolute(directory)?;
    if let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name())
        && let Some(found) = mounted_on(&parent.canonicalize()?.join(name))
    {
        return Ok(Some(found));
    }
    // It may be a symbolic link.
    Ok(mounted_on(&directory.canonicalize()?))
}

/// The topmost mount on `mount_point`: the one mounted last.
pub(crate) fn mounted_on(mount_point: &Path) -> Option<MountEntry> {
    // Mount points are bytes, not necessarily UTF-8.
    let table = fs::read(TABLE).ok()?;
    table
        .split(|&byte| byte == b'\n')
        .rev()
        .filter_map(parse)
        .find(|entry| entry.mount_point == mount_point)
}

/// Fields are separated by spaces. Field 0 is the mount's number, field 2 is the device, field 4 the mount point. After a lone dash
/// follow the file system type, the source and the options of the file system.
fn parse(line: &[u8]) -> Option<MountEntry> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let dash = fields.iter().position(|&field| field == b"-")?;
    let text = |field: &[u8]| Some(str::from_utf8(field).ok()?.to_owned());
    let source = unescape(fields.get(dash + 2).copied().unwrap_or_default());
    let options = fields.get(dash + 3).copied().unwrap_or_default();
    Some(MountEntry {
        id: text(fields.first()?)?.parse().ok()?,
        device: text(fields.get(2)?)?,
        mount_point: OsString::from_vec(unescape(fields.get(4)?)).into(),
        fs_type: text(fields.get(dash + 1)?)?,
        source: String::from_utf8_lossy(&source).into_owned(),
        user: user_id(options),
    })
}

/// The user id in the options of a FUSE file system.
fn user_id(options: &[u8]) -> Option<u32> {
    let options = str::from_utf8(options).ok()?;
    let user = options
        .split(',')
        .find_map(|option| option.strip_prefix("user_id="));
    user?.parse().ok()
}

/// The kernel writes space, tab, newline and backslash as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .filter(|_| first == b'\\')
            .and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        (rest, _) = match octal {
            Some(byte) => (&tail[3..], bytes.push(byte)),
            None => (tail, bytes.push(first)),
        };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_mount_table() {
        let line = br"36 35 0:45 / /mnt/a\040b\134 rw,noatime shared:1 - fuse.verimount /x\040y ro,user_id=7,group_id=8";
        let entry = parse(line).unwrap();
        assert_eq!((entry.id, entry.device.as_str()), (36, "0:45"));
        assert_eq!(entry.mount_point, Path::new("/mnt/a b\\"));
        assert_eq!(entry.fs_type, "fuse.verimount");
        assert!(entry.is_ours());
        assert!(!entry.is_believed());
        let by = |user: u32| {
            parse(format!("36 35 0:45 / /m ro - fuse.x y ro,user_id={user}").as_bytes())
        };
        for believed in [0, geteuid().as_raw()] {
            assert!(by(believed).unwrap().is_believed());
        }
        assert_eq!((entry.source.as_str(), entry.user), ("/x y", Some(7)));
        assert!(parse(b"").is_none());
        assert!(parse(b"1 2 3").is_none());
    }

    #[test]
    fn native_mounts_are_known_by_type_and_source() {
        let is_ours = |kind: &str, source: &str| {
            let line = format!("36 35 0:45 / /m ro - {kind} {source} ro");
            let entry = parse(line.as_bytes()).unwrap();
            assert_eq!(entry.is_ours(), entry.is_believed());
            entry.is_ours()
        };
        assert!(is_ours("erofs", "/run/verimount/native/7-a.img"));
        for source in [
            "/a.img",
            "/run/verimount/native",
            "/run/verimount/native/7/a",
        ] {
            assert!(!is_ours("erofs", source), "{source}");
        }
        assert!(!is_ours("ext4", "/run/verimount/native/7-a.img"));
    }
}
