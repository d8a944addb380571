//! A tree in memory with all features that a tree can have, more than any of our formats has.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    num::NonZeroU64,
    os::unix::ffi::{OsStrExt, OsStringExt},
};

use verimount_source::Scratch;
use verimount_tree::{
    AddEntry, Attr, Cursor, DeviceNumber, DirEntry, Error, Extent, ExtentKind, FileType, NodeId,
    Permissions, Timestamp, Tree, Usage, XattrNames, part_inside,
};

/// The node number of the first file of a [`Content::Numbers`]; all other files have smaller numbers.
const FIRST_NUMBERED: u64 = 1 << 32;

/// Cursors are multiples of this: code must not assume that they are positions.
const STRIDE: u64 = 1009;

pub(crate) struct MadeUp {
    /// By their node numbers, from the root's on.
    files: Vec<Made>,
}

pub(crate) struct Made {
    pub(crate) attr: Attr,
    pub(crate) content: Content,
    pub(crate) xattrs: BTreeMap<OsString, Vec<u8>>,
}

pub(crate) enum Content {
    Entries(Vec<(OsString, NodeId)>),
    /// This many empty files, each named by its number. They take no memory.
    Numbers(u64),
    /// Pieces of data and their offsets, in order; the rest is holes.
    Pieces(Vec<(u64, Vec<u8>)>),
    Target(OsString),
    Nothing,
}

impl MadeUp {
    /// An empty root directory.
    pub(crate) fn new() -> Self {
        let root = Self::made(FileType::Directory, 0o755, Content::Entries(Vec::new()));
        Self { files: vec![root] }
    }

    /// A file of root's, with all times 1970.
    pub(crate) fn made(file_type: FileType, mode: u32, content: Content) -> Made {
        let size = match &content {
            Content::Pieces(pieces) => pieces.last().map_or(0, end),
            Content::Target(target) => target.len() as u64,
            _ => 0,
        };
        Made {
            attr: Attr::new(NodeId::ROOT, file_type, Permissions::new(mode), size),
            content,
            xattrs: BTreeMap::new(),
        }
    }

    pub(crate) fn directory(mode: u32) -> Made {
        Self::made(FileType::Directory, mode, Content::Entries(Vec::new()))
    }

    pub(crate) fn file(mode: u32, bytes: &[u8]) -> Made {
        let pieces = vec![(0, bytes.to_vec())];
        Self::made(FileType::RegularFile, mode, Content::Pieces(pieces))
    }

    /// A file with holes between the pieces and at its end.
    pub(crate) fn sparse(size: u64, pieces: Vec<(u64, Vec<u8>)>) -> Made {
        let bytes: u64 = pieces.iter().map(|(_, piece)| piece.len() as u64).sum();
        let mut made = Self::made(FileType::RegularFile, 0o644, Content::Pieces(pieces));
        made.attr.size = size;
        made.attr.blocks = bytes.div_ceil(512);
        made
    }

    pub(crate) fn symlink(target: &str) -> Made {
        Self::made(FileType::Symlink, 0o777, Content::Target(target.into()))
    }

    pub(crate) fn special(file_type: FileType, mode: u32, device: (u32, u32)) -> Made {
        let mut made = Self::made(file_type, mode, Content::Nothing);
        made.attr.rdev = DeviceNumber::new(device.0, device.1);
        made
    }

    /// Adds a file to a directory.
    pub(crate) fn add(&mut self, directory: NodeId, name: &str, mut made: Made) -> NodeId {
        let node = NodeId::new(self.files.len() as u64 + 1).unwrap();
        made.attr.node = node;
        made.attr.ino = node.get();
        self.files.push(made);
        self.name(directory, name, node);
        node
    }

    /// Adds a hard link.
    pub(crate) fn link(&mut self, directory: NodeId, name: &str, node: NodeId) {
        self.files[node.get() as usize - 1].attr.nlink += 1;
        self.name(directory, name, node);
    }

    fn name(&mut self, directory: NodeId, name: &str, node: NodeId) {
        match &mut self.files[directory.get() as usize - 1].content {
            Content::Entries(entries) => entries.push((name.into(), node)),
            _ => panic!("not a directory"),
        }
    }

