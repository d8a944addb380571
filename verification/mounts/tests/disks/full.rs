//! A volume is a sparse file on a file system that becomes full: no flushed write is lost, and nothing is
//! confirmed after a failure.

use std::{collections::HashMap, sync::atomic::Ordering::SeqCst};

use super::{MODES, Mode, Served, format, open_disk};
use crate::prelude::*;

/// The environment variable with the number of seeds to be tried in each mode, if not one.
const SEEDS: &str = "VERIMOUNT_FULL_SEEDS";

/// The size of the file system.
const HOST: u64 = 48 << 20;

const BLOCK: usize = 4096;

/// The blocks that each of the writers has for itself: of a volume of 40 MiB, nearly all.
const BLOCKS: usize = 4800;

const WRITERS: usize = 2;

/// How many blocks a writer writes before it flushes.
const BETWEEN_FLUSHES: usize = 16;

/// How often it retries after a failure.
const TRIES: usize = 3;

#[test]
fn through_fuse() {
    for_all_seeds(Way::Fuse);
}

#[test]
fn through_nbd() {
    for_all_seeds(Way::Nbd);
}

fn for_all_seeds(way: Way) {
    needs!(root_or_skip());
    let seeds = env::var(SEEDS).map_or(1, |seeds| seeds.parse().unwrap());
    for mode in MODES {
        let mut confirmed = 0;
        for seed in 1..=seeds {
            match fill(way, mode, seed) {
                Some(blocks) => confirmed += blocks,
                None => return,
            }
        }
        println!("{way:?}, {mode}: {seeds} seeds, {confirmed} blocks confirmed, none lost");
    }
}

/// Writes to a volume until its file system is full; returns how many blocks were confirmed; `None` if that
/// is impossible here.
fn fill(way: Way, mode: Mode, seed: u64) -> Option<usize> {
    let world = World::with_mount_point()?;
    let host_image = world.path("host.img");
    File::create(&host_image).unwrap().set_len(HOST).unwrap();
    let mut make = Command::new(tools::find("mkfs.ext4")?);
    make.args(["-q", "-m", "0"]).arg(&host_image);
    finish(make).succeeds();
    let device = Loop::new(&host_image, false)?;
    let host = world.directory("host");
    let _mounted = KernelMount::ext4(&device, &host);
    let volume = host.join("vol.img");
    format(&volume, 40);
    let mut random = Random::new(seed);
    let filler = host.join("filler");
    let free = ((2 << 20) + random.below(3 << 20)) as u64;
    leave_free(&host, &filler, free);

    let serve = || way.serve(&world, &volume, mode);
    let daemon = serve();
    let is_refusing = AtomicBool::new(false);
    let surprises = AtomicUsize::new(0);
    let records: Vec<Record> = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let (disk, random) = (way.open(&daemon), Random::new(random.number()));
                let mut writer = Writer {
                    disk,
                    number,
                    random,
                    record: Record::default(),
                    is_refusing: &is_refusing,
                    surprises: &surprises,
                };
                scope.spawn(move || {
                    writer.run();
                    writer.record
                })
            })
            .collect();
        let join = |writer: thread::ScopedJoinHandle<'_, _>| writer.join().unwrap();
        writers.into_iter().map(join).collect()
    });
    // What it leaves undone is what the next opening finds.
    let _ = daemon.end();

    fs::remove_file(&filler).unwrap();
    let daemon = serve();
    let mut disk = way.open(&daemon);
    let may_be_bad = mode == Mode::Direct;
    let lost: usize = records
        .iter()
        .map(|record| record.lost(&mut *disk, may_be_bad))
        .sum();
    drop(disk);
    daemon.unmount();
    let confirmed: usize = records.iter().map(|record| record.confirmed).sum();
    let surprises = surprises.into_inner();
    assert!(
        lost == 0 && surprises == 0,
        "{way:?}, {mode}, seed {seed}: {confirmed} writes were confirmed, LOST {lost} blocks, and \
         {surprises} writes and flushes succeeded after a failure"
    );
    assert!(is_refusing.into_inner(), "the file system was not full");
    assert!(confirmed > 0, "this shows nothing");
    Some(confirmed)
}

/// Fills a file system except for this much space.
fn leave_free(host: &Path, filler: &Path, free: u64) {
    let filler = File::create(filler).unwrap();
    let room = statvfs(host).unwrap();
    let taken = (room.f_bavail * room.f_frsize).saturating_sub(free);
    fallocate(&filler, FallocateFlags::empty(), 0, taken).unwrap();
    filler.sync_all().unwrap();
}

/// How a volume is used.
#[derive(Debug, Clone, Copy)]
enum Way {
    Fuse,
    Nbd,
}

impl Way {
    fn serve(self, world: &World, volume: &Path, mode: Mode) -> Served {
        match self {
            Self::Fuse => Served::mount(volume, &world.path("mnt"), mode),
            Self::Nbd => Served::export(volume, &world.path("socket"), mode),
        }
    }

