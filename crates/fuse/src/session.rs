use std::{
    io,
    num::NonZeroUsize,
    os::fd::OwnedFd,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use verimount_names::named;

use crate::{
    Answering, Awake, Capabilities, Connection, FileSystem, SessionOptions,
    abi::{InHeader, MIN_READ_BUFFER, WriteIn},
    callers::Callers,
    device::Device,
    init::agree,
    pool::Pool,
    queues::Slot,
    watch::Watch,
    worker::Workers,
};

/// A thread that answers the kernel.
type Handle = JoinHandle<io::Result<()>>;

/// A file system that is being served, until the mount ends, even if this is dropped before.
pub struct Serving {
    threads: Vec<Handle>,
    /// Ends by itself after `threads`.
    watch: Option<Handle>,
    transport: Transport,
}

named! {
    /// How requests reach this process.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Transport {
        /// Through one descriptor of `/dev/fuse`.
        SharedDevice = "device shared",
        /// Through a descriptor of `/dev/fuse` for each thread.
        OwnDevices = "device per thread",
        /// Through io_uring, on the caller's processor.
        IoUring = "io_uring",
    }
}

/// Does the INIT negotiation, calls `agreed` with the granted capabilities, and starts the threads that answer the kernel: when this returns,
/// the mount can be used. `device` is the open `/dev/fuse` of a mount. `awake` keeps idle processors awake meanwhile.
///
/// Requests come through io_uring if that is negotiated; otherwise through `/dev/fuse`, for `threads` threads, or more with
/// [`Answering::Fairly`].
///
/// # Errors
/// `Unsupported` for a kernel before Linux 5.17, or that of `agreed`; otherwise the system's error.
pub fn serve<F: FileSystem>(
    fs: Arc<F>,
    device: OwnedFd,
    requested: &SessionOptions,
    threads: NonZeroUsize,
    awake: Option<Awake>,
    agreed: impl FnOnce(Capabilities, Connection) -> io::Result<()>,
) -> io::Result<Serving> {
    let device = Arc::new(Device::new(device));
    let (granted, queues) = agree(&device, requested)?;
    let (devices, transport) = devices(&device, threads, !queues.is_empty());
    let callers = Callers::open();
    let room = buffer_size(requested);
    let pool = match requested.answering {
        Answering::Fairly => Some(Pool::new(devices.len())),
        Answering::ByThreads | Answering::ByProcessor(_) => None,
    };
    let watch = (callers.is_some() || requested.holds)
        .then(|| Watch::new(callers, device.clone(), pool.clone()));
    agreed(granted, Connection::new(device.clone(), watch.clone()))?;
    let workers = Arc::new(Workers {
        fs,
        awake: awake.map(Arc::new),
        watch: watch.clone(),
        holds: requested.holds,
    });
    let (mut threads, all_registered) = serve_queues(queues, &workers)?;
    let (devices, transport) = if all_registered {
        // Requests without an answer come through the device even so.
        (vec![device.clone()], Transport::IoUring)
    } else {
        (devices, transport)
    };
    threads.extend(match pool {
        Some(pool) => serve_fairly(devices, device, room, &workers, pool)?,
        None => serve_devices(devices, room, &workers)?,
    });
    let watch = watch
        .map(|watch| start_watch(watch, workers, room))
        .transpose()?;
    Ok(Serving {
        threads,
        watch,
        transport,
    })
}

/// Serves each device from a thread of its own.
fn serve_devices<F: FileSystem>(
    devices: Vec<Arc<Device>>,
    room: usize,
    workers: &Arc<Workers<F>>,
) -> io::Result<Vec<Handle>> {
    let threads = devices.into_iter().map(|device| {
        let workers = workers.clone();
        spawn(move || workers.worker().serve_device(&device, room))
    });
    threads.collect()
}

