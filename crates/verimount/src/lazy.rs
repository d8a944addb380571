use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use verimount_remote::Error as RemoteError;
use verimount_source::{ReadAt, ReadError, check_range};

use crate::{Access, Error, Location};

/// Content that is opened when something of it is first read.
pub(crate) struct Lazy {
    location: Location,
    access: Access,
    size: u64,
    opened: Mutex<Option<Arc<dyn ReadAt>>>,
}

impl Lazy {
    /// The content at `location`, which is expected to have `size` bytes.
    pub(crate) fn new(location: Location, access: Access, size: u64) -> Self {
        Self {
            location,
            access,
            size,
            opened: Mutex::default(),
        }
    }

    /// A failure is not kept: the next read tries again.
    fn open(&self) -> io::Result<Arc<dyn ReadAt>> {
        let mut opened = self.opened();
        if let Some(opened) = &*opened {
            return Ok(opened.clone());
        }
        let (source, _) = self
            .location
            .open(&self.access)
            .map_err(|error| match error {
                Error::Io { source, .. } => source,
                other => io::Error::other(other),
            })?;
        if source.size() != self.size {
            return Err(RemoteError::Replaced.into());
        }
        Ok(opened.insert(source).clone())
    }

    fn opened(&self) -> MutexGuard<'_, Option<Arc<dyn ReadAt>>> {
        // It is only ever set.
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadAt for Lazy {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let len = buf.len();
        check_range(offset, len, self.size)?;
        let source = self.open().map_err(|source| ReadError::Io {
            offset,
            len,
            source,
        })?;
        source.read_exact_at(buf, offset)
    }

    fn will_need(&self, offset: u64, len: u64) {
        // Opening would wait.
        if let Ok(opened) = self.opened.try_lock()
            && let Some(source) = &*opened
        {
            source.will_need(offset, len);
        }
    }

    fn distrust(&self, offset: u64, len: u64) -> bool {
        let opened = self.opened().clone();
        opened.is_some_and(|source| source.distrust(offset, len))
    }
}
