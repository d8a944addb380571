use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    num::NonZeroU32,
    time::Duration,
};

use bitflags::bitflags;
use rustix::{fs::FileType, io::ReadWriteFlags};

/// A file as the kernel knows it: the number from its [`Entry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root directory.
    pub const ROOT: Self = Self(1);
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Tells files apart that have one [`NodeId`] in mounts of one place, one after the other: a file handle of another generation is
/// stale. The root of a mount has none, and is the same file in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation(NonZeroU32);

impl Generation {
    /// The generation that these bits identify.
    pub fn new(bits: u32) -> Self {
        // 0 is the root's.
        Self(NonZeroU32::new(bits).unwrap_or(NonZeroU32::MAX))
    }

    /// One that no other mount has, most likely.
    pub fn random() -> Self {
        Self::new(RandomState::new().hash_one(()) as u32)
    }

    /// The bits that identify it.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

/// What a file is in a handle of it, in this mount and in others of its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// The file.
    pub id: NodeId,
    /// The generation of its number.
    pub generation: Generation,
}

/// An open file or directory: a number that the file system chose when opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle(pub u64);

/// The thread on whose behalf the kernel sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// File system user; `u32::MAX` if the kernel does not tell it, as with [`Capabilities::ALLOW_IDMAP`].
    pub uid: u32,
    /// File system group; `u32::MAX` likewise.
    pub gid: u32,
    /// Thread id; 0 if the kernel does not tell it.
    pub pid: u32,
    /// The number of the request, which no other one of the mount has.
    pub request: u64,
}

/// A time: seconds since 1970, and nanoseconds of the second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds, less than 10⁹.
    pub nanoseconds: u32,
}

/// The attributes of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attr {
    /// The inode number that users see; need not be the [`NodeId`].
    pub ino: u64,
    /// Length in bytes.
    pub size: u64,
    /// Allocated space, in units of 512 bytes.
    pub blocks: u64,
    /// Last read.
    pub atime: Time,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of content or attributes.
    pub ctime: Time,
    /// Creation, if known. Only a STATX tells the kernel.
    pub btime: Option<Time>,
    /// Type and permissions, as in `stat`.
    pub mode: u32,
    /// Number of hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node, in the kernel's 32-bit form ([`device_number`]).
    pub rdev: u32,
    /// Preferred size of a read or write.
    pub blksize: u32,
}

impl Attr {
    /// The file's type.
    pub fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }
}

/// Encodes a device number in 32 bits as the kernel does: 12 bits of major number, 20 of minor.
pub fn device_number(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & 0xfff00) << 12)
}

/// The reverse of [`device_number`]: major and minor number.
pub fn device_parts(rdev: u32) -> (u32, u32) {
    (
        (rdev >> 8) & 0xfff,
        (rdev & 0xff) | ((rdev >> 12) & 0xfff00),
    )
}

/// The answer to a lookup: the file with a name. A [`NodeId`] is never used again for another file of the same mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The file. `None` is a negative entry: for `entry_valid`, no file has this name.
    pub node: Option<Node>,
    /// The file's attributes.
    pub attr: Attr,
    /// How long the kernel may cache the name.
    pub entry_valid: Duration,
    /// How long the kernel may cache the attributes.
    pub attr_valid: Duration,
}

/// The answer to an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Identifies the open file in later requests.
    pub handle: Handle,
    /// How the kernel is to treat it.
    pub flags: OpenFlags,
    /// With [`OpenFlags::PASSTHROUGH`]: the id of the backing file.
    pub backing: i32,
}

bitflags! {
    /// How the kernel treats an open file (`FOPEN_*`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct OpenFlags: u32 {
        /// Reads and writes bypass the page cache.
        const DIRECT_IO = 1 << 0;
        /// Opening does not drop cached pages.
        const KEEP_CACHE = 1 << 1;
        /// No FLUSH on close.
        const NOFLUSH = 1 << 5;
        /// With [`Self::DIRECT_IO`]: writes that do not extend the file run concurrently.
        const PARALLEL_DIRECT_WRITES = 1 << 6;
        /// The kernel reads and writes the backing file directly.
        const PASSTHROUGH = 1 << 7;
    }
}

