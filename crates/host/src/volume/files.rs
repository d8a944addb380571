use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use verimount::Error;
use verimount_integrity::{Devices, Error as VolumeError, Header, Superblock};
use verimount_source::{Counting, FileStorage, ReadAt};

use super::header;
use crate::fault::ContentFault;

/// A device of a volume, with statistics of its requests.
pub type Device = Arc<Counting<FileStorage>>;

/// The files or block devices of a volume.
#[derive(Debug, Clone)]
pub struct VolumeFiles {
    /// The superblock, the journal and the tags, and the data unless that is separate.
    pub volume: PathBuf,
    /// A separate device for the data.
    pub data_device: Option<PathBuf>,
    /// A copy of the superblock that takes the place of the volume's own. The volume can then only be read.
    pub header: Option<PathBuf>,
}

/// What files are opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Exclusive use.
    Write,
    /// Reading only; others may do that, too.
    ReadOnly,
}

/// The open files of a volume.
#[derive(Debug)]
pub struct OpenFiles {
    devices: Vec<Device>,
    header: Option<Header>,
}

impl VolumeFiles {
    /// Opens them.
    ///
    /// # Errors
    /// [`Busy`](verimount::ErrorKind::Busy) while another process has one, and those of the system.
    pub fn open(&self, access: Access) -> Result<OpenFiles, Error> {
        self.open_with(&self.volume, access)
    }

    /// Opens them, the first at this path instead of its own.
    pub(crate) fn open_with(&self, volume: &Path, access: Access) -> Result<OpenFiles, Error> {
        let paths = [Some(volume), self.data_device.as_deref()];
        let devices = paths.into_iter().flatten().map(|path| {
            let opened = match access {
                Access::Write => FileStorage::open(path),
                Access::ReadOnly => FileStorage::open_read_only(path),
            };
            let opened = opened.map_err(|error| ContentFault::io(path, error))?;
            Ok(Arc::new(Counting::new(opened)))
        });
        Ok(OpenFiles {
            devices: devices.collect::<Result<_, Error>>()?,
            header: self.header.as_deref().map(header::read).transpose()?,
        })
    }

    /// Whether another process has the volume for itself now.
    pub fn are_in_use(&self) -> bool {
        let opened = FileStorage::open_read_only(&self.volume);
        opened.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
    }

    /// Each path, in the order in which they are opened.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        let volume = Some(self.volume.as_path());
        volume.into_iter().chain(self.data_device.as_deref())
    }
}

impl OpenFiles {
    /// As a volume uses them.
    pub fn devices(&self) -> Devices {
        let devices = match &self.devices[..] {
            [metadata, data] => Devices::with_data_device(metadata.clone(), data.clone()),
            devices => Devices::new(devices[0].clone()),
        };
        match &self.header {
            Some(header) => devices.with_header(header.clone()),
            None => devices,
        }
    }

    /// The superblock by which the volume is opened.
    pub(crate) fn superblock(&self) -> Result<Superblock, VolumeError> {
        match &self.header {
            Some(header) => Ok(header.superblock().clone()),
            None => Superblock::read(&self.devices[0]),
        }
    }

    /// Each, the one with the superblock first.
    pub fn each(&self) -> &[Device] {
        &self.devices
    }

    /// The size of the one with the data, in bytes.
    pub(crate) fn data_size(&self) -> u64 {
        self.devices.last().map_or(0, ReadAt::size)
    }
}
