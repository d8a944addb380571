//! Container images in archives and directories, as `docker save`, `podman save` and `skopeo copy` write them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt,
    sync::Arc,
};

use serde::{Deserialize, de::DeserializeOwned};
use thiserror::Error;
use verimount_scan::ArchiveScan;

/// The longest description of an image in bytes. Those that exist have some kilobytes.
const MAX_DESCRIPTION: u64 = 4 << 20;

/// The most layers of an image: several times those that container engines mount.
const MAX_LAYERS: usize = 1024;

/// The most images and lists of them in one place.
const MAX_IMAGES: usize = 1024;

/// The list of all images in OCI's format.
const INDEX: &str = "index.json";

/// How deep lists of images may be nested in OCI's format: one list is of names, and one of platforms.
const MAX_LISTS: usize = 4;

/// The annotation of what is about an image, but none.
const REFERENCE_TYPE: &str = "vnd.docker.reference.type";

/// Why there is no tree in the archive of an image.
#[derive(Debug, Error)]
pub(crate) enum ImageArchiveError {
    /// There is something else.
    #[error("there is no container image in it")]
    Nothing,
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
    /// There are more images than the limit.
    #[error("it has more than {MAX_IMAGES} container images")]
    Images,
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

/// The files of container images, in an archive or a directory.
pub(crate) trait ImageFiles {
    /// The file of this name; `None` if there is none.
    fn open(&self, name: &str) -> io::Result<Option<FilePart>>;
}

/// A range of a file.
#[derive(Debug, Clone)]
pub(crate) struct FilePart {
    pub(crate) file: Arc<File>,
    pub(crate) range: Range<u64>,
}

/// Those in an archive whose members are known.
pub(crate) struct InArchive<'a> {
    pub(crate) archive: Arc<File>,
    pub(crate) scan: &'a ArchiveScan<'a>,
}

impl ImageFiles for InArchive<'_> {
    fn open(&self, name: &str) -> io::Result<Option<FilePart>> {
        let file = self.archive.clone();
        Ok(self.scan.file(name).map(|range| FilePart { file, range }))
    }
}

/// The layers of the only container image, the lowest first. `None` if there is something else.
pub(crate) fn layers(files: &dyn ImageFiles) -> Result<Option<Vec<FilePart>>, ImageArchiveError> {
    let finder = Finder { files };
    match finder.images()?.as_deref() {
        None => Ok(None),
        Some([image]) => finder.open(image).map(Some),
        Some(several) => Err(ImageArchiveError::Several(several.len())),
    }
}

/// The layers of each container image, the lowest first. `None` if there is something else.
pub(crate) fn images(
    files: &dyn ImageFiles,
) -> Result<Option<Vec<Vec<FilePart>>>, ImageArchiveError> {
    let finder = Finder { files };
    let images = finder.images()?;
    let opened = images.map(|images| images.iter().map(|image| finder.open(image)).collect());
    opened.transpose()
}

/// The names of the layers of an image.
type LayerNames = Vec<String>;

struct Finder<'a> {
    files: &'a dyn ImageFiles,
}

impl Finder<'_> {
    fn images(&self) -> Result<Option<Vec<LayerNames>>, ImageArchiveError> {
        match self.of_docker()? {
            Some(images) => Ok(Some(images)),
            None if self.has("oci-layout")? && self.has(INDEX)? => self.of_oci().map(Some),
            None => Ok(None),
        }
    }

    fn open(&self, image: &LayerNames) -> Result<Vec<FilePart>, ImageArchiveError> {
        match image.len() > MAX_LAYERS {
            true => Err(ImageArchiveError::Layers),
            false => image.iter().map(|name| self.find(name)).collect(),
        }
    }

    /// Docker's format; `None` if it is another one. Other archives may have a file of the name, too.
    fn of_docker(&self) -> Result<Option<Vec<LayerNames>>, ImageArchiveError> {
        let name = "manifest.json";
        let Some(part) = self.files.open(name)? else {
            return Ok(None);
        };
        let images: Vec<DockerImage> = match parse(name, &part) {
            Ok(images) => images,
            Err(ImageArchiveError::Invalid { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let images: Vec<_> = images.into_iter().map(|image| image.layers).collect();
        Ok((!images.is_empty()).then_some(images))
    }

    /// OCI's format.
    fn of_oci(&self) -> Result<Vec<LayerNames>, ImageArchiveError> {
        let mut images = Vec::new();
        let mut seen = BTreeSet::new();
        let mut lists = vec![(INDEX.to_owned(), 0)];
        while let Some((name, depth)) = lists.pop() {
            if depth == MAX_LISTS {
                let reason = "lists are nested too deeply".to_owned();
                return Err(ImageArchiveError::Invalid { name, reason });
            }
            match parse(&name, &self.find(&name)?)? {
                OciObject::Image { layers } => {
                    images.push(layers.iter().map(Reference::name).collect());
                }
                OciObject::List { manifests } => {
                    let there = self.there(&manifests)?.into_iter();
                    let new = there.filter(|name| seen.insert(name.clone()));
                    lists.extend(new.map(|name| (name, depth + 1)));
                }
            }
            if seen.len() > MAX_IMAGES {
                return Err(ImageArchiveError::Images);
            }
        }
        Ok(images)
    }

    /// What of a list is there. There need not be the images for all platforms that it names, but one.
    fn there(&self, list: &[Reference]) -> Result<Vec<String>, ImageArchiveError> {
        let is_image = |it: &&Reference| !it.annotations.contains_key(REFERENCE_TYPE);
        let images: Vec<_> = list.iter().filter(is_image).map(Reference::name).collect();
        let mut there = Vec::new();
        for name in &images {
            if self.has(name)? {
                there.push(name.clone());
            }
        }
        match (there.is_empty(), images.into_iter().next()) {
            (true, Some(name)) => Err(ImageArchiveError::Missing(name)),
            _ => Ok(there),
        }
    }

    fn has(&self, name: &str) -> Result<bool, ImageArchiveError> {
        Ok(self.files.open(name)?.is_some())
    }

    fn find(&self, name: &str) -> Result<FilePart, ImageArchiveError> {
        let part = self.files.open(name)?;
        part.ok_or_else(|| ImageArchiveError::Missing(name.to_owned()))
    }
}

fn parse<T: DeserializeOwned>(name: &str, part: &FilePart) -> Result<T, ImageArchiveError> {
    let invalid = |reason: String| ImageArchiveError::Invalid {
        name: name.to_owned(),
        reason,
    };
    let FilePart { file, range } = part;
    let len = range.end - range.start;
    if len > MAX_DESCRIPTION {
        return Err(invalid("it is too long".to_owned()));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, range.start)?;
    serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))
}

impl Reference {
    /// The name of the file in the archive.
    fn name(&self) -> String {
        format!("blobs/{}", self.digest.replace(':', "/"))
    }
}
