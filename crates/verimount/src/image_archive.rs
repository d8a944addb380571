//! Container images in archives and directories, as `docker save`, `podman save` and `skopeo copy` write them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, Read},
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
};

use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use verimount_content::Watch;
use verimount_names::one_line;
use verimount_scan::ArchiveScan;
use verimount_source::FileRange;

use crate::{
    blob::{digest_text, hashed, parse_digest},
    build_fault::BuildFault,
    fault::ContentFault,
};

/// The longest description of an image in bytes. Those that exist have some kilobytes.
const MAX_DESCRIPTION: u64 = 4 << 20;

/// The most layers of an image: several times those that container engines mount.
const MAX_LAYERS: usize = 1024;

/// The most images and lists of them in one place.
const MAX_IMAGES: usize = 1024;

/// Where files are that are named by their digests.
const BLOBS: &str = "blobs/";

/// The list of all images in OCI's format.
const INDEX: &str = "index.json";

/// How the file `version` begins in skopeo's `dir:`.
const DIR_VERSION: &[u8; 27] = b"Directory Transport Version";

/// How deep lists of images may be nested in OCI's format: one list is of names, and one of platforms.
const MAX_LISTS: usize = 4;

/// The annotation of what is about an image, but none.
const REFERENCE_TYPE: &str = "vnd.docker.reference.type";

/// How a directory holds a container image, if it does: as `oci:` or `dir:` of skopeo.
pub(crate) fn layout_of(directory: &Path) -> Option<&'static str> {
    let has = |name| directory.join(name).is_file();
    if has("oci-layout") && has(INDEX) {
        return Some("oci");
    }
    let version = File::open(directory.join("version")).ok()?;
    let mut beginning = [0; DIR_VERSION.len()];
    let is_dir = version.read_exact_at(&mut beginning, 0).is_ok() && beginning == *DIR_VERSION;
    (is_dir && has("manifest.json")).then_some("dir")
}

/// Why there is no tree in the archive of an image.
#[derive(Debug, thiserror::Error)]
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
    /// A file does not have the digest that it is named by.
    #[error(
        "its file {name} has the digest {actual}: it is damaged or was changed, so get the image again"
    )]
    WrongDigest {
        /// Which file.
        name: String,
        /// Of what is in it.
        actual: String,
    },
    /// A file is named by what is no digest, or a digest of another algorithm.
    #[error("its file {} cannot be checked: it is not named by a sha256 or sha512", one_line(.0))]
    UnknownDigest(String),
    /// It has more layers than the limit.
    #[error("it is an archive of a container image with more than {MAX_LAYERS} layers")]
    Layers,
    /// There are more images than the limit.
    #[error("it has more than {MAX_IMAGES} container images")]
    Images,
}

impl From<ImageArchiveError> for ContentFault {
    fn from(error: ImageArchiveError) -> Self {
        BuildFault::ImageArchive(error).into()
    }
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
    List {
        manifests: Vec<Reference>,
    },
    Image {
        layers: Vec<Reference>,
        #[serde(flatten)]
        about: About,
    },
}

/// What an artifact has that is no image: a type of its own, or an image that it is about.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct About {
    artifact_type: Option<IgnoredAny>,
    subject: Option<IgnoredAny>,
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

/// The layers of the only container image in an archive, the lowest first. `None` if there is something else. What a layer
/// hides, it hides wherever else it is below: of one that is there several times the uppermost is enough.
pub(crate) fn layers(
    files: &InArchive<'_>,
    watch: &mut Watch<'_>,
) -> Result<Option<Vec<Range<u64>>>, ContentFault> {
    let mut finder = Finder::new(files, watch);
    let image = match finder.images()?.as_deref() {
        None => return Ok(None),
        Some([image]) => finder.open(image)?,
        Some(several) => return Err(ImageArchiveError::Several(several.len()).into()),
    };
    let mut seen = BTreeSet::new();
    let from_above = image.into_iter().map(|layer| layer.range).rev();
    let mut layers: Vec<_> = from_above
        .filter(|range| seen.insert(range.start))
        .collect();
    layers.reverse();
    Ok(Some(layers))
}

