use std::sync::Arc;

use verimount_content::{Place, Trust, look_for_hash_area, look_for_seal};
use verimount_source::{Fetch, Unchecked};
use verimount_verity::{Checked, SealLayout, Sealed, dm_verity::HashArea};

use crate::{
    Error, Location, ModelClaim, OpenOptions,
    fault::{ContentFault, Fault},
    foreign::foreign,
    image_format::{self, ImageDescription},
    model::claim,
};

/// What a file says of itself. Nothing of it is verified.
#[derive(Debug)]
#[non_exhaustive]
pub struct Description {
    /// The size of the file in bytes.
    pub size: u64,
    /// What it holds.
    pub kind: FileKind,
    /// Its seal, if it has one.
    pub seal: Option<FoundSeal>,
    /// What the model signature says of itself that an image keeps, if it does. It is not read if it has more than 8 MiB.
    pub model: Option<ModelClaim>,
}

/// What a file holds.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileKind {
    /// An image.
    Image(ImageDescription),
    /// Anything else, which is sealed.
    File,
}

/// A seal, and where it is.
#[derive(Debug)]
#[non_exhaustive]
pub struct FoundSeal {
    /// The seal.
    pub format: FoundFormat,
    /// The file that it is in, if it is not the same as the data's.
    pub sidecar: Option<Location>,
}

/// A seal in one of the formats.
#[derive(Debug)]
#[non_exhaustive]
pub enum FoundFormat {
    /// The kernel's format for files.
    FsVerity(Sealed),
    /// The kernel's format for block devices.
    DmVerity(HashArea),
}

/// Reads a file's description of itself, from its seal and the beginning of its data. An attacker who can
/// change the file can change that, too.
///
/// Of the options, [`OpenOptions::sidecar`] and [`OpenOptions::hash_offset`] say where its seal is.
///
/// # Errors
/// [`WrongFormat`](crate::ErrorKind::WrongFormat), if it is neither sealed nor an image; those of reading.
pub fn describe<L: TryInto<Location>>(
    location: L,
    options: &OpenOptions,
) -> Result<Description, Error>
where
    Error: From<L::Error>,
{
    let location = location.try_into()?;
    let options = &options.for_content(&location, &Trust::Unverified).places;
    let place = Place::new(location.clone(), options);
    let (source, _) = place.content()?;
    let size = source.length();
    let seal = match dm_verity(&place, &source)? {
        Some(area) => Some(area),
        None => fs_verity(&place, &source)?,
    };
    let data = match &seal {
        Some(FoundSeal {
            format: FoundFormat::FsVerity(sealed),
            ..
        }) => sealed.data_unverified().clone(),
        _ => source,
    };
    let kind = match image_format::describe(&Unchecked(&*data))
        .map_err(|error| ContentFault::image(&location, error))?
    {
        Some(image) => FileKind::Image(image),
        None if seal.is_some() => FileKind::File,
        None => {
            let what = foreign(&Unchecked(&*data));
            return Err(Fault::Unrecognised(what).at(location));
        }
    };
    // It only tells what the file says of itself.
    let unverified = Checked::unverified(data);
    let tree = || image_format::open(unverified, Vec::new()).ok().flatten();
    let model = match &kind {
        FileKind::Image(_) => tree().and_then(|tree| claim(&*tree)),
        _ => None,
    };
    Ok(Description {
        size,
        kind,
        seal,
        model,
    })
}

fn fs_verity(place: &Place, source: &Arc<dyn Fetch>) -> Result<Option<FoundSeal>, Error> {
    let sealed = look_for_seal(place, source.clone())?;
    let Some(sealed) = sealed else {
        return Ok(None);
    };
    Ok(Some(FoundSeal {
        sidecar: match sealed.layout() {
            SealLayout::Sidecar => place.sidecar()?.or(place.location().sidecar()),
            SealLayout::Appended => None,
        },
        format: FoundFormat::FsVerity(sealed),
    }))
}

fn dm_verity(place: &Place, source: &Arc<dyn Fetch>) -> Result<Option<FoundSeal>, Error> {
    let found = look_for_hash_area(place, source)?;
    Ok(found.map(|(area, sidecar)| FoundSeal {
        format: FoundFormat::DmVerity(area),
        sidecar,
    }))
}
