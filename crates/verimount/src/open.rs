use std::{num::NonZeroU32, sync::Arc};

use verimount_source::{Blocks, ReadAt};
use verimount_verity::{
    Sealed, Trust as DigestTrust, VerifiedReader, VerifyOptions, dm_verity::HashArea,
};

use crate::{
    Error, ImageDevice, Location, Opened, RootHash, Trust,
    seal_search::{find_hash_area, find_seal, look_for_note, look_for_seal, not_sealed},
};

/// How content is opened and read.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// The file with the Merkle tree, if it is neither at the end of the data nor in `FILE.verity`.
    pub sidecar: Option<Location>,
    /// The offset of a dm-verity superblock in bytes: in the sidecar if that is given, else in the
    /// data's own file. Only used with [`Trust::RootHash`]. By default, that in `FILE.dmverity`, if there is no sidecar.
    pub hash_offset: Option<u64>,
    /// The further devices of an image, in the order of its device table. By default, their data is looked for in the
    /// image itself.
    pub devices: Vec<ImageDevice>,
    /// How far the Merkle tree is read ahead, and how much of it is kept.
    pub verify: VerifyOptions,
    /// The largest request to the storage, in bytes. By default there is no limit.
    pub max_request: Option<NonZeroU32>,
}

/// Opens the content at `location`, which `trust` must accept.
///
/// Only its seal is read and verified now; all data is verified when it is read.
///
/// ```no_run
/// use std::path::Path;
/// use verimount::{OpenOptions, Trust, open, tree::NodeId};
///
/// let digest = "sha256:adf83db3b55f77f4e12df982ede7545206a6791529f6f944e7208d764e282901";
/// let trust = Trust::Digest(digest.parse()?);
/// let opened = open(Path::new("app.img"), &trust, &OpenOptions::default())?;
/// let readme = opened.tree()?.lookup(NodeId::ROOT, "README.md".as_ref())?;
/// println!("{} bytes", readme.size);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::NotSealed`], unless `trust` is [`Trust::Unverified`]; [`Error::Seal`] if the seal is not
/// accepted or cannot be used; [`Error::UnpinnedDevice`]; any other [`Error`] of opening or reading.
pub fn open(
    location: impl Into<Location>,
    trust: &Trust,
    options: &OpenOptions,
) -> Result<Opened, Error> {
    let location = location.into();
    let trust = &resolved(&location, trust)?;
    let (source, stored) = location.open()?;
    let source = options.limited(source);
    let digest = |trust| open_sealed(&location, source.clone(), trust, options);
    let reader = match trust {
        Trust::Digest(expected) => Some(digest(DigestTrust::Digest(*expected))?),
        Trust::Key(key) => Some(digest(DigestTrust::Key(key.clone()))?),
        Trust::Unpinned => Some(open_unpinned(&location, source.clone(), options)?),
        Trust::RootHash(root) => Some(open_device(&location, source.clone(), root, options)?),
        Trust::Named => return Err(Error::NotNamed { at: location }),
        Trust::Unverified => None,
    };
    let reader = reader.map(Arc::new);
    let devices = options.devices.iter();
    let devices = devices.map(|device| device.open(trust, options));
    Ok(Opened {
        devices: devices.collect::<Result<_, _>>()?,
        content: match &reader {
            Some(reader) => reader.clone(),
            None => source,
        },
        reader,
        pin: trust.pin(),
        location,
        stored,
    })
}

/// What is accepted of what is at `location`, which may itself say what it is.
pub(crate) fn resolved(location: &Location, trust: &Trust) -> Result<Trust, Error> {
    let at = || location.clone();
    match (location.named()?, trust) {
        (Some(named), Trust::Named) => Ok(named),
        (None, Trust::Named) => Err(Error::NotNamed { at: at() }),
        (Some(named), Trust::Digest(_) | Trust::RootHash(_)) if !named.is_same(trust) => {
            Err(Error::NamedOtherwise {
                at: at(),
                named: named.text(),
                expected: trust.text(),
            })
        }
        (_, trust) => Ok(trust.clone()),
    }
}

fn open_sealed(
    location: &Location,
    source: Arc<dyn ReadAt>,
    trust: DigestTrust,
    options: &OpenOptions,
) -> Result<VerifiedReader, Error> {
    let sealed = find_seal(location, source, options)?;
    verified(location, &sealed, &trust, options)
}

fn verified(
    location: &Location,
    sealed: &Sealed,
    trust: &DigestTrust,
    options: &OpenOptions,
) -> Result<VerifiedReader, Error> {
    VerifiedReader::new(sealed, trust, options.verify).map_err(|error| Error::seal(location, error))
}

/// Opens what its own seal describes: that of fs-verity or, of a layer of containerd, that of dm-verity.
fn open_unpinned(
    location: &Location,
    source: Arc<dyn ReadAt>,
    options: &OpenOptions,
) -> Result<VerifiedReader, Error> {
    let sealed = match look_for_seal(location, source.clone(), options)? {
        Some(sealed) => sealed,
        None => match look_for_note(location, options)? {
            Some(note) => return open_device(location, source, note.root_hash(), options),
            None => return Err(not_sealed(location, source)),
        },
    };
    verified(location, &sealed, &DigestTrust::Unpinned, options)
}

fn open_device(
    location: &Location,
    source: Arc<dyn ReadAt>,
    root: &RootHash,
    options: &OpenOptions,
) -> Result<VerifiedReader, Error> {
    let area: HashArea = find_hash_area(location, source, options)?;
    let actual = area.geometry().data_blocks();
    if let Some(expected) = root.data_blocks.filter(|&expected| expected != actual) {
        return Err(Error::DataBlocks {
            at: location.clone(),
            expected,
            actual,
        });
    }
    area.verified(&root.hash, options.verify)
        .map_err(|error| Error::seal(location, error))
}

impl OpenOptions {
    /// Opens a file with a Merkle tree.
    pub(crate) fn open_sidecar(&self, sidecar: &Location) -> Result<Arc<dyn ReadAt>, Error> {
        let (source, _) = sidecar.open()?;
        Ok(self.limited(source))
    }

    /// The same; `None` if the file does not exist.
    pub(crate) fn open_existing_sidecar(
        &self,
        sidecar: &Location,
    ) -> Result<Option<Arc<dyn ReadAt>>, Error> {
        let source = sidecar.open_existing()?;
        Ok(source.map(|source| self.limited(source)))
    }

    /// The same source, with requests of the largest size at most.
    fn limited(&self, source: Arc<dyn ReadAt>) -> Arc<dyn ReadAt> {
        match self.max_request {
            Some(size) => Arc::new(Blocks::new(source, size)),
            None => source,
        }
    }
}
