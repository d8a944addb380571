use std::sync::Arc;

use verimount_serve::Pin;
use verimount_tree::StoredFile;
use verimount_verity::{Checked, Identity, Seal, VerifyOptions};

use crate::{
    Content, Error, Location, OpenOptions, Unshared,
    accepted::{Accepted, reader},
    far::releases,
    fault::Fault,
    image_format,
    like::{Like, old::Olds},
    mirrors::{MirroredContent, open_places},
    place::Place,
    trust::Trust,
};

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
    let place = Place::new(location, options);
    let accepted = accepted_at(&place, trust, options)?;
    let mut opened = open_accepted(place, accepted, options)?;
    let devices = options.devices.iter();
    let devices = devices.map(|device| device.open(trust, options));
    opened.devices = devices.collect::<Result<_, _>>()?;
    Ok(opened)
}

/// What `trust` accepts of what is at `place`. If that cannot be asked what its name stands for, a mirror of the same name is.
fn accepted_at(
    place: &Place,
    trust: &Trust,
    options: &OpenOptions,
) -> Result<Option<Accepted>, Error> {
    let accepted = Accepted::at(place, trust);
    let Some(named) = place
        .location()
        .named_digest()
        .filter(|_| accepted.is_err())
    else {
        return accepted;
    };
    let mirrors = options.mirrors.iter();
    let same = mirrors.filter(|mirror| mirror.named_digest().as_ref() == Some(&named));
    let places = same.map(|mirror| Place::of_mirror(mirror.clone(), options));
    let answers = places.map(|mirror| Accepted::at(&mirror, trust));
    answers.into_iter().find(Result::is_ok).unwrap_or(accepted)
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
    if !covers_size && let Some(error) = image_format::truncation(&opened.source) {
        return Err(Error::image(location, error));
    }
    let mut places = options.sidecar.iter().chain(&options.mirrors);
    let is_remote = location.is_remote() || places.any(Location::is_remote);
    let origin = is_remote.then(|| options.access.origin()).flatten();
    let origin = match &opened.mirrored {
        Some(mirrored) => origin.map(|origin| mirrored.origin(origin)),
        None => origin,
    };
    Ok(Content { origin, ..opened })
}

fn open_unverified(place: Place, options: &OpenOptions) -> Result<Content, Error> {
    if !options.mirrors.is_empty() {
        return Err(Fault::Unverified.at(place.location()));
    }
    let (source, stored) = place.content()?;
    let checked = Checked::unverified(source);
    Ok(Content {
        location: place.location().clone(),
        source: checked.clone().read_ahead(),
        checked,
        reader: None,
        account: options.verify.account.clone(),
        pin: Pin::Unverified,
        stored,
        devices: Vec::new(),
        unverified: Some(place.into()),
        unshared: Arc::default(),
        origin: None,
        mirrored: None,
    })
}

fn open_verified(
    place: Place,
    accepted: Accepted,
    options: &OpenOptions,
) -> Result<Content, Error> {
    let (location, pin) = (place.location().clone(), accepted.pin());
    let signed = accepted.signed();
    let opened = open_seal(place, accepted, options)?;
    let verify = VerifyOptions {
        releases: signed.and_then(|signed| releases(&location, signed, &opened.seal, options)),
        ..options.verify.clone()
    };
    let (seal, unshared) = read_like(&location, opened.seal, options)?;
    let reader = Arc::new(reader(&location, seal, verify)?);
    let checked = Checked::from(reader.clone());
    Ok(Content {
        location,
        source: checked.clone().read_ahead(),
        checked,
        reader: Some(reader),
        account: options.verify.account.clone(),
        pin,
        stored: opened.stored,
        devices: Vec::new(),
        unverified: None,
        unshared: unshared.into(),
        origin: None,
        mirrored: opened.mirrored,
    })
}

/// A seal that was accepted, and what belongs to its content.
pub(crate) struct Opened {
    pub(crate) seal: Seal,
    pub(crate) stored: StoredFile,
    /// If it is in several places.
    pub(crate) mirrored: Option<MirroredContent>,
}

fn open_seal(place: Place, accepted: Accepted, options: &OpenOptions) -> Result<Opened, Error> {
    if place.is_slow() || !options.mirrors.is_empty() {
        return open_places(place, accepted, options);
    }
    let (seal, stored) = accepted.found_at(&place)?;
    Ok(Opened {
        seal,
        stored,
        mirrored: None,
    })
}

/// `seal`, with blocks read from older content where that has them.
fn read_like(
    location: &Location,
    seal: Seal,
    options: &OpenOptions,
) -> Result<(Seal, Vec<Unshared>), Error> {
    if options.like.is_empty() {
        return Ok((seal, Vec::new()));
    }
    let (leaves, folder) = (seal.leaves_unverified(), options.access.folder());
    let (olds, unshared) = Olds::open(&options.like, leaves.function(), options, &folder);
    let data = Like::new(seal.clone(), |_| olds).map_err(|error| Error::seal(location, error))?;
    let tree = seal.tree_unverified().clone();
    Ok((seal.with_sources(Arc::new(data), tree), unshared))
}
