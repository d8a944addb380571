use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::{OsStr, OsString},
    fmt::{self, Debug},
    fs::{self, File},
    io,
    ops::Range,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirEntryExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{SeekFrom, lgetxattr, llistxattr, seek},
    io::Errno,
};

/// The most bytes of an extended attribute, and of a list of their names.
const MAX_XATTR: usize = 1 << 16;

/// How many differences are printed.
const MAX_PRINTED: usize = 2;

/// All that system calls show of a file, besides its names.
#[derive(Clone, PartialEq, Eq)]
pub struct Shown {
    /// Type and permissions.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// In bytes.
    pub size: u64,
    /// The number of names.
    pub links: u64,
    /// Seconds and nanoseconds.
    pub mtime: (i64, i64),
    /// The number of a device; 0 for other types.
    pub device: u64,
    /// The first of the paths that lead to it, in the order of their bytes.
    pub first_path: PathBuf,
    /// Content or target.
    pub content: Vec<u8>,
    /// The ranges of a content that are no holes, in bytes.
    pub data: Vec<Range<u64>>,
    /// The extended attributes that this user sees.
    pub xattrs: BTreeMap<OsString, Vec<u8>>,
}

/// All files of a tree, by path; the root has an empty one.
pub type ShownTree = BTreeMap<PathBuf, Shown>;

/// Reads the tree at `root`.
///
/// # Errors
/// A file cannot be read; its path is in the message.
pub fn shown(root: &Path) -> io::Result<ShownTree> {
    let mut paths = vec![PathBuf::new()];
    let mut at = 0;
    while let Some(path) = paths.get(at).cloned() {
        let full = root.join(&path);
        if named(&full, fs::symlink_metadata(&full))?.is_dir() {
            for entry in named(&full, fs::read_dir(&full))? {
                paths.push(path.join(named(&full, entry)?.file_name()));
            }
        }
        at += 1;
    }
    paths.sort_unstable_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    let mut first_paths = HashMap::new();
    let file = |path: PathBuf| {
        let full = root.join(&path);
        let metadata = named(&full, fs::symlink_metadata(&full))?;
        let file = (metadata.dev(), metadata.ino());
        let first_path = first_paths.entry(file).or_insert_with(|| path.clone());
        let shown = named(&full, shown_file(&full, first_path))?;
        Ok((path, shown))
    };
    paths.into_iter().map(file).collect()
}

/// How many files of the tree at `root` cannot be read (EIO). All others are as in `right`.
///
/// # Errors
/// A file is shown wrong, or with another error; its path is in the message.
pub fn unreadable(root: &Path, right: &ShownTree) -> io::Result<usize> {
    let mut unreadable = 0;
    for (path, expected) in right {
        let full = root.join(path);
        let inside = right.keys().filter(|inside| inside.parent() == Some(path));
        let inside: BTreeSet<_> = inside.filter_map(|inside| inside.file_name()).collect();
        match shown_file(&full, &expected.first_path).and_then(|file| Ok((file, names_in(&full)?)))
        {
            Ok((file, names)) if file == *expected && names.iter().eq(inside) => {}
            Ok(shown) => {
                let shown = format!("{shown:?}, not {expected:?}");
                return named(&full, Err(io::Error::other(shown)));
            }
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => unreadable += 1,
            Err(error) => return named(&full, Err(error)),
        }
    }
    Ok(unreadable)
}

/// Those that are listed in a directory; none of other files.
fn names_in(file: &Path) -> io::Result<BTreeSet<OsString>> {
    if !fs::symlink_metadata(file)?.is_dir() {
        return Ok(BTreeSet::new());
    }
    fs::read_dir(file)?
        .map(|entry| Ok(entry?.file_name()))
        .collect()
}

/// The inode numbers of all files of a tree, by path: as they are listed (0 of the root), and as `stat` shows them.
///
/// # Errors
/// A file cannot be read; its path is in the message.
pub fn numbers(root: &Path) -> io::Result<BTreeMap<PathBuf, [u64; 2]>> {
    let mut numbers = BTreeMap::new();
    let mut left = vec![(PathBuf::new(), 0)];
    while let Some((path, listed)) = left.pop() {
        let full = root.join(&path);
        let metadata = named(&full, fs::symlink_metadata(&full))?;
        if metadata.is_dir() {
            for entry in named(&full, fs::read_dir(&full))? {
                let entry = named(&full, entry)?;
                left.push((path.join(entry.file_name()), entry.ino()));
            }
        }
        numbers.insert(path, [listed, metadata.ino()]);
    }
    Ok(numbers)
}

