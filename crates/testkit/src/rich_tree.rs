use std::{
    ffi::OsStr,
    fs::{self, File, Permissions},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, PermissionsExt, lchown, symlink},
    },
    path::Path,
};

use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, lsetxattr, makedev,
        mknodat, utimensat,
    },
    process::geteuid,
};

use crate::noise;

/// A block of most file systems, in bytes.
const BLOCK: u64 = 4096;

/// A tree with all that Linux stores of files. What only root may store is in it if root makes it, and extended attributes
/// only where the file system has them.
#[derive(Debug, Clone, Copy)]
pub struct RichTree {
    /// The number of small files, which differ in everything.
    pub files: u64,
    /// The sizes of larger files, in bytes.
    pub sizes: &'static [usize],
}

impl RichTree {
    /// Makes it in an empty directory.
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn grow(&self, root: &Path) -> io::Result<()> {
        for folder in ["many", "deep/er/and/deeper", "empty"] {
            fs::create_dir_all(root.join(folder))?;
        }
        for number in 0..self.files {
            let long = "n".repeat(number as usize % 97);
            let file = root.join(format!("many/{number} {long}"));
            fs::write(&file, noise(number as usize % 61, number))?;
            decorate(&file, number)?;
        }
        for (number, size) in (self.files..).zip(self.sizes) {
            let file = root.join(format!("deep/{size}"));
            fs::write(&file, noise(*size, number))?;
            decorate(&file, number)?;
        }
        make_names(root)?;
        make_links(root)?;
        make_sparse_files(&root.join("deep/er"))?;
        make_special_files(root)?;
        decorate_directories(root)
    }
}

/// Gives a file a mode, an owner, extended attributes and a time.
fn decorate(file: &Path, number: u64) -> io::Result<()> {
    if geteuid().is_root() {
        let id = 1000 + number as u32 % 3 * 70_000;
        lchown(file, Some(id), Some(id + 1))?;
    }
    // Its owner may read it.
    let mode = 0o400 | (number as u32 * 37 % 0o10000);
    fs::set_permissions(file, Permissions::from_mode(mode))?;
    for (step, name, value) in [
        (3, "user.shared", noise(30, 1)),
        (5, "user.own", noise(number as usize % 90, number)),
        (7, "trusted.name", b"value".to_vec()),
        (11, "user.a.long.prefix.one", b"1".to_vec()),
        (11, "user.a.long.prefix.two", Vec::new()),
        (13, "user.long", noise(2000, number)),
        (17, "security.capability", capability()),
        (19, "system.posix_acl_access", access_list()),
    ] {
        if number.is_multiple_of(step) {
            set_xattr(file, name, &value);
        }
    }
    let seconds = match number % 10 {
        0..8 => 1_700_000_000 + number as i64,
        8 => -1_000_000_000 - number as i64,
        _ => 5_000_000_000 + number as i64,
    };
    set_time(file, seconds, number as i64 * 1_234_567 % 1_000_000_000)
}

/// Not every file system has attributes, and not every user may set each.
fn set_xattr(file: &Path, name: &str, value: &[u8]) {
    let _ = lsetxattr(file, name, value, XattrFlags::empty());
}

/// `cap_net_raw=ep`, as the kernel stores it.
fn capability() -> Vec<u8> {
    [0x0200_0001_u32, 1 << 13, 0, 0, 0]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect()
}

/// An access control list that names a user and a group.
fn access_list() -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let entries = [
        (0x01_u16, 6_u16, NOBODY),
        (0x02, 5, 70_000),
        (0x04, 4, NOBODY),
        (0x08, 6, 71_000),
        (0x10, 7, NOBODY),
        (0x20, 0, NOBODY),
    ];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

/// Sets the times of a file, or of a symbolic link itself: seconds since 1970, and nanoseconds.
///
/// # Errors
/// The system's.
pub fn set_time(file: &Path, seconds: i64, nanoseconds: i64) -> io::Result<()> {
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    Ok(utimensat(CWD, file, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn make_names(root: &Path) -> io::Result<()> {
    // `mkfs.erofs` 1.5 stores no name of 255 bytes.
    let long = [b'n'; 254];
    for name in [&long[..], b"any \x80\xff\n\t\\ bytes", b"...", b" "] {
        fs::write(root.join("deep/er").join(OsStr::from_bytes(name)), name)?;
    }
    Ok(())
}

fn make_links(root: &Path) -> io::Result<()> {
    fs::hard_link(root.join("many/0 "), root.join("deep/er/and/linked"))?;
    fs::hard_link(root.join("many/0 "), root.join("linked"))?;
    let targets = ["x", "deep/er/sparse", &"t".repeat(60), &"t".repeat(4095)];
    for (number, target) in (0..).zip(targets) {
        let link = root.join(format!("link {number}"));
        symlink(target, &link)?;
        set_time(&link, 1_600_000_000 + number, 5)?;
    }
    Ok(())
}

fn make_sparse_files(folder: &Path) -> io::Result<()> {
    for (name, len, data) in [
        ("hole", 100 * BLOCK + 17, &[][..]),
        ("data first", 50 * BLOCK, &[0]),
        ("data last", 50 * BLOCK, &[49 * BLOCK]),
        (
            "sparse",
            256 * BLOCK + 100,
            &[7 * BLOCK, 8 * BLOCK, 100 * BLOCK],
        ),
    ] {
        let file = File::create(folder.join(name))?;
        file.set_len(len)?;
        for start in data {
            file.write_all_at(&noise(BLOCK as usize, *start + len), *start)?;
        }
        set_time(&folder.join(name), 1_650_000_000, 0)?;
    }
    Ok(())
}

fn make_special_files(root: &Path) -> io::Result<()> {
    let make = |name: &str, kind, device| {
        let file = root.join(name);
        mknodat(CWD, &file, kind, Mode::from(0o640), device)?;
        set_time(&file, 1_660_000_000, 7)
    };
    make("fifo", FileType::Fifo, 0)?;
    make("socket", FileType::Socket, 0)?;
    if geteuid().is_root() {
        make("disk", FileType::BlockDevice, makedev(259, 70_000))?;
        make("terminal", FileType::CharacterDevice, makedev(4, 64))?;
    }
    Ok(())
}

/// After what is in them, which changes their times.
fn decorate_directories(root: &Path) -> io::Result<()> {
    set_xattr(
        &root.join("deep"),
        "system.posix_acl_default",
        &access_list(),
    );
    set_xattr(&root.join("many"), "trusted.overlay.opaque", b"y");
    for (folder, mode) in [
        ("deep/er/and/deeper", 0o1777),
        ("deep/er/and", 0o755),
        ("deep/er", 0o2750),
        ("deep", 0o755),
        ("empty", 0o700),
        ("many", 0o755),
        ("", 0o755),
    ] {
        let folder = root.join(folder);
        fs::set_permissions(&folder, Permissions::from_mode(mode))?;
        set_time(&folder, 1_670_000_000, 1)?;
    }
    Ok(())
}
