use verimount_sync::RwLock;

use crate::{ReadAt, ReadError, WriteAt, WriteError, check_range, write_at::check_write};

impl ReadAt for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let len = buf.len();
        check_range(offset, len, self.size())?;
        // The check above says that the range lies inside the slice, and so inside usize.
        let start = offset as usize;
        buf.copy_from_slice(&self[start..start + len]);
        Ok(())
    }
}

/// Storage in memory, of a fixed size.
#[derive(Debug, Default)]
pub struct MemoryStorage(RwLock<Vec<u8>>);

impl MemoryStorage {
    /// Storage that holds `bytes`.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(RwLock::new(bytes))
    }

    /// A copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        self.0.read().clone()
    }

    /// Applies `change` to the `len` bytes from `offset` on.
    fn change(
        &self,
        offset: u64,
        len: u64,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), WriteError> {
        let mut bytes = self.0.write();
        check_write(offset, len, bytes.size())?;
        // The check above says that the range lies inside the vector, and so inside usize.
        let start = offset as usize;
        change(&mut bytes[start..start + len as usize]);
        Ok(())
    }
}

impl ReadAt for MemoryStorage {
    fn size(&self) -> u64 {
        self.0.read().size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.0.read().read_exact_at(buf, offset)
    }
}

impl WriteAt for MemoryStorage {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        self.change(offset, bytes.len() as u64, |to| to.copy_from_slice(bytes))
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), WriteError> {
        self.change(offset, len, |to| to.fill(0))
    }

    fn flush(&self) -> Result<(), WriteError> {
        Ok(())
    }
}
