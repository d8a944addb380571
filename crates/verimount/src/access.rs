#[cfg(feature = "remote")]
use {
    std::time::SystemTime,
    verimount_cache::Cache,
    verimount_names::printable,
    verimount_remote::Session,
    verimount_serve::{CacheStatus, Origin, OriginFailure, OriginStatus},
};

/// How content that is not on this machine is reached, and where it is kept.
///
/// Clones share connections and counters, and are closed together. So all that belongs to one mount is opened with clones of one.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Access {
    /// How web servers are reached.
    #[cfg(feature = "remote")]
    pub session: Session,
    /// Where content that was fetched is kept, if it is verified.
    #[cfg(feature = "remote")]
    pub cache: Option<Cache>,
}

#[cfg(feature = "remote")]
impl Access {
    /// The same for content that is pinned, of which a server may have another file of the same size at any time: its bytes
    /// are compared with what was pinned.
    pub(crate) fn tolerating_changes(self) -> Self {
        Self {
            session: self.session.tolerating_changes(),
            ..self
        }
    }
}

#[cfg(feature = "remote")]
impl Origin for Access {
    fn status(&self) -> OriginStatus {
        let stats = self.session.stats();
        OriginStatus {
            requests: stats.requests,
            bytes_received: stats.bytes,
            retries_busy: stats.retries.busy,
            retries_unreachable: stats.retries.unreachable,
            retries_broken: stats.retries.broken,
            bytes_rejected: stats.distrusted,
            last_failure: stats.last_failure.map(|failure| OriginFailure {
                at: failure
                    .at
                    .duration_since(SystemTime::UNIX_EPOCH)
                    .map_or(0, |since| since.as_secs()),
                reason: failure.error.to_string(),
            }),
            cache: self.cache.as_ref().map(cache_status),
        }
    }

    fn close(&self) {
        self.session.close();
    }
}

#[cfg(feature = "remote")]
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
