//! A bridge over a directory with a file in it.

use std::{fs, path::Path, sync::Arc};

use verimount_bridge::{
    Bridge, BridgedFile, Caller, Mirror, MirrorOptions, NodeId, Passthrough, Serving,
    policy::Policy,
};

use crate::kernel::{BackingFile, Kernel, ToKernel};

/// An ordinary user.
pub(crate) const CALLER: Caller = Caller {
    uid: 1000,
    gid: 1000,
    pid: 1,
    request: 0,
};

/// The backing file of a file that is passed through.
pub(crate) fn passed_through(file: &BridgedFile<ToKernel>) -> Option<&BackingFile> {
    match file.serving() {
        Serving::Passthrough(backing) => Some(backing),
        Serving::Relay | Serving::AppendOnly(_) => None,
    }
}

pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) bridge: Bridge<ToKernel>,
}

impl Bench {
    pub(crate) fn new(policy: &str, passthrough: Passthrough) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "content").unwrap();
        let kernel: Arc<Kernel> = Arc::default();
        let mirror = Mirror::open(folder.path(), MirrorOptions::default()).unwrap();
        let policy = Policy::parse(policy, Path::new("policy.toml")).unwrap();
        let bridge = Bridge::new(mirror, policy, passthrough, ToKernel(Arc::clone(&kernel)));
        Self {
            folder,
            kernel,
            bridge,
        }
    }

    /// Looks up a path, name by name.
    pub(crate) fn find(&self, path: &str) -> NodeId {
        path.split('/').fold(NodeId::ROOT, |parent, name| {
            let entry = self.bridge.mirror().lookup(parent, name.as_ref());
            entry.unwrap().node
        })
    }

    /// The parent directory of a path, and the last name.
    pub(crate) fn place<'p>(&self, path: &'p str) -> (NodeId, &'p str) {
        match path.rsplit_once('/') {
            Some((directory, name)) => (self.find(directory), name),
            None => (NodeId::ROOT, path),
        }
    }
}
