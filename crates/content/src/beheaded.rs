//! Content whose seal is known from elsewhere, at a place where its descriptor is damaged.

use std::{io, sync::Arc};

use verimount_source::{Fetch, ReadAt, Unchecked};
use verimount_verity::{
    DESCRIPTOR_SIZE, Identity, Seal, Sealed, Trust, VerifiedReader, VerifyOptions,
};

use crate::{Location, place::Place};

/// A seal at a place where only its end is damaged, if this is its content. The end is replaced if the place is to be
/// repaired, so that others can open it, too.
pub(crate) fn beheaded(seal: &Seal, place: &Place, source: Arc<dyn Fetch>) -> Option<Seal> {
    let Identity::FileDigest(_) = seal.identity() else {
        return None;
    };
    let (data, tree) = (seal.data_unverified(), seal.tree_unverified());
    let known = Sealed::from_parts(seal.head(), data.clone(), tree.clone()).ok()?;
    let (found, end_at) = stored_as(&known, place, source)?;
    let seal = found.accepted_by(&Trust::Unpinned).ok()?;
    if !is_its_content(seal.clone()) {
        return None;
    }
    if place.is_mended {
        place.had_damaged_end(mend_end(&found, &*end_at, place.location()));
    }
    Some(seal)
}

/// The seal `known` where it must be stored by the sizes of the files, and the file that it is in.
fn stored_as(
    known: &Sealed,
    place: &Place,
    source: Arc<dyn Fetch>,
) -> Option<(Sealed, Arc<dyn Fetch>)> {
    let sidecar = place.sidecar().ok()?;
    if sidecar.is_none()
        && let Some(found) = known.appended_to(source.clone())
    {
        return Some((found, source));
    }
    let sidecar = sidecar.or_else(|| place.location().sidecar())?;
    let sidecar = place.existing_file(&sidecar).ok()??;
    Some((known.beside(source, sidecar.clone())?, sidecar))
}

/// Whether one of three bytes verifies: files of other content can have the same size.
fn is_its_content(seal: Seal) -> bool {
    let Ok(reader) = VerifiedReader::new(seal, VerifyOptions::default()) else {
        return false;
    };
    let last = reader.size().saturating_sub(1);
    let places = [0, last / 2, last];
    let is_right = |at: u64| reader.read_exact_at(&mut [0], at).is_ok();
    reader.size() > 0 && places.into_iter().any(is_right)
}

/// Replaces a damaged descriptor; whether that was possible. A signature is no part of what is verified, so a seal that has
/// one, here or where it is known from, stays as it is.
fn mend_end(found: &Sealed, file: &dyn Fetch, at: &Location) -> bool {
    let mended = found.end().map_err(io::Error::other);
    let mended = mended.and_then(|(offset, end)| {
        let is_signed = !matches!(found.signature(), Ok(None));
        if is_signed || !is_unsigned(&Unchecked(file), offset, &end)? {
            return Err(io::Error::other("it has a signature, or may have had one"));
        }
        file.mend(&end, offset)
    });
    match &mended {
        Ok(()) => tracing::warn!(place = %at, "the end of the seal was repaired there"),
        Err(error) => {
            tracing::warn!(place = %at, %error, "the end of the seal there cannot be repaired");
        }
    }
    mended.is_ok()
}

/// Whether what is stored behind the descriptor says that no signature follows it. The size of the file does not tell: a short
/// one fits into the same block.
fn is_unsigned(file: &dyn ReadAt, offset: u64, unsigned: &[u8]) -> io::Result<bool> {
    let mut stored = vec![0; unsigned.len()];
    file.read_exact_at(&mut stored, offset)
        .map_err(io::Error::other)?;
    Ok(stored[DESCRIPTOR_SIZE..] == unsigned[DESCRIPTOR_SIZE..])
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::{Options, accepted::Accepted, sealed_files::write_sealed};

    /// Writes a file with its seal, and returns its bytes.
    fn sealed(path: &Path, data: [u8; 100]) -> Vec<u8> {
        write_sealed(path, &data);
        fs::read(path).unwrap()
    }

    #[test]
    fn only_the_end_of_the_same_content_is_repaired() {
        let folder = tempfile::tempdir().unwrap();
        let [own, other] = ["own", "other"].map(|name| folder.path().join(name));
        let (right, of_other) = (sealed(&own, [1; 100]), sealed(&other, [2; 100]));
        let options = Options {
            repair: true,
            mirrors: vec![own.as_path().into()],
            ..Options::default()
        };
        let place = |path: &Path| Place::new(path.into(), &options);
        let (seal, _) = Accepted::OwnSeal.found_at(&place(&own)).unwrap();
        let is_found = |path: &Path| {
            let place = place(path);
            let (source, _) = place.content().unwrap();
            beheaded(&seal, &place, source).is_some()
        };
        for (path, right, is_own) in [(&own, &right, true), (&other, &of_other, false)] {
            let mut damaged = right.clone();
            let descriptor = damaged.len() - 4096;
            damaged[descriptor + 20] ^= 1;
            fs::write(path, &damaged).unwrap();
            assert_eq!(is_found(path), is_own);
            let expected = if is_own { right } else { &damaged };
            assert!(fs::read(path).unwrap() == *expected);
        }
        // Nor is it mended when nothing is wrong with it.
        fs::write(&other, &of_other).unwrap();
        assert!(!is_found(&other));
        assert!(fs::read(&other).unwrap() == of_other);
    }

    /// It may be there only.
    #[test]
    fn what_may_be_a_signature_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        let mut damaged = sealed(&own, [1; 100]);
        let mut options = Options {
            repair: true,
            mirrors: vec![own.as_path().into()],
            ..Options::default()
        };
        let place = |options: &Options| Place::new(own.as_path().into(), options);
        let (seal, _) = Accepted::OwnSeal.found_at(&place(&options)).unwrap();
        let descriptor = damaged.len() - 4096;
        damaged[descriptor + 20] ^= 1;
        damaged[descriptor + DESCRIPTOR_SIZE] ^= 1;
        fs::write(&own, &damaged).unwrap();
        let found = |options: &Options| {
            let place = place(options);
            let (source, _) = place.content().unwrap();
            beheaded(&seal, &place, source)
        };
        assert!(found(&options).is_some());
        assert!(fs::read(&own).unwrap() == damaged);
        // If the seal is said to be elsewhere, that is where it is.
        options.sidecar = Some(folder.path().join("missing").into());
        assert!(found(&options).is_none());
    }
}