    pub(crate) fn get(&self, node: NodeId) -> Result<&Made, Error> {
        let place = usize::try_from(node.get() - 1).ok();
        let made = place.and_then(|place| self.files.get(place));
        made.ok_or(Error::NotFound)
    }

    fn xattrs(&self, node: NodeId) -> Result<Option<&BTreeMap<OsString, Vec<u8>>>, Error> {
        match node.get() {
            FIRST_NUMBERED.. => Ok(None),
            _ => Ok(Some(&self.get(node)?.xattrs)),
        }
    }

    fn entry_type(&self, node: NodeId) -> FileType {
        self.attr(node).unwrap().file_type
    }
}

impl Made {
    /// All bytes of a small file.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        match &self.content {
            Content::Pieces(pieces) if self.attr.size < 1 << 26 => {
                let mut bytes = vec![0; self.attr.size as usize];
                fill(&mut bytes, 0, pieces);
                Some(bytes)
            }
            _ => None,
        }
    }
}

pub(crate) fn end((at, bytes): &(u64, Vec<u8>)) -> u64 {
    at + bytes.len() as u64
}

/// Fills a buffer with the content from `offset` on.
fn fill(buf: &mut [u8], offset: u64, pieces: &[(u64, Vec<u8>)]) {
    buf.fill(0);
    let buf_end = offset + buf.len() as u64;
    for piece in pieces {
        let (from, to) = (piece.0.max(offset), end(piece).min(buf_end));
        if from < to {
            let bytes = &piece.1[(from - piece.0) as usize..(to - piece.0) as usize];
            buf[(from - offset) as usize..(to - offset) as usize].copy_from_slice(bytes);
        }
    }
}

fn numbered(number: u64) -> NodeId {
    NodeId::new(FIRST_NUMBERED + number).unwrap()
}

fn cursor(position: u64) -> Cursor {
    Cursor::new(position * STRIDE).unwrap()
}

impl Tree for MadeUp {
    fn attr(&self, node: NodeId) -> Result<Attr, Error> {
        match node.get() {
            FIRST_NUMBERED.. => {
                let permissions = Permissions::new(0o444);
                Ok(Attr::new(node, FileType::RegularFile, permissions, 0))
            }
            _ => Ok(self.get(node)?.attr),
        }
    }

    fn lookup(&self, directory: NodeId, name: &OsStr) -> Result<Attr, Error> {
        let node = match &self.get(directory)?.content {
            Content::Entries(entries) => entries
                .iter()
                .find_map(|(entry, node)| (entry == name).then_some(*node)),
            Content::Numbers(count) => {
                let number: Option<u64> = name.to_str().and_then(|name| name.parse().ok());
                let number = number.filter(|number| number < count);
                let exact = number.filter(|number| name == &*number.to_string());
                exact.map(numbered)
            }
            _ => return Err(Error::NotADirectory),
        };
        self.attr(node.ok_or(Error::NotFound)?)
    }

    fn parent(&self, directory: NodeId) -> Result<Attr, Error> {
        let has = |made: &&Made| match &made.content {
            Content::Entries(entries) => entries.iter().any(|(_, node)| *node == directory),
            _ => false,
        };
        let found = self.files.iter().find(has);
        Ok(found.ok_or(Error::NotFound)?.attr)
    }

    fn list(&self, directory: NodeId, from: Cursor, add: &mut AddEntry<'_>) -> Result<(), Error> {
        let first = from.get().div_ceil(STRIDE);
        let mut give = |position, name: &OsStr, node| {
            let entry = DirEntry {
                name,
                node,
                ino: node.get(),
                file_type: self.entry_type(node),
            };
            add(entry, cursor(position + 1))
        };
        match &self.get(directory)?.content {
            Content::Entries(entries) => {
                for (position, (name, node)) in (0..).zip(entries).skip(first as usize) {
                    if give(position, name, *node).is_break() {
                        break;
                    }
                }
            }
            Content::Numbers(count) => {
                for number in first..*count {
                    let name = number.to_string();
                    if give(number, name.as_ref(), numbered(number)).is_break() {
                        break;
                    }
                }
            }
            _ => return Err(Error::NotADirectory),
        }
        Ok(())
    }

