use std::{
    path::{Path, absolute},
    sync::Arc,
};

use verimount_names::printable;
use verimount_serve::{ImageFs, Pin, Served, VerifiedTree};
use verimount_tree::SingleFile;

use crate::{Error, Opened};

impl Opened {
    /// The content as a file system, which [`attach`](verimount_mount::attach) mounts: an image, or a
    /// single file if it is none or `as_file` says so.
    ///
    /// ```no_run
    /// use std::{path::Path, sync::Arc};
    /// use verimount::{OpenOptions, Trust, open, mount::{MountOptions, attach}};
    ///
    /// # fn mount(trust: &Trust, options: &MountOptions) -> Result<(), Box<dyn std::error::Error>> {
    /// let opened = open(Path::new("app.img"), trust, &OpenOptions::default())?.read_ahead();
    /// let fs = Arc::new(opened.file_system(false)?);
    /// let mounted = attach(fs, Path::new("mnt"), options)?.start()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Image`]. If the beginning is damaged, an image cannot be told from another file. Falling
    /// back to a single file would let an attacker who damages it choose what is mounted.
    pub fn file_system(&self, as_file: bool) -> Result<ImageFs, Error> {
        let image = match as_file {
            true => None,
            false => self.image()?,
        };
        let reader = self.reader().cloned();
        let devices = self.devices().iter();
        let devices = devices.filter_map(|device| device.reader().cloned());
        let tree = match image {
            Some(image) => VerifiedTree::new(image, reader).with_devices(devices.collect()),
            None => VerifiedTree::new(Box::new(self.single_file()), reader)
                .with_measured(SingleFile::FILE),
        };
        let tree = tree.with_origin(self.origin().cloned());
        let pin = Some(self.pin().clone());
        let served = match self.location().path() {
            Some(path) => served(path, pin),
            None => Served::new(self.location().to_string(), pin),
        };
        Ok(ImageFs::new(Arc::new(tree), served))
    }
}

/// Describes what this process serves from now on, for its status. `source` is reported as an absolute
/// path, as readers of the status have other working directories.
pub fn served(source: &Path, pin: Option<Pin>) -> Served {
    let absolute = absolute(source);
    let source = absolute.as_deref().unwrap_or(source);
    Served::new(printable(source).to_string(), pin)
}
