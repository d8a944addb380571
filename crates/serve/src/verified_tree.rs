use std::{
    collections::VecDeque,
    ffi::OsStr,
    ops::Range,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use verimount_content::{Origin, OriginStatus};
use verimount_fuse::Generation;
use verimount_mirrors::{MirrorStats, Mirrors};
use verimount_names::printable;
use verimount_source::{ReadError, Scratch};
use verimount_sync::Mutex;
use verimount_tree::{
    AddEntry, AddEntryAndAttr, Attr, Cursor, Error, ExtentKind, Measurement, NodeId, Paths,
    SingleFile, Tree, XattrNames, seek,
};
use verimount_verity::{Account, BlockKind, Identity, Mismatch};

use crate::{
    Kind, ResidentStatus, Served, Status, mirrors, origin,
    requests::{Operation, RequestCounters},
    seen_names::SeenNames,
    status::end_of,
};

/// How many of the last failures a status has.
const RECENT_FAILURES: usize = 16;

/// The longest name or reason in a status, in bytes. A status must fit into an extended attribute of at
/// most 64 KiB, and a backslash takes two bytes in JSON.
pub(crate) const MAX_TEXT: usize = 512;

/// A tree whose content is read through [`VerifiedReader`](verimount_verity::VerifiedReader)s, with statistics.
#[must_use]
pub struct VerifiedTree {
    tree: Box<dyn Tree>,
    /// `None` without verification.
    identity: Option<Identity>,
    /// That of all readers.
    account: Arc<Account>,
    /// Whether it was made for one file, and is no image.
    is_file: bool,
    /// Where the content comes from, if not only from this machine.
    origin: Option<Arc<dyn Origin>>,
    /// Where it is, if in several places.
    mirrors: Option<Arc<Mirrors>>,
    requests: RequestCounters,
    mismatches: AtomicU64,
    failures: Mutex<VecDeque<Failure>>,
    /// Found when a read fails for the first time, unless the origin could not be reached.
    paths: OnceLock<Paths>,
    /// For the paths in messages for which nobody may wait, if there are such messages.
    seen: Option<SeenNames>,
    /// Finds the path in an image of which this tree is the only file.
    namer: Option<Namer>,
}

/// Finds a file that has bytes of a range of an image, the only file of a tree.
pub type Namer = fn(&dyn Tree, &Range<u64>) -> Option<PathBuf>;

/// The operations that are counted.
const OPERATIONS: &[Operation] = &[
    Operation::Lookup,
    Operation::GetAttr,
    Operation::ReadDir,
    Operation::ReadLink,
    Operation::GetXattr,
    Operation::ListXattr,
    Operation::Seek,
    Operation::Read,
];

/// A read that failed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Failure {
    /// The path of the file from the root of the mount, as [`printable`] shows it. A long path is
    /// shortened to an ellipsis and its end.
    pub file: String,
    /// The offset in the file where the read began, in bytes.
    pub offset: u64,
    /// Why it failed.
    pub reason: String,
}

/// The statistics of an image or a sealed file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageStatus {
    /// The file digest or root hash that identifies the verified data; `None` without verification.
    pub digest: Option<String>,
    /// Whether the kernel reads the image's file system.
    pub native: bool,
    /// Size of the verified data in bytes.
    pub size: u64,
    /// Bytes of data that were verified, here and below with those on further devices of an image.
    pub bytes_verified: u64,
    /// Reads of data.
    pub data_requests: u64,
    /// Reads of the Merkle tree.
    pub tree_requests: u64,
    /// Bytes of the Merkle tree read.
    pub tree_bytes: u64,
    /// What was fetched, if the content is not only on this machine.
    pub origin: Option<OriginStatus>,
    /// What each place did, if the content is in several.
    pub mirrors: Option<MirrorStats>,
    /// What is kept in memory; `None` if nothing is to be.
    pub resident: Option<ResidentStatus>,
    /// The last reads that failed, oldest first, without repetitions.
    pub recent_failures: Vec<Failure>,
}

impl VerifiedTree {
    /// Serves the tree of an image with this identity, if it is verified. What is read of it and of its further devices is
    /// counted in `account`.
    pub fn new(tree: Box<dyn Tree>, identity: Option<Identity>, account: Arc<Account>) -> Self {
        Self {
            tree,
            identity,
            account,
            is_file: false,
            origin: None,
            mirrors: None,
            requests: RequestCounters::new(OPERATIONS),
            mismatches: AtomicU64::new(0),
            failures: Mutex::default(),
            paths: OnceLock::new(),
            seen: None,
            namer: None,
        }
    }

