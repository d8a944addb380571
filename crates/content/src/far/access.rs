use std::{
    env,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::{CacheStatus, Origin, OriginFailure, OriginReplacement, OriginStatus};
use verimount_cache::Cache;
use verimount_names::printable;
use verimount_remote::{Session, fetch_memory, fetch_memory_limit};
use verimount_sync::Mutex;
use verimount_verity::FileDigest;

use super::{FarLocation, WholeFiles};
use crate::Location;

/// How content that is not on this machine is reached, and where it is kept.
///
/// Clones share connections and counters, and are closed together. So all that belongs to one mount is opened with clones of one.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// How servers are reached.
    pub session: Session,
    /// Whether registries are spoken to without encryption and credentials. Those on this machine always are without
    /// encryption.
    pub plain_http: bool,
    /// Where content that was fetched is kept, if it is verified.
    pub cache: Option<Cache>,
    /// Those that a server sends whole only; `None`: these are refused.
    pub whole_files: Option<Arc<WholeFiles>>,
    /// Another release that was found in the place of the content.
    replaced: Arc<Mutex<Option<OriginReplacement>>>,
}

impl Access {
    /// For content that is pinned, of which a server may have another file of the same size at any time: its bytes are
    /// compared with what was pinned.
    pub(crate) fn tolerate_changes(&mut self) {
        self.session.tolerate_changes();
    }

    /// For content of which no other release was found yet.
    pub(crate) fn forget_replacement(&mut self) {
        self.replaced = Arc::default();
    }

    /// Sends headers to the server of this location only; to none for an object. What was said before counts.
    pub(crate) fn send_headers_to(&mut self, location: &FarLocation) {
        self.session.send_headers_to(location.server(self));
    }

    /// How often files were of other versions than before.
    pub(crate) fn changes(&self) -> u64 {
        self.session.stats().changes
    }

    /// Whether another release was found in the place of the content.
    pub(crate) fn has_replacement(&self) -> bool {
        self.replaced.lock().is_some()
    }

    /// The release with this digest was found in the place of the content.
    pub(crate) fn was_replaced(&self, at: &Location, digest: &FileDigest) {
        let found = OriginReplacement {
            at: seconds(SystemTime::now()),
            place: at.to_string(),
            digest: digest.to_string(),
        };
        let mut replaced = self.replaced.lock();
        let is_known = |known: &OriginReplacement| known.digest == found.digest;
        if !replaced.as_ref().is_some_and(is_known) {
            tracing::warn!(
                place = %at, replaced_by = %digest,
                "another release with the same key was published in the place of this one: what only that place had cannot be read"
            );
        }
        *replaced = Some(found);
    }

    /// How long a read waits for what is on another machine.
    pub(crate) fn timeout(&self) -> Duration {
        self.session.timeout()
    }

    /// Where files without a name are made that memory has no room for: where the cache is, if there is one.
    pub fn folder(&self) -> PathBuf {
        let cache = self.cache.as_ref().map(|cache| cache.path().to_owned());
        cache.unwrap_or_else(env::temp_dir)
    }

    /// As what content comes from.
    pub(crate) fn origin(&self) -> Option<Arc<dyn Origin>> {
        Some(Arc::new(self.clone()))
    }
}

impl Origin for Access {
    fn patience(&self) -> Duration {
        self.timeout()
    }

    fn status(&self) -> OriginStatus {
        let (stats, failure) = (self.session.stats(), self.session.last_failure());
        OriginStatus {
            requests: stats.requests,
            bytes_received: stats.bytes,
            retries_busy: stats.retries_busy,
            retries_unreachable: stats.retries_unreachable,
            retries_broken: stats.retries_broken,
            bytes_rejected: stats.distrusted,
            changes: stats.changes,
            replaced: self.replaced.lock().clone(),
            last_failure: failure.map(|failure| OriginFailure {
                at: seconds(failure.at),
                reason: failure.error.to_string(),
            }),
            fetch_memory: fetch_memory(),
            fetch_memory_limit: fetch_memory_limit(),
            cache: self.cache.as_ref().map(cache_status),
        }
    }

    fn close(&self) {
        self.session.close();
    }
}

/// A time, in seconds since 1970.
fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn cache_status(cache: &Cache) -> CacheStatus {
    let stats = cache.stats();
    CacheStatus {
        directory: printable(cache.path()).to_string(),
        bytes_read: stats.read,
        bytes_written: stats.written,
        bytes_rejected: stats.rejected,
        bytes_evicted: stats.evicted,
        failures: stats.failures,
    }
}