    fn read<'s>(
        &self,
        node: NodeId,
        offset: u64,
        len: usize,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], Error> {
        let made = self.get(node)?;
        let Content::Pieces(pieces) = &made.content else {
            return Err(Error::NoContent);
        };
        let len = part_inside(offset, len, made.attr.size).len();
        let buf = scratch.grown(len);
        fill(buf, offset, pieces);
        Ok(buf)
    }

    fn readlink<'s>(&self, node: NodeId, scratch: &'s mut Scratch) -> Result<&'s [u8], Error> {
        let Content::Target(target) = &self.get(node)?.content else {
            return Err(Error::NotASymlink);
        };
        let buf = scratch.grown(target.len());
        buf.copy_from_slice(target.as_bytes());
        Ok(buf)
    }

    fn usage(&self) -> Usage {
        Usage {
            bytes: 1 << 20,
            name_max: 255,
            max_entries: u64::MAX,
        }
    }

    fn has_access_lists(&self) -> bool {
        true
    }

    fn xattr_names(&self, node: NodeId) -> Result<XattrNames, Error> {
        let mut names = XattrNames::default();
        for name in self.xattrs(node)?.into_iter().flat_map(BTreeMap::keys) {
            names.push(name)?;
        }
        Ok(names)
    }

    fn xattr(&self, node: NodeId, name: &OsStr) -> Result<Vec<u8>, Error> {
        let value = self.xattrs(node)?.and_then(|xattrs| xattrs.get(name));
        value.cloned().ok_or(Error::NoAttribute)
    }

    fn has_holes(&self) -> bool {
        true
    }

    fn extent(&self, node: NodeId, offset: u64) -> Result<Extent, Error> {
        let made = self.get(node)?;
        let Content::Pieces(pieces) = &made.content else {
            return Err(Error::NoContent);
        };
        let piece = pieces.iter().find(|piece| offset < end(piece));
        let (kind, to) = match piece {
            Some(piece) if piece.0 <= offset => (ExtentKind::Data, end(piece)),
            Some(piece) => (ExtentKind::Hole, piece.0),
            None => (ExtentKind::Hole, made.attr.size),
        };
        let len = NonZeroU64::new(to.saturating_sub(offset)).ok_or(Error::PastEnd)?;
        Ok(Extent { kind, len })
    }
}

/// The user id that root squashing gives; no user has it.
const FAR_ID: u32 = u32::MAX - 1;

/// A tree with all features. Everybody can search its directories.
pub(crate) fn everything() -> MadeUp {
    let mut tree = MadeUp::new();
    let modes = tree.add(NodeId::ROOT, "modes", MadeUp::directory(0o1777));
    for mode in 0..0o10_000 {
        let mut made = MadeUp::file(mode, b"x");
        (made.attr.uid, made.attr.gid) = (mode % 3, mode % 5);
        tree.add(modes, &format!("{mode:04o}"), made);
    }
    let owners = tree.add(NodeId::ROOT, "owners", MadeUp::directory(0o6755));
    for (uid, gid) in [(0, 1), (1000, 1000), (65_534, 0), (FAR_ID, FAR_ID)] {
        let mut made = MadeUp::file(0o640, b"owned");
        (made.attr.uid, made.attr.gid) = (uid, gid);
        tree.add(owners, &format!("{uid}-{gid}"), made);
    }
    add_times(&mut tree);
    add_types(&mut tree);
    add_contents(&mut tree);
    add_xattrs(&mut tree);
    tree
}

fn add_times(tree: &mut MadeUp) {
    let times = tree.add(NodeId::ROOT, "times", MadeUp::directory(0o755));
    for (seconds, nanoseconds) in [
        (0, 0),
        (-1, 999_999_999),
        (-2, 1),
        (-1_i64 << 33, 500_000_000),
        (1_700_000_000, 123_456_789),
        (1 << 34, 999_999_999),
    ] {
        let mut made = MadeUp::file(0o644, b"");
        let time = |later| Timestamp::new(seconds + later, nanoseconds).unwrap();
        (made.attr.mtime, made.attr.atime, made.attr.ctime) = (time(0), time(1), time(2));
        tree.add(times, &format!("{seconds}.{nanoseconds}"), made);
    }
}

