use std::{fmt, time::Duration};

use bitflags::bitflags;

/// A file as the kernel knows it: a number that this file system gave it in an [`Entry`].
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

/// An open file or directory: a number that this file system chose when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle(pub u64);

/// On whose behalf the kernel asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// File system user.
    pub uid: u32,
    /// File system group.
    pub gid: u32,
    /// Process; 0 where the kernel does not tell.
    pub pid: u32,
    /// When something is created in a directory that belongs to one of the caller's supplementary
    /// groups, that group.
    pub group: Option<u32>,
}

/// A time: seconds since 1970, and nanoseconds of the second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Time {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds, less than 10⁹.
    pub nanoseconds: u32,
}

/// What the kernel is told about a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attr {
    /// The number that users see; need not be the [`NodeId`].
    pub ino: u64,
    /// Length in bytes.
    pub size: u64,
    /// Space taken, in units of 512 bytes.
    pub blocks: u64,
    /// Last read.
    pub atime: Time,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of anything.
    pub ctime: Time,
    /// Type and permissions, as in `stat`.
    pub mode: u32,
    /// Number of names.
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

/// A device number in 32 bits, as the kernel encodes it for FUSE: 12 bits of major number, 20 of
/// minor.
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

/// A name's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The file; `None` says, for as long as `entry_valid`, that there is none of this name.
    pub node: Option<NodeId>,
    /// Tells files apart that have the same [`NodeId`] one after the other.
    pub generation: u64,
    /// What is known of it.
    pub attr: Attr,
    /// How long the kernel may believe that the name stands for the file.
    pub entry_valid: Duration,
    /// How long it may believe the attributes.
    pub attr_valid: Duration,
}

/// The answer to an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// What later requests name it by.
    pub handle: Handle,
    /// How the kernel is to treat it.
    pub flags: OpenFlags,
    /// With [`OpenFlags::PASSTHROUGH`], the registered file that reads and writes go to.
    pub backing: i32,
}

bitflags! {
    /// How the kernel treats an open file (`FOPEN_*`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct OpenFlags: u32 {
        /// Reads and writes go past the page cache.
        const DIRECT_IO = 1 << 0;
        /// Cached pages stay.
        const KEEP_CACHE = 1 << 1;
        /// Closing need not be told: no FLUSH.
        const NOFLUSH = 1 << 5;
        /// With [`Self::DIRECT_IO`]: writes that end inside the file may be under way at once.
        const PARALLEL_DIRECT_WRITES = 1 << 6;
        /// Reads and writes go to the backing file, past this file system.
        const PASSTHROUGH = 1 << 7;
    }
}

bitflags! {
    /// What kernel and file system can agree on (`FUSE_*` of INIT).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Capabilities: u64 {
        /// Several reads of one file at once.
        const ASYNC_READ = 1 << 0;
        /// `O_TRUNC` comes with OPEN, not as a SETATTR of its own.
        const ATOMIC_O_TRUNC = 1 << 3;
        /// Writes larger than a page.
        const BIG_WRITES = 1 << 5;
        /// The file system applies the umask.
        const DONT_MASK = 1 << 6;
        /// Cached pages go when size or time of the file has changed.
        const AUTO_INVAL_DATA = 1 << 12;
        /// READDIRPLUS: a listing with attributes.
        const DO_READDIRPLUS = 1 << 13;
        /// … only where it looks useful.
        const READDIRPLUS_AUTO = 1 << 14;
        /// Direct I/O requests may be under way at once.
        const ASYNC_DIO = 1 << 15;
        /// `ENOSYS` to OPEN ends all OPENs.
        const NO_OPEN_SUPPORT = 1 << 17;
        /// Several operations in one directory at once.
        const PARALLEL_DIROPS = 1 << 18;
        /// POSIX access control lists.
        const POSIX_ACL = 1 << 20;
        /// Requests of more than 32 pages.
        const MAX_PAGES = 1 << 22;
        /// The targets of symbolic links are cached.
        const CACHE_SYMLINKS = 1 << 23;
        /// `ENOSYS` to OPENDIR ends all OPENDIRs.
        const NO_OPENDIR_SUPPORT = 1 << 24;
        /// Cached pages go only when this file system says so.
        const EXPLICIT_INVAL_DATA = 1 << 25;
        /// The file system drops set-id bits; the kernel need not ask for `security.capability`
        /// before each write.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// SETXATTR tells whether the set-group bit must go.
        const SETXATTR_EXT = 1 << 29;
        /// There is a second word of flags.
        const INIT_EXT = 1 << 30;
        /// Creating tells the caller's group that owns the directory.
        const CREATE_SUPP_GROUP = 1 << 34;
        /// Files whose reads and writes go past the page cache can still be mapped and shared.
        const DIRECT_IO_ALLOW_MMAP = 1 << 36;
        /// Reads and writes that go to a backing file.
        const PASSTHROUGH = 1 << 37;
    }
}

