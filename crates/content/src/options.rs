use std::{iter, sync::Arc};

use verimount_verity::VerifyOptions;

use crate::{Location, Trust, far::Access};

/// Where content is and how it is read, but not what is accepted of it.
///
/// Clones share the connections to servers. Content that is opened with clones of one is closed together.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The file with the Merkle tree, if it is neither at the end of the data nor in `FILE.verity`.
    pub sidecar: Option<Location>,
    /// The offset of a dm-verity superblock in bytes: in the sidecar if that is given, else in the data's own file.
    pub hash_offset: Option<u64>,
    /// Other places of the same content.
    pub mirrors: Vec<Location>,
    /// Whether right bytes from a mirror are written where others were found.
    pub repair: bool,
    /// Older content that may have some of its blocks.
    pub like: Vec<Location>,
    /// Whether large reads of files on this machine go through the kernel's page cache.
    pub page_cache: bool,
    /// How it is verified.
    pub verify: VerifyOptions,
    /// How what is not on this machine is reached.
    pub access: Access,
}

impl Options {
    /// These options, for content whose seal is where such seals usually are, and that is nowhere else.
    #[must_use]
    pub fn without_places(self) -> Self {
        Self {
            sidecar: None,
            hash_offset: None,
            mirrors: Vec::new(),
            repair: false,
            like: Vec::new(),
            ..self
        }
    }

    /// These options, with an account of what is read through the content that is about to be opened, its devices
    /// included, and of what has taken its place.
    #[must_use]
    pub fn with_own_account(mut self) -> Self {
        self.verify.account = Arc::default();
        self.access.forget_replacement();
        self
    }

    /// These options, for content at `location` of which `trust` accepts some, with further content at `others`. What is pinned
    /// need not be the same file at each read. Headers are sent to one server only: that of the content or, if it is on this
    /// machine, that of the first location which is not.
    #[must_use]
    pub fn for_content<'a>(
        &'a self,
        location: &'a Location,
        trust: &Trust,
        others: impl IntoIterator<Item = &'a Location>,
    ) -> Self {
        let own = iter::once(location)
            .chain(&self.sidecar)
            .chain(&self.mirrors);
        let first = own.chain(others).chain(&self.like).find_map(Location::far);
        let mut options = self.clone();
        if let Trust::Pinned(_) = trust {
            options.access.tolerate_changes();
        }
        if let Some(first) = first {
            options.access.send_headers_to(first);
        }
        options
    }
}
