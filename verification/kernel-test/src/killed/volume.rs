use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use verimount_integrity::Mode;

use super::{kind::Kind, model::Model, recovered::Recovered, sequence::Sequence};

/// The size of each disk, in bytes.
const DISK: u64 = 5 << 20;

/// A volume to which the guest writes, on the host's side.
pub(super) struct Volume {
    kind: &'static Kind,
    disks: Vec<PathBuf>,
    sequence: Sequence,
    model: Model,
    points: usize,
    /// How often only some of the writes between two flushes were done.
    amid_writes: usize,
    /// How often the journal contained blocks that were not yet in place.
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

    /// The contents of its disks while the guest is paused.
    pub(super) fn contents(&self) -> Result<Vec<Vec<u8>>> {
        let contents = self.disks.iter().map(fs::read);
        contents.collect::<Result<_, _>>().context("a disk")
    }

    /// Records a flush by the guest.
    pub(super) fn flush(&mut self, generation: u64) {
        self.model.flush(generation);
    }

    pub(super) fn was_flushed(&self) -> bool {
        self.model.flushed() > 0
    }

    /// Recovers it from the contents of its disks when the guest was killed.
    ///
    /// # Errors
    /// It has content that it may not have, or the content changes when it is opened again.
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

    /// Fails if no write was in flight at any kill: the test then shows nothing.
    pub(super) fn ensure_telling(&self) -> Result<()> {
        let telling = self.amid_writes + self.replays;
        ensure!(telling > 0, "it was never killed amid writes");
        Ok(())
    }

    pub(super) fn describe(&self) -> String {
        self.kind.describe()
    }

    /// A summary of the states in which it was killed.
    pub(super) fn summary(&self) -> String {
        let (kind, points, amid) = (self.describe(), self.points, self.amid_writes);
        let mut text = format!("{kind}: of {points} points {amid} amid writes");
        if self.kind.mode == Mode::Journal {
            text += &format!(", {} in need of the journal", self.replays);
        }
        text
    }
}
