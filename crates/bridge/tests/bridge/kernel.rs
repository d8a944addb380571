//! A model of the kernel's checks for backing files.

use std::{
    collections::HashMap,
    os::fd::BorrowedFd,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
};

use rustix::{fs::fstat, io::Errno};
use verimount_bridge::{NodeId, Register};

/// Registers files, and tracks how each inode is open.
#[derive(Default)]
pub(crate) struct Kernel {
    /// The registered backing files.
    pub(crate) live: AtomicUsize,
    next: AtomicU64,
    /// Errors of the next registrations, in order; later ones succeed.
    pub(crate) failures: Mutex<Vec<Errno>>,
    open: Mutex<HashMap<NodeId, Opens>>,
}

/// How an inode is open.
#[derive(Default)]
struct Opens {
    cached: usize,
    passed_through: usize,
    backing: u64,
}

/// A backing file.
pub(crate) struct BackingFile {
    pub(crate) number: u64,
    pub(crate) inode: u64,
    kernel: Arc<Kernel>,
}

impl Drop for BackingFile {
    fn drop(&mut self) {
        self.kernel.live.fetch_sub(1, SeqCst);
    }
}

/// The connection to the kernel.
pub(crate) struct ToKernel(pub(crate) Arc<Kernel>);

impl Register for ToKernel {
    type Id = BackingFile;

    fn register(&self, file: BorrowedFd<'_>) -> Result<BackingFile, Errno> {
        if let Some(errno) = self.0.failures.lock().unwrap().pop() {
            return Err(errno);
        }
        self.0.live.fetch_add(1, SeqCst);
        Ok(BackingFile {
            number: self.0.next.fetch_add(1, SeqCst) + 1,
            inode: fstat(file)?.st_ino,
            kernel: Arc::clone(&self.0),
        })
    }
}

impl Kernel {
    /// Processes the answer to an open.
    ///
    /// # Panics
    /// If the kernel would return `EIO`.
    pub(crate) fn opened(&self, node: NodeId, backing: Option<&BackingFile>) {
        let mut open = self.open.lock().unwrap();
        let opens = open.entry(node).or_default();
        match backing {
            Some(file) => {
                assert_eq!(opens.cached, 0, "passed through and cached");
                assert!(
                    opens.passed_through == 0 || opens.backing == file.number,
                    "two backing files"
                );
                opens.backing = file.number;
                opens.passed_through += 1;
            }
            None => {
                assert_eq!(opens.passed_through, 0, "cached and passed through");
                opens.cached += 1;
            }
        }
    }

    /// Releases an open.
    pub(crate) fn released(&self, node: NodeId, backing: Option<&BackingFile>) {
        let mut open = self.open.lock().unwrap();
        let opens = open.get_mut(&node).unwrap();
        match backing {
            Some(_) => opens.passed_through -= 1,
            None => opens.cached -= 1,
        }
    }
}
