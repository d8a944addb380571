use std::thread;

use verimount_source::{ReadAhead, ReadAt, ReadError, Scratch};

use crate::{Content, Error, fault::Fault, file::CHUNK};

/// What of content that is not on this machine is fetched before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prefetch {
    /// Nothing.
    None,
    /// The Merkle tree without its lowest level, and where an image most likely has its inodes, so that later reads wait for
    /// fewer requests.
    #[default]
    Metadata,
    /// Everything, in the background, so that the cache has it when it is full.
    All,
}

impl Prefetch {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Metadata, Self::All];

    /// Its name, as the command has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Metadata => "metadata",
            Self::All => "all",
        }
    }
}

impl Content {
    /// Begins to fetch content that is not on this machine. Nothing waits for it, and its failures are ignored.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if all of it would be thrown away, as there is no cache; nothing is
    /// fetched then.
    pub fn prefetch(&self, what: Prefetch) -> Result<(), Error> {
        let (Some(reader), Some(origin)) = (&self.opened.reader, &self.opened.origin) else {
            return Ok(());
        };
        if what == Prefetch::All && origin.status().cache.is_none() {
            return Err(Fault::NoCache.at(&self.opened.location));
        }
        if what != Prefetch::None {
            reader.will_need_tree();
            if let Ok(Some(tree)) = self.tree() {
                tree.will_walk();
            }
        }
        if what == Prefetch::All {
            let reader = ReadAhead::new(reader.clone());
            let builder = thread::Builder::new().name("prefetch".to_owned());
            let _ = builder.spawn(move || read_all(&reader));
        }
        Ok(())
    }
}

/// Reads until something cannot be fetched: the mount has ended, or there is no connection.
fn read_all(reader: &dyn ReadAt) {
    let mut scratch = Scratch::default();
    for start in (0..reader.size()).step_by(CHUNK) {
        let len = (reader.size() - start).min(CHUNK as u64) as usize;
        match reader.read_borrowed(&mut scratch, start, len) {
            Ok(_) | Err(ReadError::Rejected(_)) => {}
            Err(_) => return,
        }
    }
}