    /// Serves a file with this identity, if it is verified. What is read of it is counted in `account`.
    pub fn of_file(file: SingleFile, identity: Option<Identity>, account: Arc<Account>) -> Self {
        Self {
            is_file: true,
            ..Self::new(Box::new(file), identity, account)
        }
    }

    /// Declares where the content comes from.
    pub fn with_origin(self, origin: Option<Arc<dyn Origin>>) -> Self {
        let tree = Self { origin, ..self };
        match tree.origin {
            // To look for the path of what cannot be read there would take as long once more.
            Some(_) => tree.with_seen_names(),
            None => tree,
        }
    }

    /// Remembers names as they are looked up, for messages about files that are not read, but loaded.
    pub fn with_seen_names(self) -> Self {
        Self {
            seen: Some(SeenNames::new()),
            ..self
        }
    }

    /// Has the files in an image, of which this tree is the only file, found by `namer` for messages.
    pub fn with_namer(self, namer: Namer) -> Self {
        let namer = Some(namer);
        Self { namer, ..self }
    }

    /// Declares in which places the content is, if in several.
    pub fn with_mirrors(self, mirrors: Option<Arc<Mirrors>>) -> Self {
        Self { mirrors, ..self }
    }

    /// The tree itself. What is asked of it is not counted as requests of the kernel, and failures are not recorded.
    pub fn inner(&self) -> &dyn Tree {
        &*self.tree
    }

    /// How long a read waits for each thing from elsewhere.
    pub(crate) fn patience(&self) -> Duration {
        let origin = self.origin.as_ref();
        origin.map_or(Duration::ZERO, |origin| origin.patience())
    }

    /// Ends all reads that wait for content from elsewhere.
    pub(crate) fn close(&self) {
        if let Some(origin) = &self.origin {
            origin.close();
        }
    }

    /// The status, with `served` as its first part, and what is kept in memory.
    pub fn status(&self, served: Served, resident: Option<ResidentStatus>) -> Status {
        let image = self.image_status(resident);
        Status {
            version: Status::VERSION,
            served,
            requests: self.requests.get(),
            mismatches: self.mismatches.load(Relaxed),
            kind: if self.is_file {
                Kind::File(image)
            } else {
                Kind::Image(image)
            },
        }
    }

    fn image_status(&self, resident: Option<ResidentStatus>) -> ImageStatus {
        let stats = self.account.stats();
        ImageStatus {
            digest: self.identity.map(|identity| identity.to_string()),
            native: self.namer.is_some(),
            size: self.tree.usage().bytes,
            bytes_verified: stats.bytes_verified,
            data_requests: stats.data_requests,
            tree_requests: stats.tree_requests,
            tree_bytes: stats.tree_bytes,
            origin: self
                .origin
                .as_ref()
                .map(|origin| origin::bounded(origin.status())),
            mirrors: self
                .mirrors
                .as_ref()
                .map(|mirrors| mirrors::bounded(mirrors.stats())),
            resident,
            recent_failures: self.failures.lock().iter().cloned().collect(),
        }
    }

    /// Counts and logs a failed read, and keeps it for the status. `offset` is in the file.
    fn record(&self, node: NodeId, offset: u64, error: &Error) {
        let is_mismatch = is_mismatch(error);
        self.mismatches.fetch_add(u64::from(is_mismatch), Relaxed);
        // What is elsewhere and cannot be reached would be waited for once more.
        let may_look = is_mismatch || self.origin.is_none();
        let bad_block = bad_block(error);
        let range = bad_block.map_or(offset..offset.saturating_add(1), |bad| bad.covers.clone());
        let namer = self.namer.filter(|_| may_look);
        let found = namer.and_then(|find| find(self.inner(), &range));
        let file = found.unwrap_or_else(|| self.name_of(node, may_look));
        let file = printable(&file).to_string();
        match bad_block {
            Some(mismatch) => {
                let level = match mismatch.place {
                    BlockKind::Data => "data".to_owned(),
                    BlockKind::Tree(level) => level.to_string(),
                };
                tracing::error!(
                    offset,
                    level,
                    block = mismatch.offset,
                    expected = %mismatch.expected,
                    actual = %mismatch.actual,
                    %file,
                    "block does not match",
                );
            }
            None => tracing::error!(offset, %error, %file, "read failed"),
        }
        let failure = Failure {
            file: end_of(file, MAX_TEXT),
            offset,
            reason: end_of(error.to_string(), MAX_TEXT),
        };
        let mut failures = self.failures.lock();
        // A repeated failure does not displace the others.
        failures.retain(|known| *known != failure);
        if failures.len() == RECENT_FAILURES {
            failures.pop_front();
        }
        failures.push_back(failure);
    }

