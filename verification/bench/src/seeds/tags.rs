//! dm-integrity's tags that are not read before they are overwritten (2020): sequential writes of 64 KiB
//! to a volume with 4 bytes of CRC-32C per block.

use std::{
    cell::Cell,
    fs::File,
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use verimount_integrity::{Devices, FormatOptions, Mode, OpenOptions, Volume, format};
use verimount_source::{Counting, FileStorage, MemoryStorage, ReadAt, WriteAt};
use verimount_testkit::{HardDisk, noise};

use crate::{
    lab::Lab,
    report::{Bar, Report, figure, with_range},
    rounds::{Contest, Samples, Spread},
    table::Table,
};

const TITLE: &str = "Table 4: tags that are not read back";

const READ_BACK: &str = "tags read back";
const COLLECTED: &str = "tags collected";
const RAW: &str = "no tags";

/// MB/s in 2020: 1 TB laptop hard disk, metadata buffers of 512 bytes.
const IN_2020: [(&str, &str); 3] = [(READ_BACK, "10.7"), (COLLECTED, "104"), (RAW, "")];

/// The size of a write in bytes.
const WRITE: usize = 64 << 10;

/// A disk that counts its requests.
type Disk<S> = Arc<Counting<S>>;

/// The requests of a run besides those for data.
#[derive(Debug, Clone, Copy, Default)]
struct Metadata {
    reads: u64,
    writes: u64,
}

pub(super) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    on_hard_disk(lab, report)?;
    if lab.is_root() {
        on_disk(lab, report)
    } else {
        report.leave_out(&format!("{TITLE}, this disk"), Lab::NEEDS_ROOT);
        Ok(())
    }
}

/// On a simulated hard disk, with an exact clock.
fn on_hard_disk(lab: &Lab, report: &mut Report) -> Result<()> {
    let bytes = lab.sizes.seed_file;
    let (samples, metadata) = measure(
        1,
        bytes,
        &|| {
            let memory = MemoryStorage::new(vec![0; storage_size(bytes) as usize]);
            Ok(HardDisk::new(memory))
        },
        &|disk| {
            let disk = disk.clone();
            Ok(move || disk.inner().elapsed())
        },
    )?;
    let title = format!("{TITLE}, {} MiB, simulated hard disk", bytes >> 20);
    say(report, &title, bytes, &samples, &metadata)?;
    for (other, least) in [(READ_BACK, 5.0), (RAW, 0.9)] {
        let text = format!("simulated hard disk, {COLLECTED}: speed / {other}");
        let ratio = samples.ratio(other, COLLECTED)?;
        report.require(&text, Bar::AtLeast(least), "x", ratio);
    }
    let reads = Spread::exact(metadata[1].reads as f64);
    let text = format!("{COLLECTED}: metadata reads");
    report.require(&text, Bar::AtMost(0.0), "", reads);
    Ok(())
}

/// On the benchmark's own disk, with an empty page cache.
fn on_disk(lab: &Lab, report: &mut Report) -> Result<()> {
    let bytes = lab.sizes.seed_file;
    let path = lab.path("table-4.img");
    let (samples, metadata) = measure(
        lab.rounds,
        bytes,
        &|| {
            File::create(&path)?.set_len(storage_size(bytes))?;
            Ok(FileStorage::open(&path)?)
        },
        &|_| {
            lab.make_cold(bytes)?;
            let start = Instant::now();
            Ok(move || start.elapsed())
        },
    )?;
    let title = format!("{TITLE}, {} MiB, this disk", bytes >> 20);
    say(report, &title, bytes, &samples, &metadata)
}

/// Writes this many bytes in each way, to a disk from `new` and by a clock from `start`. Returns the time
/// in seconds, and the requests for metadata.
fn measure<S: WriteAt + 'static, C: Fn() -> Duration>(
    rounds: usize,
    bytes: u64,
    new: &impl Fn() -> Result<S>,
    start: &impl Fn(&Disk<S>) -> Result<C>,
) -> Result<(Samples, [Metadata; IN_2020.len()])> {
    let metadata: [Cell<Metadata>; IN_2020.len()] = Default::default();
    let ways = IN_2020.iter().zip(&metadata);
    let ways = ways.map(|(&(name, _), metadata)| (name, (name, metadata)));
    let samples = Contest::default()
        .variants(ways, |(name, metadata)| {
            let disk = Arc::new(Counting::new(new()?));
            let target = Target::new(name, &disk)?;
            let clock = start(&disk)?;
            let (seconds, cost) = target.fill(&disk, bytes, clock)?;
            metadata.set(cost);
            Ok(seconds)
        })
        .run(rounds)?;
    Ok((samples, metadata.map(Cell::into_inner)))
}

