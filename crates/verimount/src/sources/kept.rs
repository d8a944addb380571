use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use verimount_cache::{Cache, Cached, Key, Part};
use verimount_source::ReadAt;
use verimount_verity::FileDigest;

use super::FileOf;
use crate::{Access, Error, Location, Trust, lazy::Lazy};

type Copy = Arc<Cached<Arc<dyn ReadAt>>>;

/// The copies of one content in a cache.
pub(crate) struct Kept {
    cache: Cache,
    key: Key,
    /// Whether all that is read replaces what is kept.
    refreshes: bool,
    copies: Mutex<Vec<Copy>>,
    /// Whether a copy existed before.
    is_warm: AtomicBool,
}

impl Kept {
    /// The copies of content that `trust` identifies; `None` if it does not, or without a cache.
    pub(crate) fn trusted(access: &Access, trust: &Trust) -> Option<Self> {
        let key = match trust {
            Trust::Digest(digest) => key(&digest.to_string()),
            Trust::RootHash(root) => Key::new(&format!("root-{}", hex(&root.hash))).ok(),
            Trust::Key(_) | Trust::Named | Trust::Unpinned | Trust::Unverified => None,
        };
        Self::new(access, key?)
    }

    /// The copies of content that was identified by reading its seal.
    pub(crate) fn found(access: &Access, digest: &FileDigest) -> Option<Self> {
        Self::new(access, key(&digest.to_string())?)
    }

    fn new(access: &Access, key: Key) -> Option<Self> {
        Some(Self {
            cache: access.cache.clone()?,
            key,
            refreshes: false,
            copies: Mutex::default(),
            is_warm: AtomicBool::new(false),
        })
    }

    /// The same, but all that is read from now on replaces what is kept.
    pub(crate) fn refreshing(self) -> Self {
        Self {
            refreshes: true,
            copies: Mutex::default(),
            ..self
        }
    }

    /// Whether something was kept before, which may be wrong.
    pub(crate) fn is_warm(&self) -> bool {
        self.is_warm.load(Relaxed)
    }

    /// What is kept is read from now on.
    pub(crate) fn settle(&self) {
        for copy in &*self.copies() {
            copy.set_refreshing(false);
        }
    }

    /// Opens the copy of a file. The file itself is not asked for if its copy has a size.
    pub(super) fn open(
        &self,
        location: &Location,
        file: FileOf,
        access: &Access,
    ) -> Result<Arc<dyn ReadAt>, Error> {
        let part = match file {
            FileOf::Content => Part::File,
            FileOf::Sidecar => Part::Sidecar,
        };
        let warm = || {
            let object = self.cache.existing(&self.key, part)?;
            let size = object.known_size()?;
            Some((object, size))
        };
        let (object, source): (_, Arc<dyn ReadAt>) = match warm().filter(|_| !self.refreshes) {
            Some((object, size)) => {
                self.is_warm.store(true, Relaxed);
                let lazy = Lazy::new(location.clone(), access.clone(), size);
                (object, Arc::new(lazy))
            }
            None => {
                let (source, _) = location.open(access)?;
                match self.cache.object(&self.key, part, source.size()) {
                    Some(object) => (object, source),
                    None => return Ok(source),
                }
            }
        };
        let copy = Arc::new(Cached::new(source, object));
        copy.set_refreshing(self.refreshes);
        self.copies().push(copy.clone());
        Ok(copy)
    }

    fn copies(&self) -> MutexGuard<'_, Vec<Copy>> {
        // Any list of copies is a valid state.
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key of content with this digest, such as `sha256:3d24…`.
fn key(digest: &str) -> Option<Key> {
    Key::new(&digest.replace(':', "-")).ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
