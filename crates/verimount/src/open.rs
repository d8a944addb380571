use std::{num::NonZeroU32, sync::Arc};

use verimount_source::ReadAt;
use verimount_verity::{
    Identity, Sealed, Trust as DigestTrust, VerifiedReader, VerifyOptions, dm_verity::HashArea,
};

#[cfg(feature = "remote")]
use crate::sources::Kept;
use crate::{
    Access, Error, ImageDevice, Location, Opened, RootHash, Trust, image,
    seal_search::{find_hash_area, find_seal, look_for_note, look_for_seal, not_sealed},
    sources::Sources,
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
    /// How content that is not on this machine is reached, and where it is kept.
    pub access: Access,
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
    let trust = &resolved(&location, trust, &options.access)?;
    #[cfg(feature = "remote")]
    if options.is_elsewhere(&location) {
        let opened = open_elsewhere(&location, trust, options)?;
        return Ok(Opened {
            pin: trust.pin(),
            origin: Some(Arc::new(options.access.clone())),
            ..opened
        });
    }
    open_from(location, trust, &Sources::new(options))
}

/// Opens content through its copies in the cache, if it has some or can have.
#[cfg(feature = "remote")]
fn open_elsewhere(
    location: &Location,
    trust: &Trust,
    options: &OpenOptions,
) -> Result<Opened, Error> {
    if let Some(kept) = Kept::trusted(&options.access, trust) {
        return open_kept(location, trust, options, kept);
    }
    let opened = open_from(location.clone(), trust, &Sources::new(options))?;
    let found = match opened.identity() {
        Some(Identity::FileDigest(found)) => found,
        _ => return Ok(opened),
    };
    match Kept::found(&options.access, &found) {
        // It was trusted, so that from now on nothing else is.
        Some(kept) => open_kept(location, &Trust::Digest(found), options, kept),
        None => Ok(opened),
    }
}

/// Opens content through its copies. If that fails, these may be wrong: they are then replaced by what is read.
#[cfg(feature = "remote")]
fn open_kept(
    location: &Location,
    trust: &Trust,
    options: &OpenOptions,
    kept: Kept,
) -> Result<Opened, Error> {
    let open = |kept| {
        let sources = Sources::with_copies(options, kept);
        (
            open_from(location.clone(), trust, &sources),
            sources.into_kept(),
        )
    };
    let (opened, kept) = match open(Some(kept)) {
        (Err(_), Some(kept)) if kept.is_warm() => open(Some(kept.refreshing())),
        opened => opened,
    };
    if let Some(kept) = kept {
        kept.settle();
    }
    opened
}

fn open_from(location: Location, trust: &Trust, sources: &Sources<'_>) -> Result<Opened, Error> {
    let (source, stored) = sources.content(&location)?;
    let digest = |trust| open_sealed(&location, source.clone(), trust, sources);
    let reader = match trust {
        Trust::Digest(expected) => Some(digest(DigestTrust::Digest(*expected))?),
        Trust::Key(key) => Some(digest(DigestTrust::Key(key.clone()))?),
        Trust::Unpinned => Some(open_unpinned(&location, source.clone(), sources)?),
        Trust::RootHash(root) => Some(open_device(&location, source.clone(), root, sources)?),
        Trust::Named => return Err(Error::NotNamed { at: location }),
        Trust::Unverified => None,
    };
    let reader = reader.map(Arc::new);
    let content: Arc<dyn ReadAt> = match &reader {
        Some(reader) => reader.clone(),
        None => source,
    };
    // Of all that content is verified by, only a file digest covers its size. Without one, the image itself must tell
    // that its end is missing.
    let covers_size = matches!(
        reader.as_ref().map(|reader| reader.identity()),
        Some(Identity::FileDigest(_))
    );
    if !covers_size && let Some(error) = image::truncation(content.clone()) {
        return Err(Error::image(&location, error));
    }
    let devices = sources.options.devices.iter();
    let devices = devices.map(|device| device.open(trust, sources.options));
    Ok(Opened {
        devices: devices.collect::<Result<_, _>>()?,
        content,
        reader,
        pin: trust.pin(),
        location,
        stored,
        access: sources.options.access.clone(),
        origin: None,
    })
}

/// What is accepted of what is at `location`, which may itself say what it is.
pub(crate) fn resolved(
    location: &Location,
    trust: &Trust,
    access: &Access,
) -> Result<Trust, Error> {
    let at = || location.clone();
    match (location.named(access)?, trust) {
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
    sources: &Sources<'_>,
) -> Result<VerifiedReader, Error> {
    let sealed = find_seal(location, source, sources)?;
    verified(location, &sealed, &trust, sources.options)
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
    sources: &Sources<'_>,
) -> Result<VerifiedReader, Error> {
    let sealed = match look_for_seal(location, source.clone(), sources)? {
        Some(sealed) => sealed,
        None => match look_for_note(location, sources)? {
            Some(note) => return open_device(location, source, note.root_hash(), sources),
            None => return Err(not_sealed(location, source)),
        },
    };
    verified(location, &sealed, &DigestTrust::Unpinned, sources.options)
}

fn open_device(
    location: &Location,
    source: Arc<dyn ReadAt>,
    root: &RootHash,
    sources: &Sources<'_>,
) -> Result<VerifiedReader, Error> {
    let area: HashArea = find_hash_area(location, source, sources)?;
    let actual = area.geometry().data_blocks();
    if let Some(expected) = root.data_blocks.filter(|&expected| expected != actual) {
        return Err(Error::DataBlocks {
            at: location.clone(),
            expected,
            actual,
        });
    }
    area.verified(&root.hash, sources.options.verify)
        .map_err(|error| Error::seal(location, error))
}

#[cfg(feature = "remote")]
impl OpenOptions {
    /// Whether content at `location` is not only on this machine.
    fn is_elsewhere(&self, location: &Location) -> bool {
        let has_far_sidecar = self.sidecar.as_ref().is_some_and(Location::is_remote);
        location.is_remote() || has_far_sidecar
    }
}
