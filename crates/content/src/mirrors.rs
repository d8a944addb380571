//! Content that is in several places.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use verimount_mirrors::{Mirrors, PlaceKind};
use verimount_source::{Ask, Fetch};
use verimount_sync::Mutex;
use verimount_tree::StoredFile;
use verimount_verity::{Seal, VerifiedReader, VerifyOptions};

use crate::{
    Error, Location, Options, Origin, OriginStatus,
    accepted::{Accepted, reader},
    far::FarLocation,
    fault::Fault,
    history::{keep, kept_seal},
    lazy,
    origin::ContentOrigin,
    place::Place,
    trust::Trust,
};

/// The most mirrors of one content.
const MAX_MIRRORS: usize = 15;

/// How long opening one place is waited for before another one is opened.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is known of the places of content.
#[derive(Clone)]
pub struct MirroredContent {
    /// Its places.
    pub mirrors: Arc<Mirrors>,
    /// The seal whose data and tree are read from the first place only.
    first: Seal,
    first_place: Arc<Place>,
    /// Why the first place could not be opened.
    first_error: Arc<Mutex<Option<Error>>>,
    /// Whether what is wrong is replaced on this machine.
    pub repairs: bool,
}

/// A seal that was accepted, and what belongs to its content.
pub(crate) struct OpenedSeal {
    pub(crate) seal: Seal,
    pub(crate) stored: StoredFile,
    /// If it is in several places.
    pub(crate) mirrored: Option<MirroredContent>,
}

/// A seal that was found, and the attributes of its file.
struct Found {
    /// By which place; `None` if by the cache.
    place: Option<usize>,
    seal: Seal,
    stored: StoredFile,
    /// Why others have it not, by place; `None` if it was found sooner.
    errors: Vec<Option<Error>>,
}

impl MirroredContent {
    /// The place that is asked first.
    pub fn first_place(&self) -> &Place {
        &self.first_place
    }

    /// A reader of the first place alone, and whether only the end of its seal was damaged, and was repaired.
    ///
    /// # Errors
    /// The first time, why it could not be opened, unless it can be now.
    pub fn first_alone(&self, at: &Location) -> Result<(VerifiedReader, bool), Error> {
        let error = self.first_error.lock().take();
        let had_bad_end = match error {
            Some(error) if !self.opens_now() => return Err(error),
            Some(_) => self.first_place.end_is_repaired().is_some(),
            None => false,
        };
        let (seal, options) = (self.first.clone(), VerifyOptions::default());
        Ok((reader(at, seal, options)?, had_bad_end))
    }

    /// Whether others can open the first place now, too: it was repaired, or can be reached again.
    fn opens_now(&self) -> bool {
        let opens = || {
            let data = self.first.data_unverified();
            data.fetch(&mut [0], 0, Ask::default()).is_ok()
        };
        self.repairs && opens() && self.first_place.end_is_repaired() != Some(false)
    }

    /// `origin`, which is closed with the places.
    pub(crate) fn origin(&self, origin: Arc<dyn Origin>) -> Arc<dyn Origin> {
        Arc::new(MirroredOrigin {
            origin,
            mirrors: self.mirrors.clone(),
        })
    }
}