/// The layers of all container images, each file once. `None` if there is something else.
pub(crate) fn all_layers(
    files: &dyn ImageFiles,
    watch: &mut Watch<'_>,
) -> Result<Option<Vec<FilePart>>, ContentFault> {
    let mut finder = Finder::new(files, watch);
    let Some(images) = finder.images()? else {
        return Ok(None);
    };
    for image in &images {
        finder.open(image)?;
    }
    let by_place = |part: FilePart| ((Arc::as_ptr(&part.file), part.range.start), part);
    let layers: BTreeMap<_, _> = finder.layers.into_values().map(by_place).collect();
    Ok(Some(layers.into_values().collect()))
}

/// The names of the layers of an image.
type LayerNames = Vec<FileName>;

/// What names a file.
struct FileName {
    path: String,
    /// The digest that it is named by, if it is.
    digest: Option<String>,
}

impl FileName {
    /// As docker has it in a list of images. Newer versions store layers as blobs.
    fn of_docker(path: String) -> Self {
        let digest = path.strip_prefix(BLOBS).map(|rest| rest.replace('/', ":"));
        Self {
            digest: digest.filter(|digest| parse_digest(digest).is_some()),
            path,
        }
    }
}

struct Finder<'a, 'w> {
    files: &'a dyn ImageFiles,
    watch: &'a mut Watch<'w>,
    /// The layers so far, by their paths. Images have many in common.
    layers: BTreeMap<String, FilePart>,
}

impl<'a, 'w> Finder<'a, 'w> {
    fn new(files: &'a dyn ImageFiles, watch: &'a mut Watch<'w>) -> Self {
        Self {
            files,
            watch,
            layers: BTreeMap::new(),
        }
    }

    fn images(&mut self) -> Result<Option<Vec<LayerNames>>, ContentFault> {
        match self.of_docker()? {
            Some(images) => Ok(Some(images)),
            None if self.has("oci-layout")? && self.has(INDEX)? => self.of_oci().map(Some),
            None => Ok(None),
        }
    }

    fn open(&mut self, image: &LayerNames) -> Result<Vec<FilePart>, ContentFault> {
        if image.len() > MAX_LAYERS {
            return Err(ImageArchiveError::Layers.into());
        }
        image.iter().map(|name| self.layer(name)).collect()
    }

    /// A layer, all of which has the digest that it is named by.
    fn layer(&mut self, name: &FileName) -> Result<FilePart, ContentFault> {
        if let Some(found) = self.layers.get(&name.path) {
            return Ok(found.clone());
        }
        let part = self.find(&name.path)?;
        self.check(name, FileRange::new(&part.file, part.range.clone()))?;
        self.layers.insert(name.path.clone(), part.clone());
        Ok(part)
    }

    /// Compares the content of a file with the digest that it is named by.
    fn check(&mut self, name: &FileName, content: impl Read) -> Result<(), ContentFault> {
        let Some(digest) = &name.digest else {
            return Ok(());
        };
        let unknown = || ImageArchiveError::UnknownDigest(name.path.clone());
        let expected = parse_digest(digest).ok_or_else(unknown)?;
        let (actual, _) = hashed(content, io::sink(), expected.algorithm(), self.watch)?;
        if actual == expected {
            return Ok(());
        }
        Err(ImageArchiveError::WrongDigest {
            name: name.path.clone(),
            actual: digest_text(&actual),
        }
        .into())
    }

