//! Random trees on disk.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, Permissions},
    os::unix::{
        ffi::OsStringExt,
        fs::{FileExt, PermissionsExt, lchown, symlink},
    },
    path::{Path, PathBuf},
};

use arbtest::arbitrary::{Result, Unstructured};
use rustix::{
    fs::{CWD, FileType, Mode, XattrFlags, lsetxattr, makedev, mknodat},
    process::geteuid,
};
use verimount_testkit::{noise, odd_name, set_time, several, weighted};

/// As many random bytes as a large tree takes.
pub(crate) const TREE_BYTES: u32 = 1 << 13;

/// What is at a path.
#[derive(Clone)]
pub(crate) struct Node {
    what: What,
    mode: u32,
    owner: (u32, u32),
    /// Seconds and nanoseconds.
    time: (i64, i64),
    xattrs: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone)]
enum What {
    Directory,
    /// Bytes of noise from this seed, and a hole of this length in front of them.
    File {
        hole: u64,
        len: usize,
        seed: u64,
    },
    Symlink(usize),
    Fifo,
    Socket,
    Device(u32, u32),
    /// Another name of one of the files before.
    HardLink(usize),
}

/// Entries to make, as far as their paths are free.
pub(crate) type Wishes = Vec<(PathBuf, Node)>;

/// A tree of up to about 60 entries of all kinds.
pub(crate) fn wishes(u: &mut Unstructured<'_>) -> Result<Wishes> {
    several(u, 0..=39, |u| Ok((path(u)?, node(u)?)))
}

fn path(u: &mut Unstructured<'_>) -> Result<PathBuf> {
    let names = several(u, 1..=4, name)?;
    Ok(names.into_iter().map(OsString::from_vec).collect())
}

/// Mostly names that repeat; some that are long or unusual.
fn name(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    const COMMON: [&str; 8] = ["a", "b", "A", "a.b", ".-", "...", "!", "sixteen-bytes-ok"];
    if u.ratio(6, 7)? {
        Ok(u.choose(&COMMON)?.as_bytes().to_vec())
    } else {
        odd_name(u, 255)
    }
}

fn node(u: &mut Unstructured<'_>) -> Result<Node> {
    let what = what(u)?;
    // So that an ordinary user can read it, too.
    let mode = u.int_in_range(0..=0o7777)? | 0o500;
    let owner = if u.arbitrary()? {
        (0, 0)
    } else {
        (u.int_in_range(0..=199_999)?, u.int_in_range(0..=199_999)?)
    };
    let time = if u.arbitrary()? {
        (1_700_000_000, 0)
    } else {
        let seconds = u.int_in_range(-2_000_000_000..=7_999_999_999)?;
        (seconds, u.int_in_range(0..=999_999_999)?)
    };
    let xattrs = if u.ratio(3, 4)? {
        BTreeMap::new()
    } else {
        several(u, 0..=3, xattr)?.into_iter().collect()
    };
    Ok(Node {
        what,
        mode,
        owner,
        time,
        xattrs,
    })
}

fn xattr(u: &mut Unstructured<'_>) -> Result<(String, Vec<u8>)> {
    let name = *u.choose(&["user.a", "user.bb", "trusted.a", "security.x"])?;
    let value = match u.int_in_range(0..=2)? {
        0 => b"the same".to_vec(),
        1 => noise(u.int_in_range(0..=19)?, u.arbitrary()?),
        _ => noise(u.int_in_range(0..=2999)?, u.arbitrary()?),
    };
    Ok((name.to_owned(), value))
}

fn what(u: &mut Unstructured<'_>) -> Result<What> {
    weighted(
        u,
        &[
            (6, &file),
            (3, &|_| Ok(What::Directory)),
            (2, &|u| Ok(What::Symlink(u.int_in_range(1..=4095)?))),
            (1, &|_| Ok(What::Fifo)),
            (1, &|_| Ok(What::Socket)),
            (1, &|u| {
                let (major, minor) = (u.int_in_range(0..=0xfff)?, u.int_in_range(0..=0xf_ffff)?);
                Ok(What::Device(major, minor))
            }),
            (2, &|u| Ok(What::HardLink(u.arbitrary()?))),
        ],
    )
}