/// Opens what is accepted at `place`, or else at the first mirror that has it. Further places are opened when they are
/// needed. What takes long to read is read through its copies in the cache, if there is one.
pub(crate) fn open_places(
    place: Place,
    accepted: Accepted,
    options: &Options,
) -> Result<OpenedSeal, Error> {
    if options.mirrors.len() > MAX_MIRRORS {
        return Err(Fault::TooManyMirrors { most: MAX_MIRRORS }.at(place.location()));
    }
    let places = place.and_mirrors(options);
    let places: Vec<Arc<Place>> = places.map(|place| place.absolute().into()).collect();
    let access = &options.access;
    // If the first place is quick, only what comes from others is worth keeping.
    let keeps_all = places[0].is_slow();
    let kept = if keeps_all {
        kept_seal(&places[0], &accepted, access)
    } else {
        None
    };
    let found = match kept {
        Some(seal) => Found {
            place: None,
            seal,
            stored: StoredFile::default(),
            errors: Vec::new(),
        },
        None => find(&places, &accepted)?,
    };
    let has_it = found.place == Some(0);
    let origin = origin_of_all(&places, &accepted).map(|name| ContentOrigin { name, has_it });
    // Only what was pinned, or is in several places, is read on when it is stored in another way.
    let is_read_on = !matches!(accepted, Accepted::OwnSeal) || places.len() > 1;
    let accepted = accepted.only(&found.seal);
    let copies = places.iter().enumerate().map(|(number, place)| {
        let is_kept = !keeps_all && place.is_slow();
        let (place, accepted) = (place.clone(), accepted.clone());
        let seal = if found.place != Some(number) {
            lazy::closed(place, accepted, &found.seal)
        } else if is_read_on {
            lazy::open(place, accepted, &found.seal)
        } else {
            found.seal.clone()
        };
        if is_kept {
            // Nothing is taken from other content: finding it takes reads of the tree, which would not fail as soon as those of
            // one place among several must.
            keep(seal, None, access)
        } else {
            seal
        }
    });
    let copies: Vec<Seal> = copies.collect();
    let stored = found.stored;
    let (seal, mirrored) = match &*copies {
        [only] => (only.clone(), None),
        _ => {
            let (seal, mirrored) = mirrored(&places, &copies, found, options);
            (seal, Some(mirrored))
        }
    };
    Ok(OpenedSeal {
        seal: if keeps_all {
            keep(seal, origin, access)
        } else {
            seal
        },
        stored,
        mirrored,
    })
}

/// The seal that was found, read from all places, each of which has a copy.
fn mirrored(
    places: &[Arc<Place>],
    copies: &[Seal],
    found: Found,
    options: &Options,
) -> (Seal, MirroredContent) {
    let mirrors = mirrors_of(places, options);
    for number in 0..found.place.unwrap_or(0) {
        match &found.errors[number] {
            Some(error) => mirrors.could_not_open(number, error),
            None => mirrors.could_not_open(number, &"it takes long"),
        }
    }
    let part = |what, choose: fn(&Seal) -> &Arc<dyn Fetch>| -> Arc<dyn Fetch> {
        let copies = copies.iter().map(|copy| choose(copy).clone());
        Arc::new(mirrors.part(what, copies.collect()))
    };
    let (data, tree) = (
        part("data", Seal::data_unverified),
        part("tree", Seal::tree_unverified),
    );
    let mirrored = MirroredContent {
        first: copies[0].clone(),
        first_place: places[0].clone(),
        first_error: Arc::new(Mutex::new(found.errors.into_iter().next().flatten())),
        repairs: options.repair,
        mirrors,
    };
    (found.seal.with_sources(data, tree), mirrored)
}

/// Where content comes from that comes from any of these places: as from the first, unless what a further one has on another
/// machine is not for everybody who may read that.
fn origin_of_all(places: &[Arc<Place>], accepted: &Accepted) -> Option<String> {
    if matches!(accepted, Accepted::OwnSeal) {
        return None;
    }
    let origin = |place: &Arc<Place>| FarLocation::of(place.location())?.origin(&place.access);
    let far = places.iter().filter(|place| place.is_slow());
    let origins: Option<Vec<_>> = far.map(origin).collect();
    origins?.into_iter().next()
}

/// Finds a place that has what is accepted: the first, unless it takes long and another one has it sooner.
fn find(places: &[Arc<Place>], accepted: &Accepted) -> Result<Found, Error> {
    if let [only] = places {
        let (seal, stored) = accepted.found_at(only)?;
        return Ok(Found {
            place: Some(0),
            seal,
            stored,
            errors: Vec::new(),
        });
    }
    let (sender, found) = mpsc::channel();
    let mut errors: Vec<Option<Error>> = places.iter().map(|_| None).collect();
    let mut to_ask = places.iter().enumerate();
    let mut asked = 0;
    while asked > 0 || to_ask.len() > 0 {
        if let Some((number, place)) = to_ask.next() {
            ask(number, place, accepted, sender.clone());
            asked += 1;
        }
        let arrived = match to_ask.len() {
            0 => found.recv().ok(),
            _ => found.recv_timeout(PATIENCE).ok(),
        };
        match arrived {
            Some((number, Ok((seal, stored)))) => {
                return Ok(Found {
                    place: Some(number),
                    seal,
                    stored,
                    errors,
                });
            }
            Some((number, Err(error))) => {
                errors[number] = Some(error);
                asked -= 1;
            }
            // It may come while another one is opened.
            None => {}
        }
    }
    Err(errors.swap_remove(0).expect("each place has failed"))
}

