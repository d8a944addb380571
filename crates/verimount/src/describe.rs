use std::sync::Arc;

use verimount_integrity::{Error as VolumeError, SECTOR, Superblock};
use verimount_source::ReadAt;
use verimount_verity::{Error as VerityError, SealLayout, Sealed, dm_verity::HashArea};

use crate::{
    Error, Location, OpenOptions,
    image::{self, Description as ImageDescription},
    seal_search::{look_for_note, look_for_seal},
    sources::Sources,
};

/// What a file says of itself. Nothing of it is verified.
pub struct Description {
    /// The size of the file in bytes.
    pub size: u64,
    /// What it holds.
    pub kind: FileKind,
    /// Its seal, if it has one.
    pub seal: Option<FoundSeal>,
}

/// What a file holds.
#[non_exhaustive]
pub enum FileKind {
    /// An image.
    Image(ImageDescription),
    /// A volume.
    Volume(Superblock),
    /// Anything else, which is sealed.
    File,
}

/// A seal, and where it is.
pub struct FoundSeal {
    /// The seal.
    pub format: FoundFormat,
    /// The file that it is in, if it is not the same as the data's.
    pub sidecar: Option<Location>,
}

/// A seal in one of the formats.
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
/// [`Error::Unrecognised`], if it is neither sealed nor an image nor a volume; any other [`Error`] of
/// reading.
pub fn describe(
    location: impl Into<Location>,
    options: &OpenOptions,
) -> Result<Description, Error> {
    let location = location.into();
    let sources = Sources::new(options);
    let (source, _) = sources.content(&location)?;
    let size = source.size();
    if let Some(volume) = volume(&location, &source)? {
        let kind = FileKind::Volume(volume);
        let seal = None;
        return Ok(Description { size, kind, seal });
    }
    let seal = match dm_verity(&location, &source, &sources)? {
        Some(area) => Some(area),
        None => fs_verity(&location, &source, &sources)?,
    };
    let data = match &seal {
        Some(FoundSeal {
            format: FoundFormat::FsVerity(sealed),
            ..
        }) => sealed.data_unverified().clone(),
        _ => source,
    };
    let kind = match image::describe(data).map_err(|error| Error::image(&location, error))? {
        Some(image) => FileKind::Image(image),
        None if seal.is_some() => FileKind::File,
        None => return Err(Error::Unrecognised { at: location }),
    };
    Ok(Description { size, kind, seal })
}

fn volume(location: &Location, source: &Arc<dyn ReadAt>) -> Result<Option<Superblock>, Error> {
    let superblock = match Superblock::read(source, 0) {
        Err(VolumeError::NotIntegrity | VolumeError::TooSmall { .. }) => return Ok(None),
        other => other.map_err(|error| Error::volume(location, error))?,
    };
    let disk = superblock.provided_data_sectors().saturating_mul(SECTOR);
    let is_alone = superblock.interleave().is_some();
    match is_alone && disk >= source.size() {
        true => Err(Error::TruncatedVolume {
            at: location.clone(),
            size: source.size(),
            disk,
        }),
        false => Ok(Some(superblock)),
    }
}

fn fs_verity(
    location: &Location,
    source: &Arc<dyn ReadAt>,
    sources: &Sources<'_>,
) -> Result<Option<FoundSeal>, Error> {
    let sealed = look_for_seal(location, source.clone(), sources)?;
    Ok(sealed.map(|sealed| FoundSeal {
        sidecar: match sealed.layout() {
            SealLayout::Sidecar => sources.options.sidecar.clone().or(location.sidecar()),
            SealLayout::Appended => None,
        },
        format: FoundFormat::FsVerity(sealed),
    }))
}

/// The dm-verity hash area given by the options, or in the file's sidecar.
fn dm_verity(
    location: &Location,
    source: &Arc<dyn ReadAt>,
    sources: &Sources<'_>,
) -> Result<Option<FoundSeal>, Error> {
    let offset = sources.options.hash_offset;
    let sidecar = match (&sources.options.sidecar, offset) {
        (None, Some(_)) => None,
        (given, _) => given.clone().or(location.sidecar()),
    };
    let hashes = match &sidecar {
        Some(sidecar) => sources.existing_sidecar(sidecar)?,
        None => None,
    };
    let sidecar = sidecar.filter(|_| hashes.is_some());
    let area = match (hashes, offset) {
        (None, None) => {
            let Some(note) = look_for_note(location, sources)? else {
                return Ok(None);
            };
            let area = note.hash_area(location, source.clone())?;
            return Ok(Some(FoundSeal {
                format: FoundFormat::DmVerity(area),
                sidecar: None,
            }));
        }
        (None, Some(offset)) => HashArea::open_appended(source.clone(), offset),
        (Some(hashes), offset) => {
            HashArea::open_beside(source.clone(), hashes, offset.unwrap_or(0))
        }
    };
    match area {
        Err(VerityError::NoSuperblock) if offset.is_none() => Ok(None),
        Err(error) => Err(Error::seal(sidecar.as_ref().unwrap_or(location), error)),
        Ok(area) => Ok(Some(FoundSeal {
            format: FoundFormat::DmVerity(area),
            sidecar,
        })),
    }
}
