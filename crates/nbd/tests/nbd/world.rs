//! A server with a disk in memory.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use rustix::io::Errno;
use verimount_nbd::{BlockSizes, Export, Limits, OwnOption, Server, Tell};

use super::client::Client;

/// The size of the disk, in bytes.
pub(crate) const SIZE: u64 = 1 << 20;

/// An option of the disk's own, with one reply.
pub(crate) const NAME: u32 = 1 << 30;

/// Its reply.
pub(crate) const A_NAME: &[u8] = b"a disk in memory";

/// An option of the disk's own, with numbers as replies.
pub(crate) const COUNT: u32 = NAME + 1;

/// Reading this byte fails.
pub(crate) const BAD: u64 = 500_000;

/// A disk in memory that records its operations.
pub(crate) struct Disk {
    pub(crate) bytes: Mutex<Vec<u8>>,
    pub(crate) reads: AtomicUsize,
    pub(crate) flushes: Mutex<usize>,
    pub(crate) trims: Mutex<Vec<(u64, u64)>>,
    pub(crate) is_read_only: bool,
    pub(crate) can_trim: bool,
    /// How far it counts.
    pub(crate) last: u64,
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            bytes: Mutex::new(vec![7; SIZE as usize]),
            reads: AtomicUsize::new(0),
            flushes: Mutex::default(),
            trims: Mutex::default(),
            is_read_only: false,
            can_trim: true,
            last: 2,
        }
    }
}

impl Export for Disk {
    fn size(&self) -> u64 {
        SIZE
    }

    fn block_sizes(&self) -> BlockSizes {
        BlockSizes {
            minimum: 512,
            preferred: 65536,
        }
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn can_trim(&self) -> bool {
        self.can_trim
    }

    fn own_option(&self, option: u32) -> Option<OwnOption<'_>> {
        let last = self.last;
        let count = move |tell: &mut Tell<'_>| {
            (0..=last).try_for_each(|number| tell(&number.to_be_bytes()))
        };
        match option {
            NAME => Some(OwnOption::Reply(A_NAME.to_vec())),
            COUNT => Some(OwnOption::Talk(Box::new(count))),
            _ => None,
        }
    }

    fn read(&self, buf: &mut [u8], offset: u64) -> Result<(), Errno> {
        if (offset..offset + buf.len() as u64).contains(&BAD) {
            return Err(Errno::IO);
        }
        self.reads.fetch_add(1, SeqCst);
        buf.copy_from_slice(&self.bytes.lock().unwrap()[offset as usize..][..buf.len()]);
        Ok(())
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<(), Errno> {
        assert!(bytes != b"panic", "panicking on request");
        self.bytes.lock().unwrap()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&self) -> Result<(), Errno> {
        *self.flushes.lock().unwrap() += 1;
        Ok(())
    }

    fn trim(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.trims.lock().unwrap().push((offset, len));
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.bytes.lock().unwrap()[offset as usize..][..len as usize].fill(0);
        Ok(())
    }
}

/// Serves a disk while `work` uses it, and returns the disk.
pub(crate) fn serving(disk: Disk, work: impl FnOnce(&dyn Fn() -> Client, &Disk)) -> Disk {
    serving_within(Limits::default(), disk, work)
}

/// Serves a disk within these limits while `work` uses it, and returns the disk.
pub(crate) fn serving_within(
    limits: Limits,
    disk: Disk,
    work: impl FnOnce(&dyn Fn() -> Client, &Disk),
) -> Disk {
    serving_at_within(limits, disk, |socket, disk| {
        work(&|| Client::connect(socket), disk);
    })
}

/// Serves a disk at a socket while `work` uses that.
pub(crate) fn serving_at(disk: Disk, work: impl FnOnce(&Path, &Disk)) -> Disk {
    serving_at_within(Limits::default(), disk, work)
}

/// Serves a disk at a socket within these limits while `work` uses that.
pub(crate) fn serving_at_within(
    limits: Limits,
    disk: Disk,
    work: impl FnOnce(&Path, &Disk),
) -> Disk {
    let folder = tempfile::tempdir().unwrap();
    let socket: PathBuf = folder.path().join("socket");
    let mut server = Server::bind(&socket, Default::default()).unwrap();
    server.limits = limits;
    let threads = NonZeroUsize::new(4).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| server.serve(&disk, threads));
        // Even if the work panics, so that the panic is reported.
        let _stop = Stop(&server);
        work(&socket, &disk);
    });
    drop(server);
    assert!(!socket.exists());
    disk
}

/// Stops a server, also if a test panics that it would outlive.
pub(crate) struct Stop<'a>(pub(crate) &'a Server);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