/// `tree` without what copies of directories do not have: the sizes and link counts that file systems give them, and
/// holes.
pub fn as_copied(mut tree: ShownTree) -> ShownTree {
    for file in tree.values_mut() {
        file.data.clear();
        if file.is_directory() {
            (file.size, file.links) = (0, 0);
        }
    }
    tree
}

/// What differs between two trees, a line for each file.
#[derive(Debug)]
pub struct Differences(Vec<String>);

/// Compares two trees.
///
/// # Errors
/// They differ.
pub fn compare(one: &ShownTree, other: &ShownTree) -> Result<(), Differences> {
    let mut lines = Vec::new();
    for (path, shown) in one {
        match other.get(path) {
            None => lines.push(format!("{path:?} is only in the first")),
            Some(other) if shown != other => {
                lines.push(format!("{path:?} is {shown:?}, and {other:?}"));
            }
            Some(_) => {}
        }
    }
    let surplus = other.keys().filter(|path| !one.contains_key(*path));
    lines.extend(surplus.map(|path| format!("{path:?} is only in the second")));
    if lines.is_empty() {
        Ok(())
    } else {
        Err(Differences(lines))
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files differ", self.0.len())?;
        let first = self.0.iter().take(MAX_PRINTED);
        first
            .into_iter()
            .try_for_each(|line| write!(f, "\n    {line}"))
    }
}

impl std::error::Error for Differences {}

impl Shown {
    /// Whether it is a regular file.
    pub fn is_regular(&self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.mode & 0o170_000 == 0o040_000
    }
}

/// Long values are shown as their length and checksum.
impl Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brief = |bytes: &[u8]| {
            let sum = bytes.iter().fold(0_u32, |sum, byte| {
                sum.rotate_left(5).wrapping_add(u32::from(*byte))
            });
            format!("{} bytes, {sum:08x}", bytes.len())
        };
        let xattrs = self.xattrs.iter().map(|(name, value)| (name, brief(value)));
        f.debug_struct("Shown")
            .field("mode", &format_args!("{:o}", self.mode))
            .field("owner", &self.owner)
            .field("size", &self.size)
            .field("links", &self.links)
            .field("mtime", &self.mtime)
            .field("device", &self.device)
            .field("first_path", &self.first_path)
            .field("content", &brief(&self.content))
            .field("data", &self.data)
            .field("xattrs", &xattrs.collect::<Vec<_>>())
            .finish()
    }
}

fn shown_file(path: &Path, first_path: &Path) -> io::Result<Shown> {
    let metadata = fs::symlink_metadata(path)?;
    let file_type = metadata.file_type();
    let (content, data) = match () {
        () if file_type.is_file() => (fs::read(path)?, data_ranges(&File::open(path)?)?),
        () if file_type.is_symlink() => {
            let target = fs::read_link(path)?.into_os_string();
            (target.as_bytes().to_vec(), Vec::new())
        }
        () => Default::default(),
    };
    Ok(Shown {
        mode: metadata.mode(),
        owner: (metadata.uid(), metadata.gid()),
        size: metadata.size(),
        links: metadata.nlink(),
        mtime: (metadata.mtime(), metadata.mtime_nsec()),
        device: metadata.rdev(),
        first_path: first_path.to_owned(),
        content,
        data,
        xattrs: xattrs(path)?,
    })
}

fn data_ranges(file: &File) -> io::Result<Vec<Range<u64>>> {
    let mut ranges = Vec::new();
    let mut end = 0;
    loop {
        let start = match seek(file, SeekFrom::Data(end)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(ranges),
            Err(error) => return Err(error.into()),
        };
        end = seek(file, SeekFrom::Hole(start))?;
        ranges.push(start..end);
    }
}

fn xattrs(path: &Path) -> io::Result<BTreeMap<OsString, Vec<u8>>> {
    let mut names = vec![0; MAX_XATTR];
    let len = match llistxattr(path, &mut names[..]) {
        Ok(len) => len,
        Err(Errno::NOTSUP) => 0,
        Err(error) => return Err(error.into()),
    };
    let names = names[..len].split(|byte| *byte == 0);
    names
        .filter(|name| !name.is_empty())
        .map(|name| {
            let name = OsStr::from_bytes(name);
            let mut value = vec![0; MAX_XATTR];
            let len = lgetxattr(path, name, &mut value[..])?;
            value.truncate(len);
            Ok((name.to_owned(), value))
        })
        .collect()
}

/// An error that names the file.
fn named<T>(path: &Path, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), format!("{path:?}: {error}")))
}
