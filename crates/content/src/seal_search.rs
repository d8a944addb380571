//! Where the seal of a file is.

use std::sync::Arc;

use verimount_source::Fetch;
use verimount_verity::{Corruption, Error as VerityError, Sealed, dm_verity::HashArea};

use crate::{Error, Location, fault::Fault, layer_note::LayerNote, place::Place};

/// Finds the seal of a file; fails if there is none.
pub fn find_seal(place: &Place, source: Arc<dyn Fetch>) -> Result<Sealed, Error> {
    let sealed = look_for_seal(place, source)?;
    sealed.ok_or_else(|| not_sealed(place.location()))
}

/// The error for a file without a seal.
pub(crate) fn not_sealed(location: &Location) -> Error {
    let sidecar = location.sidecar();
    Fault::NotSealed { sidecar }.at(location)
}

/// Looks for a seal: in the given sidecar, or where the location itself has it; else at the end of the file,
/// else in `FILE.verity`.
pub fn look_for_seal(place: &Place, source: Arc<dyn Fetch>) -> Result<Option<Sealed>, Error> {
    let location = place.location();
    let open = |sidecar: &Location, seal| open_sidecar(location, source.clone(), sidecar, seal);
    if let Some(sidecar) = place.sidecar()? {
        return open(&sidecar, place.file(&sidecar)?).map(Some);
    }
    match Sealed::open_appended(source.clone()) {
        Err(VerityError::NotSealed) => {}
        Err(error) => return Err(Fault::seal(location, error)),
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
        other => Fault::seal(at, other),
    })
}

/// Finds the hash area: in the file itself if only its offset is given, else in the given sidecar or
/// in `FILE.verity`, else where `FILE.dmverity` says.
pub(crate) fn find_hash_area(place: &Place, source: Arc<dyn Fetch>) -> Result<HashArea, Error> {
    let location = place.location();
    let (sidecar, offset) = place.hash_area()?;
    let Some(sidecar) = sidecar else {
        return HashArea::open_appended(source, offset)
            .map_err(|error| Fault::seal(location, error));
    };
    let Some(hashes) = place.existing_file(&sidecar)? else {
        return match look_for_note(place)? {
            Some(note) => note.hash_area(location, source),
            None => Err(Fault::NoHashArea.at(sidecar)),
        };
    };
    HashArea::open_beside(source, hashes, offset).map_err(|error| Fault::seal(sidecar, error))
}

/// Looks for a hash area of dm-verity in the places where it usually is, and tells in which other file it is. If its offset is
/// given, it must be there.
///
/// # Errors
/// Those of opening and reading.
pub fn look_for_hash_area(
    place: &Place,
    source: &Arc<dyn Fetch>,
) -> Result<Option<(HashArea, Option<Location>)>, Error> {
    let location = place.location();
    let (sidecar, offset) = place.hash_area()?;
    let hashes = match &sidecar {
        Some(sidecar) => place.existing_file(sidecar)?,
        None => None,
    };
    let sidecar = sidecar.filter(|_| hashes.is_some());
    let is_certain = place.hash_offset.is_some();
    let area = match hashes {
        None if !is_certain => {
            let Some(note) = look_for_note(place)? else {
                return Ok(None);
            };
            let area = note.hash_area(location, source.clone())?;
            return Ok(Some((area, None)));
        }
        None => HashArea::open_appended(source.clone(), offset),
        Some(hashes) => HashArea::open_beside(source.clone(), hashes, offset),
    };
    match area {
        Err(VerityError::NoSuperblock) if !is_certain => Ok(None),
        Err(error) => Err(Fault::seal(sidecar.as_ref().unwrap_or(location), error)),
        Ok(area) => Ok(Some((area, sidecar))),
    }
}

/// Looks for what containerd says of a layer, unless options say where the hash area is.
pub(crate) fn look_for_note(place: &Place) -> Result<Option<LayerNote>, Error> {
    if place.is_to_be_searched()? {
        LayerNote::beside(place)
    } else {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::{
        ErrorKind, Options,
        sealed_files::{write_hash_area, write_seal, write_sealed},
    };

    const SIZE: usize = 200 * 4096;

    fn found<T>(
        path: &Path,
        options: &Options,
        find: impl Fn(&Place, Arc<dyn Fetch>) -> Result<T, Error>,
    ) -> Result<T, ErrorKind> {
        let place = Place::new(path.into(), options);
        let (source, _) = place.content().unwrap();
        find(&place, source).map_err(|error| error.kind())
    }

    #[test]
    fn a_damaged_seal_is_not_replaced_by_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let [path, beside] = ["file", "file.verity"].map(|name| folder.path().join(name));
        let data = vec![7; SIZE];
        write_sealed(&path, &data);
        let find = |place: &Place, source| look_for_seal(place, source);
        assert!(found(&path, &Options::default(), find).unwrap().is_some());
        let mut damaged = fs::read(&path).unwrap();
        let descriptor = damaged.len() - 4096;
        damaged[descriptor + 200] ^= 1;
        fs::write(&path, &damaged).unwrap();
        // Of the file as it is.
        write_seal(&beside, &damaged);
        assert_eq!(
            found(&path, &Options::default(), find).err(),
            Some(ErrorKind::Corrupt)
        );
    }

    #[test]
    fn a_hash_area_is_only_where_options_say_that_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let [path, beside, note] =
            ["file", "sidecar", "file.dmverity"].map(|name| folder.path().join(name));
        let data = vec![7; SIZE];
        fs::write(&path, &data).unwrap();
        write_hash_area(&beside, &data);
        let behind = [vec![0; 4096], fs::read(&beside).unwrap()].concat();
        fs::write(&beside, behind).unwrap();
        let options = |hash_offset| Options {
            sidecar: Some(beside.as_path().into()),
            hash_offset,
            ..Options::default()
        };
        let find = |place: &Place, source| find_hash_area(place, source);
        assert!(found(&path, &options(Some(4096)), find).is_ok());
        assert!(found(&path, &options(None), find).is_err());

        // There is none, and the note does not count.
        fs::write(note, "nonsense").unwrap();
        let given = Options {
            hash_offset: Some(4096),
            ..Options::default()
        };
        let look = |place: &Place, source: Arc<dyn Fetch>| look_for_hash_area(place, &source);
        assert!(found(&path, &given, look).is_err());
        let note = |place: &Place, _: Arc<dyn Fetch>| look_for_note(place);
        assert!(found(&path, &given, note).unwrap().is_none());
        assert!(found(&path, &options(None), note).unwrap().is_none());
    }
}
