//! Archives of container images, as `docker save`, `podman save` and `skopeo copy` write them.

use std::{collections::BTreeMap, fs::File, io, ops::Range, os::unix::fs::FileExt};

use serde::{Deserialize, de::DeserializeOwned};
use thiserror::Error;
use verimount_scan::ArchiveScan;

/// The longest description of an image in bytes. Those that exist have some kilobytes.
const MAX_DESCRIPTION: u64 = 4 << 20;

/// The most layers of an image: several times those that container engines mount.
const MAX_LAYERS: usize = 1024;

/// How deep lists of images may be nested in OCI's format: one list is of names, and one of platforms.
const MAX_LISTS: usize = 4;

/// The annotation of what is about an image, but none.
const REFERENCE_TYPE: &str = "vnd.docker.reference.type";

/// Why there is no tree in the archive of an image.
#[derive(Debug, Error)]
pub(crate) enum ImageArchiveError {
    /// There are several images in it, or one for several platforms.
    #[error("it has {0} container images: make an archive of one of them")]
    Several(usize),
    /// A part of the image is missing.
    #[error("it is an archive of a container image, but {0} is not in it")]
    Missing(String),
    /// A description is not what the format demands.
    #[error("it is an archive of a container image, but {name} is invalid: {reason}")]
    Invalid {
        /// Which file in the archive.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It has more layers than the limit.
    #[error("it is an archive of a container image with more than {MAX_LAYERS} layers")]
    Layers,
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// An image in the format of docker, in a list of them.
#[derive(Deserialize)]
struct DockerImage {
    // Every image has one; without it, this is a file of another kind.
    #[serde(rename = "Config")]
    _config: String,
    #[serde(rename = "Layers")]
    layers: Vec<String>,
}

/// A list of images, or an image, in OCI's format.
#[derive(Deserialize)]
#[serde(untagged)]
enum OciObject {
    List { manifests: Vec<Reference> },
    Image { layers: Vec<Reference> },
}

/// A reference to a file in OCI's format.
#[derive(Deserialize)]
struct Reference {
    digest: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// Where the layers of the container image in an archive are, the lowest first. `None` for an archive of anything else.
pub(crate) fn layers(
    archive: &File,
    scan: &ArchiveScan<'_>,
) -> Result<Option<Vec<Range<u64>>>, ImageArchiveError> {
    let image = ImageArchive { archive, scan };
    let names = match image.of_docker()? {
        Some(names) => names,
        None if scan.file("oci-layout").is_some() && scan.file("index.json").is_some() => {
            image.of_oci()?
        }
        None => return Ok(None),
    };
    match names.len() > MAX_LAYERS {
        true => Err(ImageArchiveError::Layers),
        false => names
            .iter()
            .map(|name| image.find(name))
            .collect::<Result<_, _>>()
            .map(Some),
    }
}

struct ImageArchive<'a> {
    archive: &'a File,
    scan: &'a ArchiveScan<'a>,
}

impl ImageArchive<'_> {
    /// The names of the layers in docker's format; `None` if it is another one. Other archives may have a file of the name,
    /// too.
    fn of_docker(&self) -> Result<Option<Vec<String>>, ImageArchiveError> {
        let name = "manifest.json";
        let Some(place) = self.scan.file(name) else {
            return Ok(None);
        };
        let images: Vec<DockerImage> = match self.parse(name, place) {
            Ok(images) => images,
            Err(ImageArchiveError::Invalid { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let count = images.len();
        match <[_; 1]>::try_from(images) {
            Ok([image]) => Ok(Some(image.layers)),
            Err(_) if count == 0 => Ok(None),
            Err(_) => Err(ImageArchiveError::Several(count)),
        }
    }

    /// The names of the layers in OCI's format.
    fn of_oci(&self) -> Result<Vec<String>, ImageArchiveError> {
        let mut name = "index.json".to_owned();
        for _ in 0..MAX_LISTS {
            let place = self.find(&name)?;
            match self.parse(&name, place)? {
                OciObject::Image { layers } => {
                    return Ok(layers.iter().map(Reference::name).collect());
                }
                OciObject::List { manifests } => name = self.only_image(&manifests)?,
            }
        }
        let reason = "lists are nested too deeply".to_owned();
        Err(ImageArchiveError::Invalid { name, reason })
    }

    /// The only image in a list. An archive need not have those for all platforms that a list names.
    fn only_image(&self, list: &[Reference]) -> Result<String, ImageArchiveError> {
        let is_image = |it: &&Reference| !it.annotations.contains_key(REFERENCE_TYPE);
        let images: Vec<_> = list.iter().filter(is_image).map(Reference::name).collect();
        let is_there = |name: &&String| self.scan.file(name).is_some();
        let there: Vec<_> = images.iter().filter(is_there).collect();
        match (&*there, images.first()) {
            ([name], _) => Ok((*name).clone()),
            ([], Some(name)) => Err(ImageArchiveError::Missing(name.clone())),
            _ => Err(ImageArchiveError::Several(there.len())),
        }
    }

    /// Where the content of a file is.
    fn find(&self, name: &str) -> Result<Range<u64>, ImageArchiveError> {
        let place = self.scan.file(name);
        place.ok_or_else(|| ImageArchiveError::Missing(name.to_owned()))
    }

    fn parse<T: DeserializeOwned>(
        &self,
        name: &str,
        place: Range<u64>,
    ) -> Result<T, ImageArchiveError> {
        let invalid = |reason: String| ImageArchiveError::Invalid {
            name: name.to_owned(),
            reason,
        };
        let len = place.end - place.start;
        if len > MAX_DESCRIPTION {
            return Err(invalid("it is too long".to_owned()));
        }
        let mut bytes = vec![0; len as usize];
        self.archive.read_exact_at(&mut bytes, place.start)?;
        serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))
    }
}

impl Reference {
    /// The name of the file in the archive.
    fn name(&self) -> String {
        format!("blobs/{}", self.digest.replace(':', "/"))
    }
}
