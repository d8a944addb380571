use verimount_cache::Cache;
use verimount_content::setters;
use verimount_remote::{RemoteOptions, Session};

use crate::OpenOptions;

/// Content that is not on this machine.
impl OpenOptions {
    setters! {
        /// Keeps on disk what is fetched and verified. What comes from there is verified at each read, too.
        cache: impl Into<Option<Cache>> => places.access.cache;
    }

    /// How servers are reached.
    pub fn remote(mut self, options: RemoteOptions) -> Self {
        self.places.access.session = Session::new(options);
        self
    }

    setters! {
        /// Speaks to registries without encryption, and without credentials. Those on this machine are always spoken to without
        /// encryption.
        plain_http: bool => places.access.plain_http;
    }
}