/// Around the block size and what fits behind an inode; of few seeds, so that contents repeat.
fn file(u: &mut Unstructured<'_>) -> Result<What> {
    let lengths = [
        0..=39,
        3900..=4109,
        8180..=8199,
        0..=49_999,
        20_000..=20_000,
    ];
    let lengths = u.choose(&lengths)?.clone();
    Ok(What::File {
        hole: if u.ratio(3, 4)? {
            0
        } else {
            u.int_in_range(0..=299_999)?
        },
        len: u.int_in_range(lengths)?,
        seed: u.int_in_range(0..=2)?,
    })
}

/// Makes a tree in an empty directory, with its entries in the order of their paths or in the reverse.
pub(crate) fn create(root: &Path, wishes: &Wishes, reversed: bool) {
    let mut nodes = plan(wishes);
    if reversed {
        nodes.reverse();
    }
    let mut first_names: BTreeMap<usize, PathBuf> = BTreeMap::new();
    for (path, (number, node)) in &nodes {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match first_names.get(number) {
            Some(first) => fs::hard_link(first, &path).unwrap(),
            None => {
                make(&path, &node.what);
                first_names.insert(*number, path);
            }
        }
    }
    // Directories after what is in them, as that changes their times.
    nodes.sort_by(|(a, _), (b, _)| b.cmp(a));
    for (path, (_, node)) in &nodes {
        decorate(&root.join(path), node);
    }
    set_time(root, 1_600_000_000, 1).unwrap();
}

/// What can be made of the wishes, with the same number for all names of a file, by path.
fn plan(wishes: &Wishes) -> Vec<(PathBuf, (usize, Node))> {
    let mut nodes: BTreeMap<PathBuf, (usize, Node)> = BTreeMap::new();
    for (number, (path, node)) in wishes.iter().enumerate() {
        let parents = path.ancestors().skip(1);
        let is_directory = |parent: &Path| match nodes.get(parent) {
            Some((_, node)) => matches!(node.what, What::Directory),
            None => true,
        };
        if nodes.contains_key(path) || !parents.clone().all(is_directory) {
            continue;
        }
        let node = match node.what {
            What::HardLink(choice) => {
                let files: Vec<_> = nodes
                    .values()
                    .filter(|(_, node)| !matches!(node.what, What::Directory))
                    .collect();
                match files.get(choice % files.len().max(1)) {
                    Some(file) => (*file).clone(),
                    None => continue,
                }
            }
            What::Device(..) if !geteuid().is_root() => continue,
            _ => (number, node.clone()),
        };
        let directory = Node {
            what: What::Directory,
            ..node.1.clone()
        };
        for (depth, parent) in parents
            .filter(|parent| *parent != Path::new(""))
            .enumerate()
        {
            let number = wishes.len() * (depth + 1) + number;
            nodes
                .entry(parent.to_owned())
                .or_insert((number, directory.clone()));
        }
        nodes.insert(path.clone(), node);
    }
    nodes.into_iter().collect()
}

fn make(path: &Path, what: &What) {
    let special = |kind, device| mknodat(CWD, path, kind, Mode::from(0o600), device).unwrap();
    match what {
        // It may have been made for what is in it.
        What::Directory => fs::create_dir_all(path).unwrap(),
        What::File { hole, len, seed } => {
            let file = fs::File::create(path).unwrap();
            file.set_len(*hole).unwrap();
            file.write_all_at(&noise(*len, *seed), *hole).unwrap();
        }
        What::Symlink(len) => symlink("t".repeat(*len), path).unwrap(),
        What::Fifo => special(FileType::Fifo, 0),
        What::Socket => special(FileType::Socket, 0),
        What::Device(major, minor) => special(FileType::BlockDevice, makedev(*major, *minor)),
        What::HardLink(_) => unreachable!("links are resolved before"),
    }
}

/// Sets everything but the content.
fn decorate(path: &Path, node: &Node) {
    let is_root = geteuid().is_root();
    if is_root {
        lchown(path, Some(node.owner.0), Some(node.owner.1)).unwrap();
    }
    if !matches!(node.what, What::Symlink(_)) {
        fs::set_permissions(path, Permissions::from_mode(node.mode)).unwrap();
    }
    for (name, value) in &node.xattrs {
        // Only root can set most, only files and directories have those of users, and not every file
        // system has any.
        let _ = lsetxattr(path, name.as_str(), value, XattrFlags::empty());
    }
    let (seconds, nanoseconds) = node.time;
    set_time(path, seconds, nanoseconds).unwrap();
}
