use std::sync::Arc;

use verimount_tree::StoredFile;
use verimount_verity::{Account, Checked, Identity, Seal, VerifiedReader, VerifyOptions};

use crate::{
    Error, Location, Options, Origin, Pin, Trust, Unshared,
    accepted::{Accepted, reader},
    fault::Fault,
    history::releases,
    like::{Like, Olds},
    mirrors::{MirroredContent, OpenedSeal, open_places},
    place::Place,
};

/// Content that is open.
#[derive(Clone)]
pub struct Opened {
    /// Where it was opened.
    pub location: Location,
    /// Its bytes, with read-ahead for who reads in order.
    pub source: Checked,
    /// Without read-ahead.
    pub checked: Checked,
    /// What verifies it; `None` if nothing is verified.
    pub reader: Option<Arc<VerifiedReader>>,
    /// Of all that is verified of it, and of what was opened with the same options.
    pub account: Arc<Account>,
    /// On what grounds it is handed out.
    pub pin: Pin,
    /// The attributes of its file.
    pub stored: StoredFile,
    /// Where it was found, if nothing is verified.
    pub unverified: Option<Arc<Place>>,
    /// Of which older content nothing is used.
    pub unshared: Arc<[Unshared]>,
    /// Where it comes from, if not only from this machine.
    pub origin: Option<Arc<dyn Origin>>,
    /// If it is in several places.
    pub mirrored: Option<MirroredContent>,
}

impl Opened {
    /// Its digest or root hash; `None` if nothing is verified.
    pub fn identity(&self) -> Option<Identity> {
        self.reader.as_ref().map(|reader| *reader.identity())
    }
}

/// Opens what is at `location`, as `trust` accepts it.
///
/// # Errors
/// Any of opening and reading.
pub fn open(location: Location, trust: &Trust, options: &Options) -> Result<Opened, Error> {
    let place = Place::new(location, options);
    let accepted = accepted_at(&place, trust, options)?;
    open_accepted(place, accepted, options)
}

/// What `trust` accepts of what is at `place`. If that cannot be asked what its name stands for, a mirror of the same name is.
fn accepted_at(place: &Place, trust: &Trust, options: &Options) -> Result<Option<Accepted>, Error> {
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
pub fn open_accepted(
    place: Place,
    accepted: Option<Accepted>,
    options: &Options,
) -> Result<Opened, Error> {
    let location = place.location().clone();
    let opened = match accepted {
        Some(accepted) => open_verified(place, accepted, options)?,
        None => open_unverified(place, options)?,
    };
    let mut places = options.sidecar.iter().chain(&options.mirrors);
    let is_remote = location.is_remote() || places.any(Location::is_remote);
    let origin = is_remote.then(|| options.access.origin()).flatten();
    let origin = match &opened.mirrored {
        Some(mirrored) => origin.map(|origin| mirrored.origin(origin)),
        None => origin,
    };
    Ok(Opened { origin, ..opened })
}

fn open_unverified(place: Place, options: &Options) -> Result<Opened, Error> {
    if !options.mirrors.is_empty() {
        return Err(Fault::Unverified.at(place.location()));
    }
    let (source, stored) = place.content()?;
    let checked = Checked::unverified(source);
    Ok(Opened {
        location: place.location().clone(),
        source: checked.clone().read_ahead(),
        checked,
        reader: None,
        account: options.verify.account.clone(),
        pin: Pin::Unverified,
        stored,
        unverified: Some(place.into()),
        unshared: Arc::default(),
        origin: None,
        mirrored: None,
    })
}

fn open_verified(place: Place, accepted: Accepted, options: &Options) -> Result<Opened, Error> {
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
    Ok(Opened {
        location,
        source: checked.clone().read_ahead(),
        checked,
        reader: Some(reader),
        account: options.verify.account.clone(),
        pin,
        stored: opened.stored,
        unverified: None,
        unshared: unshared.into(),
        origin: None,
        mirrored: opened.mirrored,
    })
}

fn open_seal(place: Place, accepted: Accepted, options: &Options) -> Result<OpenedSeal, Error> {
    if place.is_slow() || !options.mirrors.is_empty() {
        return open_places(place, accepted, options);
    }
    let (seal, stored) = accepted.found_at(&place)?;
    Ok(OpenedSeal {
        seal,
        stored,
        mirrored: None,
    })
}

/// `seal`, with blocks read from older content where that has them.
fn read_like(
    location: &Location,
    seal: Seal,
    options: &Options,
) -> Result<(Seal, Vec<Unshared>), Error> {
    if options.like.is_empty() {
        return Ok((seal, Vec::new()));
    }
    let (leaves, folder) = (seal.leaves_unverified(), options.access.folder());
    let (olds, unshared) = Olds::open(&options.like, leaves.function(), options, &folder);
    let data = Like::new(seal.clone(), |_| olds).map_err(|error| Fault::seal(location, error))?;
    let tree = seal.tree_unverified().clone();
    Ok((seal.with_sources(Arc::new(data), tree), unshared))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, sealed_files::write_sealed};

    #[test]
    fn mirrors_are_for_what_is_verified_and_not_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write_sealed(&path, &vec![7; 5000]);
        for (trust, mirrors, refused) in [
            (Trust::Unpinned, 15, None),
            (Trust::Unpinned, 16, Some(ErrorKind::InvalidInput)),
            (Trust::Unverified, 0, None),
            (Trust::Unverified, 1, Some(ErrorKind::NotTrusted)),
        ] {
            let options = Options {
                mirrors: vec![path.as_path().into(); mirrors],
                ..Options::default()
            };
            let opened = open(path.as_path().into(), &trust, &options);
            assert_eq!(opened.err().map(|error| error.kind()), refused, "{mirrors}");
        }
    }

    #[test]
    fn a_first_place_that_is_missing_is_not_well_because_others_are() {
        let folder = tempfile::tempdir().unwrap();
        let [first, mirror] = ["first", "mirror"].map(|name| folder.path().join(name));
        write_sealed(&mirror, &vec![7; 5000]);
        let options = Options {
            mirrors: vec![mirror.as_path().into()],
            repair: true,
            ..Options::default()
        };
        let location: Location = first.as_path().into();
        let opened = open(location.clone(), &Trust::Unpinned, &options).unwrap();
        assert!(opened.mirrored.unwrap().first_alone(&location).is_err());
    }
}