    /// The path of a file for the log, or its inode number if it would have to be looked for.
    pub(crate) fn shown_name(&self, node: NodeId) -> String {
        printable(&self.name_of(node, false)).to_string()
    }

    /// The path of a file, or its inode number if no path is found. If paths were not looked for yet, they are if
    /// `may_look`.
    fn name_of(&self, node: NodeId, may_look: bool) -> PathBuf {
        let paths = if may_look {
            Some(self.paths.get_or_init(|| Paths::new(&*self.tree)))
        } else {
            self.paths.get()
        };
        let seen = || self.seen.as_ref()?.path(node);
        let path = paths.and_then(|paths| paths.get(node)).or_else(seen);
        path.unwrap_or_else(|| PathBuf::from(format!("inode {node}")))
    }

    fn note(&self, directory: NodeId, name: &OsStr, node: NodeId) {
        if let Some(seen) = &self.seen {
            seen.note(directory, name, node);
        }
    }

    fn recorded<T>(&self, node: NodeId, offset: u64, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result
            && error.is_about_content()
        {
            self.record(node, offset, error);
        }
        result
    }

    /// What tells a file from one that has its number in another tree, wherever this tree is mounted: bits of its digest or, without
    /// one, of what it says of itself. `None` if it says nothing.
    pub(crate) fn generation(&self) -> Option<Generation> {
        let bits = match &self.identity {
            Some(identity) => identity.digest().as_bytes().first_chunk().copied(),
            None => self.tree.claimed_id().map(u32::to_be_bytes),
        };
        bits.map(|bits| Generation::new(u32::from_be_bytes(bits)))
    }

    /// The attributes of a file that a file handle has the number of. The handle may be of another tree.
    ///
    /// # Errors
    /// [`Error::NotFound`] if this tree has no such file, and [`Error::Read`].
    pub(crate) fn by_handle(&self, node: NodeId) -> Result<Attr, Error> {
        self.requests.count(Operation::Lookup);
        match self.tree.attr(node) {
            Ok(attr) if attr.node == node => Ok(attr),
            Err(error @ Error::Read(_)) => self.recorded(node, 0, Err(error)),
            // There is something else, which is not wrong.
            Ok(_) | Err(_) => Err(Error::NotFound),
        }
    }

    /// As [`Tree::attr`], not on behalf of a request.
    ///
    /// # Errors
    /// As [`Tree::attr`].
    pub(crate) fn plain_attr(&self, node: NodeId) -> Result<Attr, Error> {
        self.recorded(node, 0, self.tree.attr(node))
    }

    /// As [`Tree::read`], not on behalf of a request.
    ///
    /// # Errors
    /// As [`Tree::read`].
    pub(crate) fn plain_read<'s>(
        &self,
        node: NodeId,
        offset: u64,
        len: usize,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], Error> {
        self.recorded(node, offset, self.tree.read(node, offset, len, scratch))
    }

    /// The offset of the first data or hole at or behind `offset`.
    ///
    /// # Errors
    /// As [`seek`].
    pub(crate) fn seek(&self, node: NodeId, wanted: ExtentKind, offset: u64) -> Result<u64, Error> {
        self.requests.count(Operation::Seek);
        self.recorded(node, offset, seek(&*self.tree, node, wanted, offset))
    }
}

/// What the kernel asks of a tree: requests are counted, and failures to read are recorded.
impl VerifiedTree {
    /// As [`Tree::attr`].
    ///
    /// # Errors
    /// As [`Tree::attr`].
    pub fn attr(&self, node: NodeId) -> Result<Attr, Error> {
        self.requests.count(Operation::GetAttr);
        self.plain_attr(node)
    }

    /// As [`Tree::lookup`].
    ///
    /// # Errors
    /// As [`Tree::lookup`].
    pub fn lookup(&self, directory: NodeId, name: &OsStr) -> Result<Attr, Error> {
        self.requests.count(Operation::Lookup);
        let found = self.recorded(directory, 0, self.tree.lookup(directory, name))?;
        self.note(directory, name, found.node);
        Ok(found)
    }