    fn open(self, daemon: &Served) -> Box<dyn Disk + Send> {
        match self {
            Self::Fuse => Box::new(open_disk(daemon)),
            Self::Nbd => Box::new(NbdClient::connect(&daemon.place)),
        }
    }
}

trait Disk {
    fn read(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
    fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;
    fn flush(&mut self) -> io::Result<()>;
}

impl Disk for File {
    fn read(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(bytes, offset)
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// A minimal NBD client.
struct NbdClient(UnixStream);

impl NbdClient {
    fn connect(socket: &Path) -> Self {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.read_exact(&mut [0; 18]).unwrap();
        // The fixed newstyle handshake without zeros, and the export that has no name.
        let wanted = [
            &3_u32.to_be_bytes()[..],
            b"IHAVEOPT",
            &[0, 0, 0, 1],
            &[0; 4],
        ]
        .concat();
        stream.write_all(&wanted).unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
        Self(stream)
    }

    fn request(&mut self, command: u16, offset: u64, len: usize, data: &[u8]) -> io::Result<()> {
        let header = [
            &0x2560_9513_u32.to_be_bytes()[..],
            &0_u16.to_be_bytes(),
            &command.to_be_bytes(),
            &[0; 8],
            &offset.to_be_bytes(),
            &(len as u32).to_be_bytes(),
        ];
        self.0.write_all(&header.concat())?;
        self.0.write_all(data)?;
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply)?;
        match u32::from_be_bytes(*reply[4..].first_chunk().unwrap()) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error as i32)),
        }
    }
}

impl Disk for NbdClient {
    fn read(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.request(0, offset, bytes.len(), &[])?;
        self.0.read_exact(bytes)
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.request(1, offset, bytes.len(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.request(3, 0, 0, &[])
    }
}

/// What a writer has written.
#[derive(Default)]
struct Record {
    writes: Vec<Attempt>,
    /// How many of them were flushed.
    confirmed: usize,
}

struct Attempt {
    block: usize,
    content: u64,
    has_succeeded: bool,
}

impl Record {
    /// How many blocks have neither their confirmed content nor a later one.
    fn lost(&self, disk: &mut dyn Disk, may_be_bad: bool) -> usize {
        let mut allowed: HashMap<usize, Vec<u64>> = HashMap::new();
        let (confirmed, others) = self.writes.split_at(self.confirmed);
        for write in confirmed.iter().filter(|write| write.has_succeeded) {
            allowed.insert(write.block, vec![write.content]);
        }
        for write in others {
            // What was never confirmed may be anything.
            if let Some(contents) = allowed.get_mut(&write.block) {
                contents.push(write.content);
            }
        }
        let mut is_lost = |block: usize, contents: &[u64]| {
            let mut found = [0; BLOCK];
            match disk.read(&mut found, (block * BLOCK) as u64) {
                Ok(()) => !contents.iter().any(|&content| found == bytes_of(content)),
                Err(_) => !(may_be_bad && contents.len() > 1),
            }
        };
        let lost = allowed
            .iter()
            .filter(|(block, contents)| is_lost(**block, contents));
        lost.count()
    }
}

fn bytes_of(content: u64) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    let (words, _) = bytes.as_chunks_mut();
    words.fill(content.to_le_bytes());
    bytes
}

struct Writer<'a> {
    disk: Box<dyn Disk + Send>,
    number: usize,
    random: Random,
    record: Record,
    /// Whether a request has failed.
    is_refusing: &'a AtomicBool,
    /// How many requests that began later succeeded.
    surprises: &'a AtomicUsize,
}

impl Writer<'_> {
    /// Writes and flushes until it is refused, and a little longer.
    fn run(&mut self) {
        let mut refused = 0;
        while refused < TRIES {
            for _ in 0..BETWEEN_FLUSHES {
                self.write();
            }
            let is_confirmed = self.tries(|disk| disk.flush());
            if is_confirmed {
                self.record.confirmed = self.record.writes.len();
            } else {
                refused += 1;
            }
            // Where flushes go on to succeed although writes fail, it ends, too.
            refused += usize::from(
                self.record
                    .writes
                    .last()
                    .is_some_and(|last| !last.has_succeeded),
            );
        }
    }

    fn write(&mut self) {
        let block = self.number * BLOCKS + self.random.below(BLOCKS);
        let content = self.random.number() | 1;
        let has_succeeded =
            self.tries(|disk| disk.write(&bytes_of(content), (block * BLOCK) as u64));
        self.record.writes.push(Attempt {
            block,
            content,
            has_succeeded,
        });
    }

    fn tries(&mut self, request: impl FnOnce(&mut dyn Disk) -> io::Result<()>) -> bool {
        let is_refusing = self.is_refusing.load(SeqCst);
        let succeeds = request(&mut *self.disk).is_ok();
        if succeeds {
            self.surprises.fetch_add(is_refusing.into(), SeqCst);
        } else {
            self.is_refusing.store(true, SeqCst);
        }
        succeeds
    }
}
