use std::sync::Arc;

use rustix::io::Errno;
use slab::Slab;
use verimount_fuse::Handle;
use verimount_sync::RwLock;

/// Open files, by the handle that the kernel uses for them.
pub(crate) struct Handles<T>(RwLock<Slab<Arc<T>>>);

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T> Handles<T> {
    pub(crate) fn insert(&self, open: T) -> Handle {
        Handle(self.0.write().insert(Arc::new(open)) as u64)
    }

    /// # Errors
    /// `EBADF` if the handle is not open.
    pub(crate) fn get(&self, handle: Handle) -> Result<Arc<T>, Errno> {
        let table = self.0.read();
        table.get(handle.0 as usize).cloned().ok_or(Errno::BADF)
    }

    pub(crate) fn remove(&self, handle: Handle) -> Option<Arc<T>> {
        self.0.write().try_remove(handle.0 as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_reused() {
        let handles = Handles::default();
        let first = handles.insert("first");
        let second = handles.insert("second");
        assert_eq!(*handles.get(first).unwrap(), "first");
        assert_eq!(handles.remove(first).as_deref(), Some(&"first"));
        assert_eq!(handles.remove(first), None);
        assert_eq!(handles.get(first), Err(Errno::BADF));
        assert_eq!(handles.insert("third"), first);
        assert_eq!(*handles.get(second).unwrap(), "second");
        assert_eq!(handles.get(Handle(u64::MAX)), Err(Errno::BADF));
    }
}
