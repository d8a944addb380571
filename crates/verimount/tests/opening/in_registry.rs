//! A registry that can be made to lie.

use verimount::{Location, PushOptions, push};
use verimount_remote::registry::BlobDigest;
use verimount_testkit::RegistryServer;

use crate::stored::Stored;

pub(crate) struct Registry {
    pub(crate) server: RegistryServer,
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self {
            server: RegistryServer::honest(),
        }
    }

    /// Stores content; returns its name with the digest of the manifest.
    pub(crate) fn push(&self, stored: &Stored, tag: &str) -> Location {
        let folder = tempfile::tempdir().unwrap();
        let path = stored.write_to(folder.path());
        let to = format!("oci://{}/repository:{tag}", self.server.host());
        let pushed = push(&path, &*to, &PushOptions::default()).unwrap();
        let name = pushed.location.to_string();
        let (_, digest) = name.split_once('@').unwrap();
        let manifest = self.server.manifest(tag).unwrap();
        self.server.store_manifest(digest, manifest);
        pushed.location
    }

    /// From now on sends `actual` for the layer that was `expected`.
    pub(crate) fn replace(&self, expected: &[u8], actual: &[u8]) {
        let digest = BlobDigest::of(expected).to_string();
        self.server.store_blob(&digest, actual);
    }

    /// From now on sends the layers of `actual` for those of `expected`.
    pub(crate) fn replace_all(&self, expected: &Stored, actual: &Stored) {
        self.replace(&expected.file, &actual.file);
        if let (Some(expected), Some(actual)) = (&expected.sidecar, &actual.sidecar) {
            self.replace(expected, actual);
        }
    }
}
