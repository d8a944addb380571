use std::{
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use verimount_host::{
    mounts::served,
    volume::{CommitTimer, Device, Disk, Volume, VolumeError},
};

/// An open volume, which must be closed after use.
pub(super) struct OpenedVolume {
    pub(super) volume: Arc<Volume>,
    pub(super) devices: Vec<Device>,
    /// How long writes may stay unflushed.
    pub(super) commit_time: Duration,
}

impl OpenedVolume {
    /// The volume's disk, which must be dropped before the volume can be closed. `source` is the
    /// volume's file.
    pub(super) fn disk(&self, source: &Path) -> Disk {
        let served = served(source, None);
        Disk::new(self.volume.clone(), self.devices.clone(), served)
    }

    /// Begins to serve it, or closes it.
    pub(super) fn begin<T>(self, begin: impl FnOnce(&Self) -> Result<T>) -> Result<(Self, T)> {
        match begin(&self) {
            Ok(begun) => Ok((self, begun)),
            Err(error) => {
                self.close()?;
                Err(error)
            }
        }
    }

    /// Runs `serve`, with the commit timer and any pending recalculation in the background, and
    /// closes the volume at the end.
    pub(super) fn serve(self, serve: impl FnOnce() -> Result<()>) -> Result<()> {
        let timer = CommitTimer::start(&self.volume, self.commit_time);
        let served = match timer.context("starting the commit timer") {
            Ok(_timer) => self.serve_and_recalculate(serve),
            Err(error) => Err(error),
        };
        // Close the volume even after an error, to keep what was written.
        served.and(self.close())
    }

    fn serve_and_recalculate(&self, serve: impl FnOnce() -> Result<()>) -> Result<()> {
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            if !self.volume.mode().is_read_only() {
                scope.spawn(|| recalculate(&self.volume, &ended));
            }
            let served = serve();
            ended.store(true, Relaxed);
            served
        })
    }

    /// Closes the volume cleanly.
    pub(super) fn close(self) -> Result<()> {
        let volume = Arc::into_inner(self.volume).context("the volume is still in use")?;
        Ok(volume.close()?)
    }
}

fn recalculate(volume: &Volume, ended: &AtomicBool) {
    let Some(sector) = volume.recalculation_sector() else {
        return;
    };
    tracing::info!(sector, "recalculating tags");
    let done = volume.recalculate(&mut |_| {
        if ended.load(Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    match done {
        Ok(()) => tracing::info!("tags are recalculated, all blocks are checked again"),
        Err(VolumeError::Cancelled) => {}
        Err(error) => tracing::error!(%error, "recalculating tags failed"),
    }
}