fn add_types(tree: &mut MadeUp) {
    let types = tree.add(NodeId::ROOT, "types", MadeUp::directory(0o755));
    let first = tree.add(types, "first name", MadeUp::file(0o644, b"two names"));
    tree.link(types, "second name", first);
    tree.link(NodeId::ROOT, "third name", first);
    tree.add(types, "link", MadeUp::symlink("first name"));
    tree.add(types, "long link", MadeUp::symlink(&"t".repeat(4095)));
    for (name, file_type, device) in [
        ("null", FileType::CharDevice, (1, 3)),
        ("far", FileType::CharDevice, (0xfff, 0xf_ffff)),
        ("disk", FileType::BlockDevice, (8, 0x12345)),
        ("fifo", FileType::Fifo, (0, 0)),
        ("socket", FileType::Socket, (0, 0)),
    ] {
        tree.add(types, name, MadeUp::special(file_type, 0o622, device));
    }
}

fn add_contents(tree: &mut MadeUp) {
    let contents = tree.add(NodeId::ROOT, "contents", MadeUp::directory(0o755));
    let noise = |len, seed| verimount_testkit::noise(len, seed);
    tree.add(contents, "large", MadeUp::file(0o644, &noise(3_000_003, 1)));
    let pieces = vec![
        (0, noise(4096, 2)),
        (1 << 20, noise(5000, 3)),
        (3 << 20, noise(1, 4)),
    ];
    tree.add(contents, "sparse", MadeUp::sparse(10 << 20, pieces));
    tree.add(contents, "hole", MadeUp::sparse(1 << 20, Vec::new()));
    let far = vec![(1 << 40, noise(10_000, 5))];
    tree.add(contents, "far", MadeUp::sparse((1 << 40) + 10_000, far));
}

fn add_xattrs(tree: &mut MadeUp) {
    let xattrs = tree.add(NodeId::ROOT, "xattrs", MadeUp::directory(0o755));
    let mut many = MadeUp::file(0o644, b"");
    for number in 0..100 {
        let name = format!("user.{number}");
        let name = OsString::from_vec(name.into_bytes());
        many.xattrs.insert(name, vec![number; usize::from(number)]);
    }
    tree.add(xattrs, "many", many);
    let mut large = MadeUp::file(0o644, b"");
    large
        .xattrs
        .insert("user.large".into(), vec![b'v'; 64 << 10]);
    let longest = format!("user.{}", "n".repeat(250));
    large.xattrs.insert(longest.into(), b"value".to_vec());
    tree.add(xattrs, "large", large);
    let mut roots = MadeUp::file(0o644, b"");
    roots
        .xattrs
        .insert("trusted.note".into(), b"root's".to_vec());
    roots
        .xattrs
        .insert("user.note".into(), b"everybody's".to_vec());
    tree.add(xattrs, "root's", roots);
    tree.add(xattrs, "listed", listed());
}

/// A file with an access control list: user 4711 may read it. The group of `nobody` may not, although
/// the permissions alone would allow it.
fn listed() -> Made {
    let entries: [(u16, u16, u32); 5] = [
        (0x01, 6, u32::MAX),
        (0x02, 4, 4711),
        (0x04, 0, u32::MAX),
        (0x10, 4, u32::MAX),
        (0x20, 0, u32::MAX),
    ];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    let mut made = MadeUp::file(0o640, b"listed");
    made.attr.gid = 65_534;
    let name = "system.posix_acl_access";
    made.xattrs.insert(name.into(), list);
    made
}

/// A directory of `count` names, and nothing else.
pub(crate) fn numbers(count: u64) -> MadeUp {
    let mut tree = MadeUp::new();
    let made = MadeUp::made(FileType::Directory, 0o755, Content::Numbers(count));
    tree.add(NodeId::ROOT, "numbers", made);
    tree
}
