use std::{
    fmt, io,
    num::NonZeroUsize,
    os::fd::OwnedFd,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use crate::{
    Agreement, Answering, Awake, Connection, FileSystem, Wishes,
    abi::{InHeader, MIN_READ_BUFFER, WriteIn},
    callers::Callers,
    device::Device,
    init::agree,
    pool::Pool,
    queues::Place,
    watch::Watch,
    worker::Workers,
};

/// A thread that answers the kernel.
type Handle = JoinHandle<io::Result<()>>;

/// A file system's connection to the kernel, agreed on. No thread answers yet, and all descriptors
/// that answering takes are open.
pub struct Session<F: FileSystem> {
    fs: Arc<F>,
    device: Arc<Device>,
    wishes: Wishes,
    agreement: Agreement,
    queues: Vec<Place>,
    devices: Vec<Arc<Device>>,
    callers: Option<Callers>,
    /// What is used unless the queues are.
    transport: Transport,
}

/// A file system that is being served.
pub struct Serving {
    threads: Vec<Handle>,
    /// Lives as long as those do.
    watch: Option<(Arc<Watch>, Handle)>,
    transport: Transport,
}

/// How requests come and answers go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Through `/dev/fuse`, opened once.
    SharedDevice,
    /// Through `/dev/fuse`, opened by each thread for itself.
    OwnDevices,
    /// Through io_uring, on the processor of the caller.
    IoUring,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SharedDevice => "device shared",
            Self::OwnDevices => "device per thread",
            Self::IoUring => "io_uring",
        })
    }
}

impl<F: FileSystem> Session<F> {
    /// Agrees with the kernel on how to talk. `device` is `/dev/fuse`, opened and mounted.
    ///
    /// It is to be answered through io_uring where that is agreed on, else by `threads` threads
    /// through `/dev/fuse`, or more where it is done fairly.
    ///
    /// # Errors
    /// What the system says; `Unsupported` for a kernel before Linux 5.17.
    pub fn new(
        fs: Arc<F>,
        device: OwnedFd,
        wishes: Wishes,
        threads: NonZeroUsize,
    ) -> io::Result<Self> {
        let device = Arc::new(Device::new(device));
        let (agreement, queues) = agree(&device, &wishes)?;
        let own = match queues.is_empty() {
            true => own_devices(&device, threads).ok(),
            // Should the kernel refuse a queue after all, the one device does.
            false => None,
        };
        let transport = match own {
            Some(_) => Transport::OwnDevices,
            None => Transport::SharedDevice,
        };
        Ok(Self {
            fs,
            devices: own.unwrap_or_else(|| vec![device.clone(); threads.get()]),
            device,
            callers: Callers::open(),
            wishes,
            agreement,
            queues,
            transport,
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

    /// Starts the threads that answer the kernel. `awake` keeps processors awake meanwhile.
    ///
    /// # Errors
    /// What the system says to a new thread.
    pub fn start(self, awake: Option<Awake>) -> io::Result<Serving> {
        let room = buffer_size(&self.wishes);
        let pool = match self.wishes.answering {
            Answering::Fairly => Some(Pool::new(self.devices.len())),
            Answering::ByThreads | Answering::ByProcessor(_) => None,
        };
        let callers = self.callers;
        let watch = callers.map(|callers| Watch::new(callers, pool.clone()));
        let workers = Workers {
            fs: self.fs,
            awake: awake.map(Arc::new),
            watch: watch.clone(),
        };
        let (mut threads, all_registered) = serve_queues(self.queues, &workers)?;
        let (devices, transport) = match all_registered {
            // What needs no answer comes through the device even so.
            true => (vec![self.device.clone()], Transport::IoUring),
            false => (self.devices, self.transport),
        };
        threads.extend(match pool {
            Some(pool) => serve_fairly(devices, self.device, room, &workers, pool)?,
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
}

/// Serves each device from a thread of its own.
fn serve_devices<F: FileSystem>(
    devices: Vec<Arc<Device>>,
    room: usize,
    workers: &Workers<F>,
) -> io::Result<Vec<Handle>> {
    let threads = devices.into_iter().map(|device| {
        let workers = workers.clone();
        spawn(move || workers.worker().serve_device(&device, room))
    });
    threads.collect()
}

/// Serves each device from a thread of its own, and all, as `device` does, from further ones when
/// those wait.
fn serve_fairly<F: FileSystem>(
    devices: Vec<Arc<Device>>,
    device: Arc<Device>,
    room: usize,
    workers: &Workers<F>,
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
    let workers = workers.clone();
    threads.push(spawn(move || {
        pool.keep(|| log_end(workers.worker().serve_fairly(&device, room, &pool, true)));
        Ok(())
    })?);
    Ok(threads)
}

/// Serves the places in the kernel's queues, each from a thread of its own; says whether the
/// kernel uses them, which is all or none.
fn serve_queues<F: FileSystem>(
    queues: Vec<Place>,
    workers: &Workers<F>,
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

/// Looks for callers that were killed, in a thread of its own.
fn start_watch<F: FileSystem>(
    watch: Arc<Watch>,
    workers: Workers<F>,
    room: usize,
) -> io::Result<(Arc<Watch>, Handle)> {
    let kept = watch.clone();
    let thread = spawn(move || {
        kept.keep(|unique, way| log_end(workers.worker().succeed(unique, way, room)));
        Ok(())
    })?;
    Ok((watch, thread))
}

/// Notes how a thread ended that nobody waits for.
fn log_end(end: io::Result<()>) {
    if let Err(error) = end {
        tracing::error!(%error, "a thread that answers the kernel ended");
    }
}

/// A connection of its own for each thread.
///
/// # Errors
/// What the system says. Some leave opening `/dev/fuse` to root.
fn own_devices(device: &Device, threads: NonZeroUsize) -> io::Result<Vec<Arc<Device>>> {
    let own = (0..threads.get()).map(|_| device.clone_connection().map(Arc::new));
    own.collect()
}

fn spawn(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<Handle> {
    thread::Builder::new().name("fuse".to_owned()).spawn(work)
}

/// The room for the largest request.
fn buffer_size(wishes: &Wishes) -> usize {
    let write = size_of::<InHeader>() + size_of::<WriteIn>() + wishes.max_write as usize;
    write.max(MIN_READ_BUFFER)
}

impl Serving {
    /// How it is served.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Waits for the end of the mount.
    ///
    /// # Errors
    /// What the system said to one of the threads.
    pub fn join(self) -> io::Result<()> {
        // Each is waited for, whatever became of another.
        let ends: Vec<_> = self.threads.into_iter().map(end_of).collect();
        if let Some((watch, thread)) = self.watch {
            watch.end();
            end_of(thread)?;
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
