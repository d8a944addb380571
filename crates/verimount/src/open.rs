use std::{num::NonZeroU32, sync::Arc};

use verimount_serve::{Origin, Pin};
use verimount_source::ReadAt;
use verimount_tree::StoredFile;
use verimount_verity::{Identity, VerifiedReader, VerifyOptions};

use crate::{
    Access, Error, ImageDevice, Location, Opened, Trust, accepted::Accepted, image, place::Place,
};
#[cfg(feature = "remote")]
use crate::{kept::Kept, lazy::Lazy, opened_seal::OpenedSeal};

/// How content is opened and read.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// The file with the Merkle tree, if it is neither at the end of the data nor in `FILE.verity`.
    pub sidecar: Option<Location>,
    /// The offset of a dm-verity superblock in bytes: in the sidecar if that is given, else in the
    /// data's own file. Only used with a root hash. By default, that in `FILE.dmverity`, if there is no sidecar.
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
/// use verimount::{OpenOptions, Trust, open, tree::NodeId, verity::FileDigest};
///
/// let digest = "sha256:adf83db3b55f77f4e12df982ede7545206a6791529f6f944e7208d764e282901";
/// let trust = Trust::from(digest.parse::<FileDigest>()?);
/// let opened = open(Path::new("app.img"), &trust, &OpenOptions::default())?;
/// let readme = opened.tree()?.lookup(NodeId::ROOT, "README.md".as_ref())?;
/// println!("{} bytes", readme.size);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::NotSealed`], unless `trust` is [`Trust::Unverified`]; [`Error::Seal`] if the seal is not
/// accepted or cannot be used; [`Error::PinsOfTwoSeals`]; [`Error::UnpinnedDevice`]; any other [`Error`] of opening or
/// reading.
pub fn open(
    location: impl Into<Location>,
    trust: &Trust,
    options: &OpenOptions,
) -> Result<Opened, Error> {
    let options = &options.for_trust(trust);
    let place = Place::new(location.into(), options);
    let accepted = Accepted::at(&place, trust)?;
    let mut opened = open_accepted(place, accepted, options)?;
    let devices = options.devices.iter();
    let devices = devices.map(|device| device.open(trust, options));
    opened.devices = devices.collect::<Result<_, _>>()?;
    Ok(opened)
}

/// Opens the content at `place`, without further devices. Without `accepted`, nothing is verified.
pub(crate) fn open_accepted(
    place: Place,
    accepted: Option<Accepted>,
    options: &OpenOptions,
) -> Result<Opened, Error> {
    let location = place.location().clone();
    let opened = match accepted {
        Some(accepted) => open_verified(place, accepted, options)?,
        None => open_unverified(place)?,
    };
    // Of all that content is verified by, only a file digest covers its size. Without one, the image itself must tell
    // that its end is missing.
    let covers_size = matches!(opened.identity(), Some(Identity::FileDigest(_)));
    if !covers_size && let Some(error) = image::truncation(opened.content()) {
        return Err(Error::image(&location, error));
    }
    Ok(Opened {
        origin: options.origin(&location),
        ..opened
    })
}

fn open_unverified(place: Place) -> Result<Opened, Error> {
    let (content, stored) = place.content()?;
    Ok(Opened {
        location: place.location().clone(),
        content,
        reader: None,
        pin: Pin::Unverified,
        stored,
        devices: Vec::new(),
        unverified: Some(place),
        origin: None,
    })
}

fn open_verified(place: Place, accepted: Accepted, options: &OpenOptions) -> Result<Opened, Error> {
    let (location, pin) = (place.location().clone(), accepted.pin());
    let (reader, stored) = open_reader(place, accepted, options)?;
    let reader = Arc::new(reader);
    let content: Arc<dyn ReadAt> = reader.clone();
    Ok(Opened {
        location,
        content,
        reader: Some(reader),
        pin,
        stored,
        devices: Vec::new(),
        unverified: None,
        origin: None,
    })
}

fn open_reader(
    place: Place,
    accepted: Accepted,
    options: &OpenOptions,
) -> Result<(VerifiedReader, StoredFile), Error> {
    let location = place.location().clone();
    #[cfg(feature = "remote")]
    if place.is_slow() {
        let seal = open_slow(place, accepted, &options.access)?;
        let reader = Accepted::reader(&location, seal, options.verify)?;
        return Ok((reader, StoredFile::default()));
    }
    let (source, stored) = place.content()?;
    let seal = accepted.find(&place, source)?;
    Ok((Accepted::reader(&location, seal, options.verify)?, stored))
}

/// Opens content that takes long to read, through its copies in the cache, if there is one.
#[cfg(feature = "remote")]
fn open_slow(place: Place, accepted: Accepted, access: &Access) -> Result<OpenedSeal, Error> {
    if let Some(kept) = Kept::of_accepted(access, &accepted)
        && let Some(seal) = kept.seal(&accepted)
        && accepted.check(&place, &seal).is_ok()
    {
        return Ok(kept.keep(Lazy::closed(place, accepted, seal)));
    }
    let (source, _) = place.content()?;
    let seal = accepted.find(&place, source)?;
    let kept = Kept::of_seal(access, &seal);
    let seal = match accepted {
        // Only what was pinned is read on when it is stored in another way.
        Accepted::OwnSeal => seal,
        accepted => Lazy::open(place, accepted, seal),
    };
    Ok(match kept {
        Some(kept) => kept.keep(seal),
        None => seal,
    })
}

impl OpenOptions {
    /// The same, for what `trust` accepts.
    #[cfg_attr(
        not(feature = "remote"),
        allow(unused_variables, reason = "all is here")
    )]
    fn for_trust(&self, trust: &Trust) -> Self {
        #[cfg(feature = "remote")]
        if let Trust::Pinned(_) = trust {
            return Self {
                access: self.access.clone().tolerating_changes(),
                ..self.clone()
            };
        }
        self.clone()
    }

    /// Where content at `location` comes from, if not only from this machine.
    #[cfg_attr(
        not(feature = "remote"),
        allow(unused_variables, reason = "all is here")
    )]
    fn origin(&self, location: &Location) -> Option<Arc<dyn Origin>> {
        #[cfg(feature = "remote")]
        if location.is_remote() || self.sidecar.as_ref().is_some_and(Location::is_remote) {
            return Some(Arc::new(self.access.clone()));
        }
        None
    }
}
