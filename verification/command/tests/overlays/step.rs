//! What is done in a directory tree.

use crate::prelude::*;

/// The directories that there are in the beginning, below the root.
pub(super) const DIRECTORIES: [&str; 5] = ["a", "a/b", "c", "c/d", "e"];

/// The longest content that is written, in bytes.
const LONGEST: usize = 6000;

/// A change by names, which may exist or not.
#[derive(Debug)]
pub(super) enum Step {
    Make(PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    Cut(PathBuf, u64),
    Link(PathBuf, PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    MakeDirectory(PathBuf),
    RemoveDirectory(PathBuf),
    Mode(PathBuf, u32),
    Attribute(PathBuf, Vec<u8>),
}

impl Step {
    pub(super) fn some(random: &mut Random) -> Self {
        match random.below(16) {
            0 => Self::Make(file(random)),
            1..=3 => {
                let content = noise(random.below(LONGEST), random.number());
                Self::Write(file(random), random.below(20_000) as u64, content)
            }
            4 => Self::Cut(file(random), random.below(20_000) as u64),
            5..=7 => Self::Link(file(random), file(random)),
            8 | 9 => Self::Rename(file(random), file(random)),
            10 => Self::Rename(directory(random), directory(random)),
            11 | 12 => Self::Remove(file(random)),
            13 => Self::MakeDirectory(directory(random)),
            14 if random.coin() => Self::RemoveDirectory(directory(random)),
            14 => Self::Mode(file(random), random.below(0o1000) as u32),
            _ => Self::Attribute(file(random), noise(random.below(50), random.number())),
        }
    }

    /// Takes it below `root`; the number of the error, if it fails.
    pub(super) fn take(&self, root: &Path) -> Result<(), Option<i32>> {
        let path = |path: &Path| root.join(path);
        let open = |path: &Path| OpenOptions::new().write(true).open(root.join(path));
        let taken = match self {
            Self::Make(at) => File::create_new(path(at)).map(drop),
            Self::Write(at, offset, content) => {
                open(at).and_then(|file| file.write_all_at(content, *offset))
            }
            Self::Cut(at, len) => open(at).and_then(|file| file.set_len(*len)),
            Self::Link(from, to) => fs::hard_link(path(from), path(to)),
            Self::Rename(from, to) => fs::rename(path(from), path(to)),
            Self::Remove(at) => fs::remove_file(path(at)),
            Self::MakeDirectory(at) => fs::create_dir(path(at)),
            Self::RemoveDirectory(at) => fs::remove_dir(path(at)),
            Self::Mode(at, mode) => fs::set_permissions(path(at), Permissions::from_mode(*mode)),
            Self::Attribute(at, value) => {
                let flags = XattrFlags::empty();
                setxattr(path(at), "user.some", value, flags).map_err(io::Error::from)
            }
        };
        taken.map_err(|error| error.raw_os_error())
    }
}

/// The path of some file.
fn file(random: &mut Random) -> PathBuf {
    directory(random).join(random.below(super::FILES).to_string())
}

/// The path of some directory.
fn directory(random: &mut Random) -> PathBuf {
    random.choose(&DIRECTORIES).into()
}