    /// As [`Tree::parent`].
    ///
    /// # Errors
    /// As [`Tree::parent`].
    pub fn parent(&self, directory: NodeId) -> Result<Attr, Error> {
        self.requests.count(Operation::Lookup);
        self.recorded(directory, 0, self.tree.parent(directory))
    }

    /// As [`Tree::list`].
    ///
    /// # Errors
    /// As [`Tree::list`].
    pub fn list(
        &self,
        directory: NodeId,
        from: Cursor,
        add: &mut AddEntry<'_>,
    ) -> Result<(), Error> {
        self.requests.count(Operation::ReadDir);
        self.recorded(directory, 0, self.tree.list(directory, from, add))
    }

    /// As [`Tree::list_with_attrs`].
    ///
    /// # Errors
    /// As [`Tree::list_with_attrs`].
    pub fn list_with_attrs(
        &self,
        directory: NodeId,
        from: Cursor,
        add: &mut AddEntryAndAttr<'_>,
    ) -> Result<(), Error> {
        self.requests.count(Operation::ReadDir);
        let listed = self
            .tree
            .list_with_attrs(directory, from, &mut |entry, next, attr| {
                self.note(directory, entry.name, entry.node);
                add(entry, next, attr)
            });
        self.recorded(directory, 0, listed)
    }

    /// As [`Tree::read`].
    ///
    /// # Errors
    /// As [`Tree::read`].
    pub fn read<'s>(
        &self,
        node: NodeId,
        offset: u64,
        len: usize,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], Error> {
        self.requests.count(Operation::Read);
        self.plain_read(node, offset, len, scratch)
    }

    /// As [`Tree::readlink`].
    ///
    /// # Errors
    /// As [`Tree::readlink`].
    pub fn readlink<'s>(&self, node: NodeId, scratch: &'s mut Scratch) -> Result<&'s [u8], Error> {
        self.requests.count(Operation::ReadLink);
        self.recorded(node, 0, self.tree.readlink(node, scratch))
    }

    /// As [`Tree::xattr_names`].
    ///
    /// # Errors
    /// As [`Tree::xattr_names`].
    pub fn xattr_names(&self, node: NodeId) -> Result<XattrNames, Error> {
        self.requests.count(Operation::ListXattr);
        self.recorded(node, 0, self.tree.xattr_names(node))
    }

    /// As [`Tree::xattr`].
    ///
    /// # Errors
    /// As [`Tree::xattr`].
    pub fn xattr(&self, node: NodeId, name: &OsStr) -> Result<Vec<u8>, Error> {
        self.requests.count(Operation::GetXattr);
        self.recorded(node, 0, self.tree.xattr(node, name))
    }

    /// As [`Tree::measure`].
    ///
    /// # Errors
    /// As [`Tree::measure`].
    pub fn measure(&self, node: NodeId) -> Result<Option<Measurement>, Error> {
        self.recorded(node, 0, self.tree.measure(node))
    }
}

/// Whether something was found that is not the content, and not only that nothing could be read.
pub(crate) fn is_mismatch(error: &Error) -> bool {
    matches!(error.read_error(), Some(ReadError::Rejected(_)))
}

/// The block that does not match, if one was read.
fn bad_block(error: &Error) -> Option<&Mismatch> {
    match error.read_error()? {
        ReadError::Rejected(reason) => reason.downcast_ref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use verimount_romfs::RomfsTree;
    use verimount_testkit::flat_romfs;
    use verimount_verity::Checked;

    use super::*;

    #[test]
    fn a_name_is_shown_without_a_search() {
        let image = RomfsTree::open(Checked::unverified(Arc::new(flat_romfs([
            "first", "second",
        ]))))
        .unwrap();
        let tree = VerifiedTree::new(Box::new(image), None, Arc::default()).with_seen_names();
        let seen = tree.lookup(NodeId::ROOT, "first".as_ref()).unwrap();
        let unseen = tree
            .inner()
            .lookup(NodeId::ROOT, "second".as_ref())
            .unwrap();
        assert_eq!(tree.shown_name(seen.node), "/first");
        assert_eq!(
            tree.shown_name(unseen.node),
            format!("inode {}", unseen.node)
        );
        assert!(tree.paths.get().is_none());
    }
}
