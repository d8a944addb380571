//! Reading verified content through a cache that anything may have happened to.

mod damage;
mod directory;
mod eviction;
mod full;
mod keeping;

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

use tempfile::TempDir;
use verimount_cache::{Cache, Cached, Key, Part};
use verimount_source::{Fetch, GRANULE, Given, ReadAt, ReadError};
use verimount_testkit::go_on;
use verimount_verity::{
    FileDigest, SealLayout, Sealed, TreeParams, Trust, VerifiedReader, VerifyOptions, seal,
};

/// More than any test keeps.
const LARGE: Option<u64> = Some(1 << 40);

/// A sealed file, and its digest.
struct Content {
    data: Vec<u8>,
    sealed: Vec<u8>,
    digest: FileDigest,
}

impl Content {
    fn new(data: Vec<u8>) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &data).unwrap();
        let (layout, params) = (SealLayout::Appended, TreeParams::default());
        let threads = NonZeroUsize::MIN;
        let descriptor = seal(&data, file.as_file(), layout, &params, threads, &mut go_on);
        Self {
            digest: descriptor.unwrap().file_digest(),
            sealed: std::fs::read(file.path()).unwrap(),
            data,
        }
    }

    fn server(&self) -> Arc<Server> {
        Arc::new(Server {
            bytes: self.sealed.clone(),
            is_off: AtomicBool::new(false),
            reads: AtomicU64::new(0),
        })
    }

    fn key(&self) -> Key {
        Key::new(&self.digest.to_string().replace(':', "-")).unwrap()
    }

    /// The file of its object.
    fn file(&self, cache: &Cache) -> PathBuf {
        cache.path().join(format!("{}.data", self.key()))
    }

    /// Reads it through a cache, while the server lives.
    fn open(&self, cache: &Cache, server: &Arc<Server>) -> VerifiedReader {
        let object = cache.object(&self.key(), Part::Data, server.bytes.len() as u64);
        let cached = Arc::new(Cached::new(server.clone(), object.unwrap()));
        // The descriptor is trusted only after a comparison with the digest, so it is asked for if that fails.
        let trust = Trust::Digest(self.digest);
        let open = || {
            let seal = Sealed::open_appended(cached.clone())?.accepted_by(&trust)?;
            VerifiedReader::new(seal, VerifyOptions::default())
        };
        open().unwrap_or_else(|_| {
            cached.distrust(0..cached.length(), &Given::default());
            open().unwrap()
        })
    }

    #[track_caller]
    fn assert_read_by(&self, reader: &VerifiedReader) {
        let mut buf = vec![0; 300_000];
        let len = buf.len();
        for (start, expected) in (0..).step_by(len).zip(self.data.chunks(len)) {
            let buf = &mut buf[..expected.len()];
            reader.read_exact_at(buf, start).unwrap();
            assert!(buf == expected, "wrong bytes at {start}");
        }
    }
}

/// Where content comes from.
struct Server {
    bytes: Vec<u8>,
    is_off: AtomicBool,
    reads: AtomicU64,
}

impl Server {
    fn switch_off(&self) {
        self.is_off.store(true, SeqCst);
    }

    fn reads(&self) -> u64 {
        self.reads.load(SeqCst)
    }
}

impl ReadAt for Server {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.reads.fetch_add(1, SeqCst);
        if self.is_off.load(SeqCst) {
            return Err(ReadError::Io {
                offset,
                len: buf.len(),
                source: std::io::ErrorKind::ConnectionRefused.into(),
            });
        }
        self.bytes.read_exact_at(buf, offset)
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn cache(folder: &Path, size: Option<u64>) -> Cache {
    Cache::open(folder.join("cache"), size).unwrap()
}

/// The bytes that all objects take on disk.
fn allocated(cache: &Cache) -> u64 {
    cache
        .stored()
        .unwrap()
        .iter()
        .map(|stored| stored.allocated)
        .sum()
}
