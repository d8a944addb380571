use std::sync::Arc;

use verimount_serve::Pin;
use verimount_source::{ReadAhead, ReadAt};
use verimount_tree::StoredFile;
use verimount_verity::{Identity, VerifiedReader};

use crate::{
    Content, Error, Location, OpenOptions, accepted::Accepted, far::open_slow, image_format,
    place::Place, trust::Trust,
};

/// Opens what is at `location` with its devices, as the options accept it.
pub(crate) fn open(location: Location, options: &OpenOptions) -> Result<Content, Error> {
    let trust = options.trust(&location)?;
    open_trusting(location, &trust, &options.clone().with_own_account())
}

/// The same for what `trust` accepts, whatever the options say of that.
pub(crate) fn open_trusting(
    location: Location,
    trust: &Trust,
    options: &OpenOptions,
) -> Result<Content, Error> {
    let options = &options.for_trust(trust);
    let place = Place::new(location, options);
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
) -> Result<Content, Error> {
    let location = place.location().clone();
    let opened = match accepted {
        Some(accepted) => open_verified(place, accepted, options)?,
        None => open_unverified(place, options)?,
    };
    // Of all that content is verified by, only a file digest covers its size. Without one, the image itself must tell
    // that its end is missing.
    let covers_size = matches!(opened.identity(), Some(Identity::FileDigest(_)));
    if !covers_size && let Some(error) = image_format::truncation(opened.source.clone()) {
        return Err(Error::image(location, error));
    }
    let sidecar = options.sidecar.as_ref();
    let is_remote = location.is_remote() || sidecar.is_some_and(Location::is_remote);
    Ok(Content {
        origin: is_remote.then(|| options.access.origin()).flatten(),
        ..opened
    })
}

fn open_unverified(place: Place, options: &OpenOptions) -> Result<Content, Error> {
    let (source, stored) = place.content()?;
    Ok(Content {
        location: place.location().clone(),
        source: Arc::new(ReadAhead::new(source)),
        reader: None,
        account: options.verify.account.clone(),
        pin: Pin::Unverified,
        stored,
        devices: Vec::new(),
        unverified: Some(place.into()),
        origin: None,
    })
}

fn open_verified(
    place: Place,
    accepted: Accepted,
    options: &OpenOptions,
) -> Result<Content, Error> {
    let (location, pin) = (place.location().clone(), accepted.pin());
    let (reader, stored) = open_reader(place, accepted, options)?;
    let reader = Arc::new(reader);
    let source: Arc<dyn ReadAt> = reader.clone();
    Ok(Content {
        location,
        source: Arc::new(ReadAhead::new(source)),
        reader: Some(reader),
        account: options.verify.account.clone(),
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
    if place.is_slow() {
        let seal = open_slow(place, accepted, &options.access)?;
        let reader = Accepted::reader(&location, seal, options.verify.clone())?;
        return Ok((reader, StoredFile::default()));
    }
    let (source, stored) = place.content()?;
    let seal = accepted.find(&place, source)?;
    Ok((
        Accepted::reader(&location, seal, options.verify.clone())?,
        stored,
    ))
}
