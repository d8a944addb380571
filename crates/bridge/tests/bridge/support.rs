//! A bridge over a directory with a file in it.

use std::{fs, path::Path, sync::Arc};

use verimount_bridge::{
    Bridge, Caller, Mirror, MirrorOptions, NodeId, Passthrough, policy::Policy,
};

use crate::kernel::{Kernel, ToKernel};

/// An ordinary user.
pub(crate) const CALLER: Caller = Caller {
    uid: 1000,
    gid: 1000,
    pid: 1,
};

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
            let entry = self.bridge.lookup(parent, name.as_ref());
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

/// Random numbers, the same for the same seed.
pub(crate) struct Dice(u64);

impl Dice {
    /// A new seed, which is printed, or the one in `VERIMOUNT_SEED`, to reproduce a failure.
    pub(crate) fn seed() -> u64 {
        let given = std::env::var("VERIMOUNT_SEED").ok();
        let clock = || std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        let seed = given.map_or_else(clock, |text| text.parse().unwrap());
        eprintln!("VERIMOUNT_SEED={seed}");
        seed
    }

    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        // Knuth's linear congruential generator; its high bits are good.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    pub(crate) fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}