    /// Docker's format; `None` if it is another one. Other archives may have a file of the name, too.
    fn of_docker(&mut self) -> Result<Option<Vec<LayerNames>>, ContentFault> {
        let name = FileName::of_docker("manifest.json".to_owned());
        let Some(part) = self.files.open(&name.path)? else {
            return Ok(None);
        };
        let Ok(images) = self.parse::<Vec<DockerImage>>(&name, &part)? else {
            return Ok(None);
        };
        if images.len() > MAX_IMAGES {
            return Err(ImageArchiveError::Images.into());
        }
        let layers = |image: DockerImage| image.layers.into_iter().map(FileName::of_docker);
        let images: Vec<_> = images
            .into_iter()
            .map(|image| layers(image).collect())
            .collect();
        Ok((!images.is_empty()).then_some(images))
    }

    /// OCI's format.
    fn of_oci(&mut self) -> Result<Vec<LayerNames>, ContentFault> {
        let (mut images, mut artifacts) = (Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        let index = FileName {
            path: INDEX.to_owned(),
            digest: None,
        };
        let mut lists = vec![(index, 0)];
        while let Some((name, depth)) = lists.pop() {
            if depth == MAX_LISTS {
                let reason = "lists are nested too deeply".to_owned();
                let name = name.path;
                return Err(ImageArchiveError::Invalid { name, reason }.into());
            }
            match self.parse(&name, &self.find(&name.path)?)?? {
                OciObject::Image { layers, about } => {
                    let is_artifact = about.artifact_type.is_some() || about.subject.is_some();
                    let objects = if is_artifact {
                        &mut artifacts
                    } else {
                        &mut images
                    };
                    objects.push(layers.iter().map(Reference::name).collect());
                }
                OciObject::List { manifests } => {
                    let there = self.there(&manifests)?.into_iter();
                    let new = there.filter(|name| seen.insert(name.path.clone()));
                    lists.extend(new.map(|name| (name, depth + 1)));
                }
            }
            if seen.len() > MAX_IMAGES {
                return Err(ImageArchiveError::Images.into());
            }
        }
        // An image may have a type of its own, too.
        Ok(if images.is_empty() { artifacts } else { images })
    }

    /// What of a list is there. There need not be the images for all platforms that it names, but one.
    fn there(&self, list: &[Reference]) -> Result<Vec<FileName>, ContentFault> {
        let is_image = |it: &&Reference| !it.annotations.contains_key(REFERENCE_TYPE);
        let mut there = Vec::new();
        let mut missing = None;
        for name in list.iter().filter(is_image).map(Reference::name) {
            if self.has(&name.path)? {
                there.push(name);
            } else {
                missing.get_or_insert(name.path);
            }
        }
        match missing {
            Some(name) if there.is_empty() => Err(ImageArchiveError::Missing(name).into()),
            _ => Ok(there),
        }
    }

    fn has(&self, name: &str) -> Result<bool, ContentFault> {
        Ok(self.files.open(name)?.is_some())
    }

    fn find(&self, name: &str) -> Result<FilePart, ContentFault> {
        let part = self.files.open(name)?;
        part.ok_or_else(|| ImageArchiveError::Missing(name.to_owned()).into())
    }

    /// What a description says; inside, the error of one that is none.
    fn parse<T: DeserializeOwned>(
        &mut self,
        name: &FileName,
        part: &FilePart,
    ) -> Result<Result<T, ImageArchiveError>, ContentFault> {
        let invalid = |reason: String| ImageArchiveError::Invalid {
            name: name.path.clone(),
            reason,
        };
        let FilePart { file, range } = part;
        if range.end - range.start > MAX_DESCRIPTION {
            return Ok(Err(invalid("it is too long".to_owned())));
        }
        let mut bytes = Vec::new();
        FileRange::new(file, range.clone()).read_to_end(&mut bytes)?;
        self.check(name, &bytes[..])?;
        Ok(serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string())))
    }
}

impl Reference {
    /// The name of the file in the archive.
    fn name(&self) -> FileName {
        FileName {
            path: format!("{BLOBS}{}", self.digest.replace(':', "/")),
            digest: Some(self.digest.clone()),
        }
    }
}
