use std::{fs, os::unix::fs::MetadataExt, path::PathBuf, sync::Arc};

use anyhow::{Context, Result};
use clap::Args;
use verimount_host::{
    mounts::{Mounted, attach},
    printable,
    sandbox::{Kind, Sandbox},
    volume::{DiskAccess, VolumeFs},
};

use super::{args::UseArgs, opened::OpenedVolume};
use crate::{Outcome, background::Ready, mount_args::MountArgs};

/// Mount a volume as a directory with one file, disk, that behaves like a block device
///
/// Use the disk with losetup, in a virtual machine, or directly. It has the owner and permissions
/// of VOLUME.
#[derive(Args)]
pub(crate) struct Mount {
    #[command(flatten)]
    volume: UseArgs,
    /// The mount point: an empty directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    mount: MountArgs,
}

impl Mount {
    pub(crate) fn run(self) -> Result<Outcome> {
        let prepare = |sandbox: &mut Sandbox| {
            self.volume.prepare(sandbox);
            let is_read_only = self.volume.mode.is_read_only();
            sandbox.mount(
                &self.directory,
                self.mount.attaching(String::new(), is_read_only),
            );
            Ok(())
        };
        self.mount.background.serve(Kind::Volume, prepare, |()| {
            let opened = self.volume.open()?;
            let mode = opened.volume.mode();
            let (opened, mounted) = opened.begin(|opened| self.mount(opened))?;
            Ok(Ready {
                text: format!(
                    "{} on {} ({}, {mode} mode)",
                    self.volume.source.devices.shown(),
                    printable(&self.directory),
                    mounted.mode(),
                ),
                serve: Box::new(|signals| opened.serve(|| Ok(mounted.wait(signals)?))),
            })
        })
    }

    fn mount(&self, opened: &OpenedVolume) -> Result<Mounted> {
        let read_only = opened.volume.mode().is_read_only();
        let source_name = self.volume.source.devices.shown();
        let fs = VolumeFs::new(
            opened.disk(&self.volume.source.devices.volume),
            self.access()?,
        );
        let options = self.mount.attaching(source_name, read_only);
        Ok(attach(Arc::new(fs), &self.directory, &options)?)
    }

    fn access(&self) -> Result<DiskAccess> {
        let metadata = fs::metadata(&self.volume.source.devices.volume);
        let metadata = metadata.with_context(|| self.volume.source.devices.shown())?;
        Ok(DiskAccess {
            uid: metadata.uid(),
            gid: metadata.gid(),
            mode: metadata.mode(),
        })
    }
}
