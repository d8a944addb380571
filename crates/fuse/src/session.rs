use std::{
    fmt, io, mem,
    num::NonZeroUsize,
    os::fd::OwnedFd,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use crate::{
    Agreement, Answering, Awake, Connection, FileSystem, Wishes,
    abi::{InHeader, MIN_READ_BUFFER, WriteIn},
    device::Device,
    init::agree,
    pool::Pool,
    queues::Place,
    worker::Worker,
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
    /// What is used unless the queues are.
    transport: Transport,
}

/// A file system that is being served.
pub struct Serving {
    threads: Vec<Handle>,
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
    pub fn start(mut self, awake: Option<Awake>) -> io::Result<Serving> {
        let awake = awake.map(Arc::new);
        let queues = mem::take(&mut self.queues);
        let (mut handles, all_registered) = self.serve_queues(queues, awake.as_ref())?;
        let (devices, transport) = match all_registered {
            // What needs no answer comes through the device even so.
            true => (vec![self.device.clone()], Transport::IoUring),
            false => (mem::take(&mut self.devices), self.transport),
        };
        match self.wishes.answering {
            Answering::Fairly => handles.extend(self.serve_fairly(devices, awake.as_ref())?),
            _ => {
                for device in devices {
                    let worker = self.worker(awake.as_ref());
                    let room = buffer_size(&self.wishes);
                    handles.push(spawn(move || worker().serve_device(&device, room))?);
                }
            }
        }
        Ok(Serving {
            threads: handles,
            transport,
        })
    }

    /// Serves each device from a thread of its own, and all from further ones when those wait.
    fn serve_fairly(
        &self,
        devices: Vec<Arc<Device>>,
        awake: Option<&Arc<Awake>>,
    ) -> io::Result<Vec<Handle>> {
        let room = buffer_size(&self.wishes);
        let pool = Pool::new(devices.len());
        let threads = devices.into_iter().map(|device| {
            let (worker, pool) = (self.worker(awake), pool.clone());
            spawn(move || {
                let end = worker().serve_fairly(&device, room, &pool, false);
                pool.end();
                end
            })
        });
        let mut handles: Vec<_> = threads.collect::<Result<_, _>>()?;
        let (worker, device) = (self.worker(awake), self.device.clone());
        handles.push(spawn(move || {
            pool.keep(|| {
                if let Err(error) = worker().serve_fairly(&device, room, &pool, true) {
                    tracing::error!(%error, "a thread that answers the kernel ended");
                }
            });
            Ok(())
        })?);
        Ok(handles)
    }

    /// What makes a worker, in the thread where it is called.
    fn worker(&self, awake: Option<&Arc<Awake>>) -> impl Fn() -> Worker<F> + use<F> {
        let (fs, awake) = (self.fs.clone(), awake.cloned());
        move || Worker::new(fs.clone(), awake.clone())
    }

    /// Serves the places in the kernel's queues, each from a thread of its own; says whether the
    /// kernel uses them, which is all or none.
    fn serve_queues(
        &self,
        queues: Vec<Place>,
        awake: Option<&Arc<Awake>>,
    ) -> io::Result<(Vec<Handle>, bool)> {
        let (report, reports) = mpsc::channel();
        let expected = queues.len();
        let threads = queues.into_iter().map(|place| {
            let (worker, report) = (self.worker(awake), report.clone());
            spawn(move || {
                place.move_here();
                match place.ring.register() {
                    Ok(ring) => {
                        let _ = report.send(());
                        drop(report);
                        worker().serve_ring(ring)
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