/// Serves each device from a thread of its own. While all of these wait, a pool adds threads, which
/// share `device`.
fn serve_fairly<F: FileSystem>(
    devices: Vec<Arc<Device>>,
    device: Arc<Device>,
    room: usize,
    workers: &Arc<Workers<F>>,
    pool: Arc<Pool>,
) -> io::Result<Vec<Handle>> {
    let threads = devices.into_iter().map(|device| {
        let (workers, pool) = (workers.clone(), pool.clone());
        spawn(move || {
            let end = workers.worker().serve_fairly(&device, room, &pool, false);
            pool.end();
            end
        })
    });
    let mut threads: Vec<_> = threads.collect::<Result<_, _>>()?;
    if workers.holds {
        let (workers, pool) = (workers.clone(), pool.clone());
        threads.push(spawn(move || {
            workers.worker().serve_ready(&pool);
            Ok(())
        })?);
    }
    let workers = workers.clone();
    threads.push(spawn(move || {
        pool.keep(|| log_end(workers.worker().serve_fairly(&device, room, &pool, true)));
        Ok(())
    })?);
    Ok(threads)
}

/// Serves the slots in the kernel's queues, each from a thread of its own. Returns whether the kernel
/// uses them, which it does only if all were registered.
fn serve_queues<F: FileSystem>(
    queues: Vec<Slot>,
    workers: &Arc<Workers<F>>,
) -> io::Result<(Vec<Handle>, bool)> {
    let (report, reports) = mpsc::channel();
    let expected = queues.len();
    let threads = queues.into_iter().map(|place| {
        let (workers, report) = (workers.clone(), report.clone());
        spawn(move || {
            place.move_here();
            match place.ring.register() {
                Ok(ring) => {
                    let _ = report.send(());
                    drop(report);
                    workers.worker().serve_ring(ring.wait()?)
                }
                Err(error) => {
                    tracing::warn!(%error, "the kernel refuses a ring of io_uring");
                    Ok(())
                }
            }
        })
    });
    let threads = threads.collect::<Result<_, _>>()?;
    drop(report);
    let registered = reports.iter().count();
    Ok((threads, expected > 0 && registered == expected))
}

/// Starts the thread that looks for killed callers, and for the end of the mount.
fn start_watch<F: FileSystem>(
    watch: Arc<Watch>,
    workers: Arc<Workers<F>>,
    room: usize,
) -> io::Result<Handle> {
    spawn(move || {
        let succeed = |unique, way| log_end(workers.worker().succeed(unique, way, room));
        let fs = &workers.fs;
        watch.keep(succeed, || fs.unmounted(), |request| fs.let_go(request));
        Ok(())
    })
}

/// Logs the error of a thread that is not joined.
fn log_end(end: io::Result<()>) {
    if let Err(error) = end {
        tracing::error!(%error, "a thread that answers the kernel ended");
    }
}

/// A descriptor for each thread, unless the kernel has queues: if it refuses one after all, one descriptor must do. So it must on
/// systems where only root may open `/dev/fuse`.
fn devices(
    device: &Arc<Device>,
    threads: NonZeroUsize,
    has_queues: bool,
) -> (Vec<Arc<Device>>, Transport) {
    let shared = vec![device.clone(); threads.get()];
    if has_queues {
        return (shared, Transport::SharedDevice);
    }
    let own = (0..threads.get()).map(|_| device.clone_connection().map(Arc::new));
    match own.collect() {
        Ok(own) => (own, Transport::OwnDevices),
        Err(_) => (shared, Transport::SharedDevice),
    }
}

fn spawn(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<Handle> {
    thread::Builder::new().name("fuse".to_owned()).spawn(work)
}

/// The room for the largest request.
fn buffer_size(requested: &SessionOptions) -> usize {
    let write = size_of::<InHeader>() + size_of::<WriteIn>() + requested.max_write as usize;
    write.max(MIN_READ_BUFFER)
}

impl Serving {
    /// How requests reach this process.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Waits for the end of the mount.
    ///
    /// # Errors
    /// The first error of one of the threads.
    pub fn join(self) -> io::Result<()> {
        // All are joined, even if one failed.
        let ends: Vec<_> = self.threads.into_iter().map(end_of).collect();
        if let Some(watch) = self.watch {
            end_of(watch)?;
        }
        ends.into_iter().collect()
    }
}

fn end_of(thread: Handle) -> io::Result<()> {
    let panicked = |_| {
        Err(io::Error::other(
            "a thread that answers the kernel panicked",
        ))
    };
    thread.join().unwrap_or_else(panicked)
}