/// Space for the data, and for tags and a journal besides it.
fn storage_size(bytes: u64) -> u64 {
    bytes + bytes / 16 + (1 << 20)
}

/// The target of the writes.
enum Target<S> {
    Raw(Disk<S>),
    Volume(Box<Volume>),
}

impl<S: WriteAt + 'static> Target<S> {
    /// The disk itself, or a new volume on it in direct mode, which writes only data and tags.
    fn new(name: &str, disk: &Disk<S>) -> Result<Self> {
        if name == RAW {
            return Ok(Self::Raw(disk.clone()));
        }
        let devices = Devices::new(disk.clone());
        let options = FormatOptions {
            is_zero: true,
            ..FormatOptions::default()
        };
        format(
            devices.clone(),
            &options,
            &mut |_| ControlFlow::Continue(()),
        )?;
        let options = OpenOptions {
            mode: Mode::Direct,
            tag_read_back: name == READ_BACK,
            // Otherwise it would read some tags before counting begins.
            probe: false,
            ..OpenOptions::default()
        };
        Ok(Self::Volume(Box::new(Volume::open(devices, &options)?)))
    }

    /// Writes this many bytes and flushes them. Returns the seconds by `clock`, and the requests to `disk`
    /// besides those for the data.
    fn fill(
        &self,
        disk: &Disk<S>,
        bytes: u64,
        clock: impl Fn() -> Duration,
    ) -> Result<(f64, Metadata)> {
        let chunk = noise(WRITE, 1);
        let (reads, writes) = (disk.counts().requests, disk.write_counts().requests);
        let before = clock();
        for offset in (0..bytes).step_by(WRITE) {
            match self {
                Self::Raw(disk) => disk.write_all_at(&chunk, offset)?,
                Self::Volume(volume) => volume.write_at(&chunk, offset)?,
            }
        }
        match self {
            Self::Raw(disk) => disk.flush()?,
            Self::Volume(volume) => volume.flush()?,
        }
        let seconds = (clock() - before).as_secs_f64();
        let metadata = Metadata {
            reads: disk.counts().requests - reads,
            writes: disk.write_counts().requests - writes - bytes / WRITE as u64,
        };
        self.ensure_holds(&chunk, bytes)?;
        Ok((seconds, metadata))
    }

    fn ensure_holds(&self, chunk: &[u8], bytes: u64) -> Result<()> {
        let mut found = vec![0; WRITE];
        for offset in (0..bytes).step_by(WRITE) {
            match self {
                Self::Raw(disk) => disk.read_exact_at(&mut found, offset)?,
                Self::Volume(volume) => volume.read_at(&mut found, offset)?,
            }
            ensure!(found == chunk, "other bytes were read");
        }
        Ok(())
    }
}

fn say(
    report: &mut Report,
    title: &str,
    bytes: u64,
    samples: &Samples,
    metadata: &[Metadata],
) -> Result<()> {
    let mut table = Table::new([
        "64 KiB in order",
        "2020 hard disk MB/s",
        "here MB/s",
        &format!("speed / {READ_BACK}"),
        "metadata reads",
        "metadata writes",
    ]);
    for ((name, in_2020), metadata) in IN_2020.into_iter().zip(metadata) {
        let here = figure(bytes as f64 / 1e6 / samples.spread(name)?.median);
        let ratio = with_range(samples.ratio(READ_BACK, name)?);
        let Metadata { reads, writes } = metadata;
        table.row([
            name,
            in_2020,
            &here,
            &ratio,
            &reads.to_string(),
            &writes.to_string(),
        ]);
    }
    report.table(title, table, "s", samples)
}
