//! Where the seal of a file is.

use std::sync::Arc;

use verimount_source::{Fetch, ReadAt, Unchecked};
use verimount_verity::{Corruption, Error as VerityError, Sealed, dm_verity::HashArea};

use crate::{Error, Location, fault::Fault, image_format, layer_note::LayerNote, place::Place};

/// Finds the seal of a file; fails if there is none.
pub(crate) fn find_seal(place: &Place, source: Arc<dyn Fetch>) -> Result<Sealed, Error> {
    let sealed = look_for_seal(place, source.clone())?;
    sealed.ok_or_else(|| not_sealed(place.location(), &Unchecked(&*source)))
}

/// The error for a file without a seal.
pub(crate) fn not_sealed(location: &Location, source: &dyn ReadAt) -> Error {
    // An image stores its size at its beginning, so truncation can be told from a missing seal.
    match image_format::truncation(source) {
        Some(error) => Error::image(location, error),
        None => {
            let sidecar = location.sidecar();
            Fault::NotSealed { sidecar }.at(location)
        }
    }
}

/// Looks for a seal: in the given sidecar, or where the location itself has it; else at the end of the file,
/// else in `FILE.verity`.
pub(crate) fn look_for_seal(
    place: &Place,
    source: Arc<dyn Fetch>,
) -> Result<Option<Sealed>, Error> {
    let location = place.location();
    let open = |sidecar: &Location, seal| open_sidecar(location, source.clone(), sidecar, seal);
    if let Some(sidecar) = place.sidecar()? {
        return open(&sidecar, place.file(&sidecar)?).map(Some);
    }
    match Sealed::open_appended(source.clone()) {
        Err(VerityError::NotSealed) => {}
        Err(error) => return Err(Error::seal(location, error)),
        Ok(sealed) => return Ok(Some(sealed)),
    }
    let Some(sidecar) = location.sidecar() else {
        return Ok(None);
    };
    let seal = place.existing_file(&sidecar)?;
    seal.map(|seal| open(&sidecar, seal)).transpose()
}

fn open_sidecar(
    location: &Location,
    data: Arc<dyn Fetch>,
    sidecar: &Location,
    seal: Arc<dyn Fetch>,
) -> Result<Sealed, Error> {
    let at = sidecar.clone();
    Sealed::open_sidecar(data.clone(), seal.clone()).map_err(|error| match error {
        VerityError::NotSealed if HashArea::open_beside(data, seal, 0).is_ok() => {
            Fault::IsHashArea.at(at)
        }
        VerityError::NotSealed => Fault::NotASeal.at(at),
        VerityError::Corrupt(Corruption::DataSize { expected, actual }) => Fault::SizeChanged {
            sidecar: at,
            expected,
            actual,
        }
        .at(location),
        other => Error::seal(at, other),
    })
}

/// Finds the hash area: in the file itself if only its offset is given, else in the given sidecar or
/// in `FILE.verity`, else where `FILE.dmverity` says.
pub(crate) fn find_hash_area(place: &Place, source: Arc<dyn Fetch>) -> Result<HashArea, Error> {
    let location = place.location();
    let (sidecar, offset) = place.hash_area()?;
    let Some(sidecar) = sidecar else {
        return HashArea::open_appended(source, offset)
            .map_err(|error| Error::seal(location, error));
    };
    let Some(hashes) = place.existing_file(&sidecar)? else {
        return match look_for_note(place)? {
            Some(note) => note.hash_area(location, source),
            None => Err(Fault::NoHashArea.at(sidecar)),
        };
    };
    HashArea::open_beside(source, hashes, offset).map_err(|error| Error::seal(sidecar, error))
}

/// Looks for what containerd says of a layer, unless options say where the hash area is.
pub(crate) fn look_for_note(place: &Place) -> Result<Option<LayerNote>, Error> {
    if place.is_to_be_searched()? {
        LayerNote::beside(place)
    } else {
        Ok(None)
    }
}
