use verimount_content::{Opened, Options, Place, Trust};
use verimount_source::Unchecked;
use verimount_verity::Identity;

use crate::{Content, Error, Location, OpenOptions, fault::ContentFault, image_format};

/// Opens what is at `location` with its devices, as the options accept it.
pub(crate) fn open(location: Location, options: &OpenOptions) -> Result<Content, Error> {
    let trust = options.trust(&location)?;
    open_trusting(location, &trust, &options.clone().with_own_account())
}

/// Opens what is at `location` with its devices, as `trust` accepts it, whatever the options say of that.
pub(crate) fn open_trusting(
    location: Location,
    trust: &Trust,
    options: &OpenOptions,
) -> Result<Content, Error> {
    let options = &options.for_content(&location, trust);
    let places = &options.places;
    let opened = whole(verimount_content::open(location, trust, places), places)?;
    let devices = options.devices.iter();
    let devices = devices.map(|device| device.open(trust, options));
    Ok(Content {
        opened,
        devices: devices.collect::<Result<_, _>>()?,
    })
}

/// Opens what is accepted at `place`.
#[cfg(feature = "remote")]
pub(crate) fn open_accepted(
    place: Place,
    accepted: Option<verimount_content::Accepted>,
    options: &Options,
) -> Result<Content, Error> {
    let opened = verimount_content::open_accepted(place, accepted, options);
    Ok(Content {
        opened: whole(opened, options)?,
        devices: Vec::new(),
    })
}

/// What was opened, unless it is an image that tells that its end is missing.
fn whole(opened: Result<Opened, Error>, options: &Options) -> Result<Opened, Error> {
    // It may have been at a mirror.
    let opened = opened.map_err(|error| match error.location().cloned() {
        Some(at) => cut_off(error, &Place::new(at, options)),
        None => error,
    })?;
    // Of all that content is verified by, only a file digest covers its size. Without one, the image itself must tell
    // that its end is missing.
    let covers_size = matches!(opened.identity(), Some(Identity::FileDigest(_)));
    if !covers_size && let Some(error) = image_format::truncation(&opened.source) {
        return Err(ContentFault::image(&opened.location, error));
    }
    Ok(opened)
}

/// An error of opening what is at `place`. An image stores its size at its beginning, so that what is cut off can be told from what
/// has no seal.
pub(crate) fn cut_off(error: Error, place: &Place) -> Error {
    if !matches!(ContentFault::of(&error), ContentFault::NotSealed { .. }) {
        return error;
    }
    let Ok((source, _)) = place.content() else {
        return error;
    };
    let truncation = image_format::truncation(&Unchecked(&*source));
    truncation.map_or(error, |reason| {
        ContentFault::image(place.location(), reason)
    })
}
