use verimount_cache::Cache;
use verimount_remote::{RemoteOptions, Session};

use crate::OpenOptions;

/// Content that is not on this machine.
impl OpenOptions {
    /// Keeps on disk what is fetched and verified. What comes from there is verified at each read, too.
    pub fn cache(mut self, cache: impl Into<Option<Cache>>) -> Self {
        self.places.access.cache = cache.into();
        self
    }

    /// How servers are reached.
    pub fn remote(mut self, options: RemoteOptions) -> Self {
        self.places.access.session = Session::new(options);
        self
    }

    /// Speaks to registries without encryption, and without credentials. Those on this machine are always spoken to without
    /// encryption.
    pub fn plain_http(mut self, plain_http: bool) -> Self {
        self.places.access.plain_http = plain_http;
        self
    }
}
