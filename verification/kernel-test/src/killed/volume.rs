use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use verimount_integrity::Mode;

use super::{kind::Kind, model::Model, recovered::Recovered, sequence::Sequence};

/// The size of each disk, in bytes.
const DISK: u64 = 5 << 20;

/// A volume that the guest writes to, as the host sees it.
pub(super) struct Volume {
    kind: &'static Kind,
    disks: Vec<PathBuf>,
    sequence: Sequence,
    model: Model,
    points: usize,
    /// How often a part of what is written between two flushes was done.
    amid_writes: usize,
    /// How often the journal held what was not in its place yet.
    replays: usize,
}

impl Volume {
    /// Makes empty disks for a volume in `folder`.
    pub(super) fn new(number: usize, kind: &'static Kind, folder: &Path) -> Result<Self> {
        let disk = |disk| {
            let path = folder.join(format!("volume{number}.{disk}"));
            File::create(&path)?.set_len(DISK)?;
            Ok(path)
        };
        let sequence = Sequence::new(number, kind);
        Ok(Self {
            kind,
            disks: (0..kind.disks()).map(disk).collect::<Result<_>>()?,
            sequence,
            model: Model::new(kind.mode, sequence),
            points: 0,
            amid_writes: 0,
            replays: 0,
        })
    }

    pub(super) fn disks(&self) -> &[PathBuf] {
        &self.disks
    }

    /// What its disks hold, while nobody writes to them.
    pub(super) fn contents(&self) -> Result<Vec<Vec<u8>>> {
        let contents = self.disks.iter().map(fs::read);
        contents.collect::<Result<_, _>>().context("a disk")
    }

    /// Notes that the guest has flushed it.
    pub(super) fn flush(&mut self, generation: u64) {
        self.model.flush(generation);
    }

    pub(super) fn was_flushed(&self) -> bool {
        self.model.flushed() > 0
    }

    /// Recovers it from what its disks held when the guest was killed.
    ///
    /// # Errors
    /// What is found is not what may be there, or changes when the volume is opened again.
    pub(super) fn check(&mut self, disks: Vec<Vec<u8>>) -> Result<()> {
        self.points += 1;
        let recovered = Recovered::new(self.kind, &self.sequence, disks.clone())?;
        let is_replayed = self.kind.mode == Mode::Journal && recovered.disks != disks;
        self.replays += usize::from(is_replayed);
        self.amid_writes += usize::from(self.model.check(&recovered.found)?);
        let again = Recovered::new(self.kind, &self.sequence, recovered.disks)?;
        ensure!(
            again.found == recovered.found,
            "opened again, it holds something else"
        );
        Ok(())
    }

    /// Fails if it was never killed while something was under way: all that was found is then what
    /// anything would have left.
    pub(super) fn ensure_telling(&self) -> Result<()> {
        let telling = self.amid_writes + self.replays;
        ensure!(telling > 0, "it was never killed amid writes");
        Ok(())
    }

    pub(super) fn describe(&self) -> String {
        self.kind.describe()
    }

    /// What it was killed in the middle of.
    pub(super) fn summary(&self) -> String {
        let (kind, points, amid) = (self.describe(), self.points, self.amid_writes);
        let mut text = format!("{kind}: of {points} points {amid} amid writes");
        if self.kind.mode == Mode::Journal {
            text += &format!(", {} in need of the journal", self.replays);
        }
        text
    }
}