/// The place that says what content is accepted: the first or, if that does not answer and nothing depends on its own
/// answer, a mirror.
pub fn answering<'a>(places: &'a [Arc<Place>], trust: &Trust) -> Result<&'a Arc<Place>, Error> {
    let first = &places[0];
    let named = first.location().named_digest();
    let says_the_same = |place: &&Arc<Place>| match trust {
        Trust::Pinned(pins) if !pins.is_empty() && named.is_none() => true,
        _ => named.is_some() && place.location().named_digest() == named,
    };
    let Err(error) = first.manifest() else {
        return Ok(first);
    };
    let mut others = places[1..].iter().filter(says_the_same);
    let other = others.find(|place| matches!(place.manifest(), Ok(Some(_))));
    other.ok_or(error)
}

/// A place by its number, and what was found there.
type Arrived = (usize, Result<(Seal, StoredFile), Error>);

/// Looks for what is accepted at a place. If that may take long, a thread does it.
fn ask(number: usize, place: &Arc<Place>, accepted: &Accepted, found: mpsc::Sender<Arrived>) {
    let is_slow = place.is_slow();
    let (place, accepted) = (place.clone(), accepted.clone());
    let ask = move || {
        // Another place was sooner, if nobody waits for it.
        let _ = found.send((number, accepted.found_at(&place)));
    };
    if is_slow {
        drop(thread::spawn(ask));
    } else {
        ask();
    }
}

/// What is known of these places, nothing yet.
pub fn mirrors_of(places: &[Arc<Place>], options: &Options) -> Arc<Mirrors> {
    let names = places.iter().map(|place| {
        let kind = if place.is_slow() {
            PlaceKind::Far
        } else {
            PlaceKind::Near
        };
        (place.location().to_string(), kind)
    });
    Mirrors::new(names, options.access.timeout(), options.repair)
}

/// The origin of content that is in several places.
struct MirroredOrigin {
    origin: Arc<dyn Origin>,
    mirrors: Arc<Mirrors>,
}

impl Origin for MirroredOrigin {
    fn status(&self) -> OriginStatus {
        self.origin.status()
    }

    /// Each place may take as long.
    fn patience(&self) -> Duration {
        let places = self.mirrors.stats().places.len();
        self.origin.patience().saturating_mul(places as u32)
    }

    fn close(&self) {
        self.mirrors.close();
        self.origin.close();
    }
}

#[cfg(all(test, feature = "remote"))]
mod tests {
    use verimount_testkit::RegistryServer;

    use super::*;
    use crate::Pins;

    /// A manifest, and its digest.
    fn manifest(size: u64) -> (String, String) {
        let blob = format!(
            r#"{{"mediaType": "a/b", "digest": "sha256:{}", "size": {size}}}"#,
            "0".repeat(64)
        );
        let text = format!(r#"{{"schemaVersion": 2, "config": {blob}, "layers": [{blob}]}}"#);
        let digest = verimount_remote::registry::BlobDigest::of(text.as_bytes());
        (text, digest.to_string())
    }

    #[test]
    fn a_mirror_answers_for_what_it_is_known_to_have() {
        let server = RegistryServer::honest();
        let [(own, digest), (other, of_other)] = [1, 2].map(manifest);
        server.store_manifest(&digest, own.clone());
        server.store_manifest("tag", own);
        server.store_manifest(&of_other, other);
        let (named, of_other) = (format!("@{digest}"), format!("@{of_other}"));
        let pins = Trust::Pinned(Pins {
            root_hash: Some("0".repeat(64).parse().unwrap()),
            ..Pins::default()
        });
        let (no_pins, unpinned) = (Trust::Pinned(Pins::default()), Trust::Unpinned);
        for (first, mirror, trust, answers) in [
            (&*named, &*named, &unpinned, true),
            (&named, &of_other, &unpinned, false),
            (&named, &of_other, &pins, false),
            (&named, ":tag", &pins, false),
            (":tag", ":tag", &pins, true),
            (":tag", ":tag", &no_pins, false),
            (":tag", ":tag", &unpinned, false),
        ] {
            let at = |host: &str, name| format!("oci://{host}/repository{name}").parse().unwrap();
            // Nobody listens there.
            let places = [at("127.0.0.1:1", first), at(server.host(), mirror)];
            let places = places.map(|at| Arc::new(Place::new(at, &Options::default())));
            let answered = answering(&places, trust).is_ok();
            assert_eq!(answered, answers, "{first} {mirror} {trust:?}");
        }
    }
}
