use std::{
    io,
    num::NonZeroUsize,
    os::fd::OwnedFd,
    sync::Arc,
    thread::{self, JoinHandle},
};

use crate::{
    Agreement, Connection, FileSystem, Wishes,
    abi::{InHeader, MIN_READ_BUFFER, WriteIn},
    device::Device,
    init::agree,
    worker::Worker,
};

/// A file system's connection to the kernel, agreed on and not yet served.
pub struct Session<F: FileSystem> {
    fs: Arc<F>,
    device: Arc<Device>,
    wishes: Wishes,
    agreement: Agreement,
}

/// A file system that is being served.
pub struct Serving {
    threads: Vec<JoinHandle<io::Result<()>>>,
    own_connections: bool,
}

impl<F: FileSystem> Session<F> {
    /// Agrees with the kernel on how to talk. `device` is `/dev/fuse`, opened and mounted.
    ///
    /// # Errors
    /// What the system says; `Unsupported` for a kernel before Linux 5.17.
    pub fn new(fs: Arc<F>, device: OwnedFd, wishes: Wishes) -> io::Result<Self> {
        let device = Arc::new(Device::new(device));
        let agreement = agree(&device, &wishes)?;
        Ok(Self {
            fs,
            device,
            wishes,
            agreement,
        })
    }

    /// What was agreed on.
    pub fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// A way to the kernel that stays while it is served.
    pub fn connection(&self) -> Connection {
        Connection::new(self.device.clone())
    }

    /// Answers the kernel from `threads` threads.
    ///
    /// # Errors
    /// What the system says to a new thread.
    pub fn serve(self, threads: NonZeroUsize) -> io::Result<Serving> {
        let own = (0..threads.get()).map(|_| self.device.clone_connection());
        let own: Option<Vec<_>> = own.map(Result::ok).collect();
        let own_connections = own.is_some();
        let shared = || vec![self.device.clone(); threads.get()];
        let devices = own.map_or_else(shared, |own| own.into_iter().map(Arc::new).collect());
        let threads = devices.into_iter().map(|device| {
            let fs = self.fs.clone();
            let room = buffer_size(&self.wishes);
            let builder = thread::Builder::new().name("fuse".to_owned());
            builder.spawn(move || Worker::new(fs).serve_device(&device, room))
        });
        Ok(Serving {
            threads: threads.collect::<Result<_, _>>()?,
            own_connections,
        })
    }
}

/// The room for the largest request.
fn buffer_size(wishes: &Wishes) -> usize {
    let write = size_of::<InHeader>() + size_of::<WriteIn>() + wishes.max_write as usize;
    write.max(MIN_READ_BUFFER)
}

impl Serving {
    /// Whether each thread has a connection of its own; else they share one.
    pub fn has_own_connections(&self) -> bool {
        self.own_connections
    }

    /// Waits for the end of the mount.
    ///
    /// # Errors
    /// What the system said to one of the threads.
    pub fn join(self) -> io::Result<()> {
        let ends = self.threads.into_iter().map(|thread| {
            let panicked = |_| {
                Err(io::Error::other(
                    "a thread that answers the kernel panicked",
                ))
            };
            thread.join().unwrap_or_else(panicked)
        });
        // Each is waited for, whatever became of another.
        let ends: Vec<_> = ends.collect();
        ends.into_iter().collect()
    }
}