bitflags! {
    /// Capabilities that are settled in the INIT negotiation (`FUSE_*`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Capabilities: u64 {
        /// Concurrent reads of a file.
        const ASYNC_READ = 1 << 0;
        /// `O_TRUNC` is passed with OPEN, instead of a separate SETATTR.
        const ATOMIC_O_TRUNC = 1 << 3;
        /// File handles (`name_to_handle_at`) lead to files that the kernel has forgotten: it then looks up `.` in a node of any
        /// type, and `..` in a directory.
        const EXPORT_SUPPORT = 1 << 4;
        /// Writes larger than a page.
        const BIG_WRITES = 1 << 5;
        /// The file system applies the umask.
        const DONT_MASK = 1 << 6;
        /// The kernel drops cached pages when it sees a new size or time of the file.
        const AUTO_INVAL_DATA = 1 << 12;
        /// READDIRPLUS: listings with attributes.
        const DO_READDIRPLUS = 1 << 13;
        /// The kernel chooses between READDIR and READDIRPLUS.
        const READDIRPLUS_AUTO = 1 << 14;
        /// Concurrent direct I/O.
        const ASYNC_DIO = 1 << 15;
        /// After `ENOSYS` to OPEN the kernel sends no more OPENs.
        const NO_OPEN_SUPPORT = 1 << 17;
        /// Concurrent operations in one directory.
        const PARALLEL_DIROPS = 1 << 18;
        /// POSIX access control lists.
        const POSIX_ACL = 1 << 20;
        /// Requests of more than 32 pages.
        const MAX_PAGES = 1 << 22;
        /// The kernel caches the targets of symbolic links.
        const CACHE_SYMLINKS = 1 << 23;
        /// After `ENOSYS` to OPENDIR the kernel sends no more OPENDIRs.
        const NO_OPENDIR_SUPPORT = 1 << 24;
        /// The kernel drops cached pages only when the file system notifies it.
        const EXPLICIT_INVAL_DATA = 1 << 25;
        /// The file system clears set-ID bits, so that the kernel need not read
        /// `security.capability` before each write.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// SETXATTR has a flag to clear the set-group-ID bit.
        const SETXATTR_EXT = 1 << 29;
        /// There is a second word of flags.
        const INIT_EXT = 1 << 30;
        /// Files with [`OpenFlags::DIRECT_IO`] can have shared mappings.
        const DIRECT_IO_ALLOW_MMAP = 1 << 36;
        /// Backing files, which the kernel reads and writes directly.
        const PASSTHROUGH = 1 << 37;
        /// Files have no handles that can be opened. Without this and [`Self::EXPORT_SUPPORT`] they have handles that can be
        /// opened as long as the kernel remembers the file.
        const NO_EXPORT_SUPPORT = 1 << 38;
        /// The mount can be shown with other owners (an idmapped mount). Then no request tells its caller's ids, but those that
        /// create something.
        const ALLOW_IDMAP = 1 << 40;
        /// The kernel aborts the connection if a request is not answered in time (Linux 6.15).
        const REQUEST_TIMEOUT = 1 << 42;
    }
}

bitflags! {
    /// Which fields of a [`SetAttr`] are set (`FATTR_*`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Valid: u32 {
        const MODE = 1 << 0;
        const UID = 1 << 1;
        const GID = 1 << 2;
        const SIZE = 1 << 3;
        const ATIME = 1 << 4;
        const MTIME = 1 << 5;
        const FH = 1 << 6;
        const ATIME_NOW = 1 << 7;
        const MTIME_NOW = 1 << 8;
        const _ = !0;
    }
}

/// A time to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// The current time.
    Now,
    /// This time.
    At(Time),
}

/// Attributes to be set; `None` leaves one unchanged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permissions (with the type).
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes.
    pub size: Option<u64>,
    /// Last read.
    pub atime: Option<SetTime>,
    /// Last change of content.
    pub mtime: Option<SetTime>,
}

/// The arguments of a READ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// The open file.
    pub handle: Handle,
    /// Position in the file, in bytes.
    pub offset: u64,
    /// Number of bytes. A shorter answer means the end of the file.
    pub size: u32,
    /// Whether it is for the kernel's page cache, and not for one reader alone.
    pub is_cached: bool,
}

/// The arguments of a WRITE, without the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// The open file.
    pub handle: Handle,
    /// Position in the file, in bytes.
    pub offset: u64,
    /// The kernel writes back mapped pages.
    pub mapped: bool,
    /// As for `pwritev2`, also those that the file was opened with: whether what is written, or all attributes with it, must be
    /// durable before the write is answered, and whether it is appended at the current end of the file. `offset` is then the
    /// end known to the kernel, unless the writer used `RWF_NOAPPEND`, which the kernel does not pass on. Mapped pages are
    /// never appended.
    pub flags: ReadWriteFlags,
}

/// What an `lseek` searches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seek {
    /// Data: `SEEK_DATA`.
    Data,
    /// A hole, or the end of the file: `SEEK_HOLE`.
    Hole,
}

impl Seek {
    /// `None` for the values that the kernel handles itself.
    pub(crate) fn from_whence(whence: u32) -> Option<Self> {
        match whence {
            3 => Some(Self::Data),
            4 => Some(Self::Hole),
            _ => None,
        }
    }
}

/// Who creates a file, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewFile {
    /// The creator, who will own it.
    pub caller: Caller,
    /// Type and permissions. Without [`Capabilities::DONT_MASK`] the kernel has applied the umask.
    pub mode: u32,
    /// The creator's umask. It clears permissions, unless the directory has a default access control list.
    pub umask: u32,
}

/// The arguments of a COPY_FILE_RANGE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyRange {
    /// The open source file.
    pub from: Handle,
    /// Position in the source file, in bytes.
    pub from_offset: u64,
    /// The open destination file.
    pub to: Handle,
    /// Position in the destination file, in bytes.
    pub to_offset: u64,
    /// Number of bytes.
    pub len: u64,
}

/// Size and free space of a file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Unit of the counts below, in bytes.
    pub block_size: u32,
    /// Preferred size of a read or write, in bytes.
    pub io_size: u32,
    /// Total number of blocks.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Blocks available to ordinary users.
    pub blocks_available: u64,
    /// Total number of inodes.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
    /// The longest name, in bytes.
    pub name_max: u32,
}
