use crate::{ReadAt, ReadError, check_range};

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

impl ReadAt for Vec<u8> {
    fn size(&self) -> u64 {
        self.as_slice().size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.as_slice().read_exact_at(buf, offset)
    }
}