bitflags! {
    /// Which parts of a [`SetAttr`] are meant (`FATTR_*`).
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
        const KILL_SUIDGID = 1 << 11;
        const _ = !0;
    }
}

/// A time that is to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// The time it is.
    Now,
    /// This time.
    At(Time),
}

/// Attributes that are to be set; `None` leaves one as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// The open file through which it is done, if any.
    pub handle: Option<Handle>,
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
    /// The change takes the set-id bits away, as it would if the caller did it directly.
    pub kill_suidgid: bool,
}

/// The parts of a READ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// The open file.
    pub handle: Handle,
    /// Where, in bytes.
    pub offset: u64,
    /// At most how many bytes. Fewer mean the file's end.
    pub size: u32,
}

/// The parts of a WRITE, but for the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// The open file.
    pub handle: Handle,
    /// Where, in bytes.
    pub offset: u64,
    /// The file is open for appending, so the writer wants it at the end, wherever that is by now.
    /// `offset` is the end that the kernel knows of, unless the writer said `RWF_NOAPPEND`, which
    /// the kernel does not pass on. Pages that were mapped are written where they belong, even if
    /// their file was opened for appending.
    pub append: bool,
    /// What must survive a crash when the write is answered.
    pub durability: Durability,
    /// The write takes the set-id bits away.
    pub kill_suidgid: bool,
}

/// What of a write must survive a crash before it is answered, as the flags of `open` and of
/// `pwritev2` say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Nothing.
    None,
    /// The data, and what it takes to read it back: `O_DSYNC` or `RWF_DSYNC`.
    Data,
    /// The data and all attributes: `O_SYNC` or `RWF_SYNC`.
    DataAndAttributes,
}

/// What `lseek` looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seek {
    /// Stored bytes: `SEEK_DATA`.
    Data,
    /// A hole, or the end of the file: `SEEK_HOLE`.
    Hole,
}

impl Seek {
    /// `None` for what the kernel does by itself.
    pub(crate) fn from_whence(whence: u32) -> Option<Self> {
        match whence {
            3 => Some(Self::Data),
            4 => Some(Self::Hole),
            _ => None,
        }
    }
}

/// What something is created with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateMode {
    /// Type and permissions. Without [`Capabilities::DONT_MASK`] the umask is applied already.
    pub mode: u32,
    /// The caller's umask.
    pub umask: u32,
}

/// The parts of a COPY_FILE_RANGE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyRange {
    /// The file read from, opened.
    pub from: Handle,
    /// Where, in bytes.
    pub from_offset: u64,
    /// The file written to.
    pub to_node: NodeId,
    /// The same, opened.
    pub to: Handle,
    /// Where, in bytes.
    pub to_offset: u64,
    /// How many bytes.
    pub len: u64,
}

/// Use of a file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Unit of the counts below, in bytes.
    pub block_size: u32,
    /// Preferred size of a read or write, in bytes.
    pub io_size: u32,
    /// Blocks in all.
    pub blocks: u64,
    /// Blocks that are free.
    pub blocks_free: u64,
    /// Blocks that are free for ordinary users.
    pub blocks_available: u64,
    /// Files that it can hold in all.
    pub files: u64,
    /// Files that can still be made.
    pub files_free: u64,
    /// The longest name, in bytes.
    pub name_max: u32,
}

/// What STATX tells beyond [`Attr`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statx {
    /// What `stat` tells.
    pub attr: Attr,
    /// When the file was made, where that is known.
    pub btime: Option<Time>,
}
