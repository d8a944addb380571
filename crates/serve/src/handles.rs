use std::sync::Arc;

use parking_lot::RwLock;
use rustix::io::Errno;
use verimount_fuse::Handle;

/// Open files, by the handle that the kernel uses for them.
pub(crate) struct Handles<T>(RwLock<Slots<T>>);

struct Slots<T> {
    slots: Vec<Option<Arc<T>>>,
    free: Vec<usize>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        let (slots, free) = (Vec::new(), Vec::new());
        Self(RwLock::new(Slots { slots, free }))
    }
}

impl<T> Handles<T> {
    pub(crate) fn insert(&self, open: T) -> Handle {
        let open = Some(Arc::new(open));
        let mut table = self.0.write();
        let slot = match table.free.pop() {
            Some(slot) => {
                table.slots[slot] = open;
                slot
            }
            None => {
                table.slots.push(open);
                table.slots.len() - 1
            }
        };
        Handle(slot as u64)
    }

    /// # Errors
    /// `EBADF` if the handle is not open.
    pub(crate) fn get(&self, handle: Handle) -> Result<Arc<T>, Errno> {
        let table = self.0.read();
        let slot = table.slots.get(handle.0 as usize);
        slot.and_then(Clone::clone).ok_or(Errno::BADF)
    }

    pub(crate) fn remove(&self, handle: Handle) -> Option<Arc<T>> {
        let slot = handle.0 as usize;
        let mut table = self.0.write();
        let open = table.slots.get_mut(slot)?.take()?;
        table.free.push(slot);
        Some(open)
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
