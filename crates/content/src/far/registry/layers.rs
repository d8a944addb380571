//! How sealed content is stored in a registry: a manifest, with the content as one layer. Its seal is at the
//! end of that, or a second layer.

use std::{collections::BTreeMap, sync::Arc};

use verimount_remote::registry::{BlobDigest, Descriptor, Manifest};
use verimount_source::{Fetch, Unchecked};
use verimount_verity::{Digest, FileDigest, HashAlgorithm, Seal, parse_hex};

use super::hashed::hashed;
use crate::{Error, Location, layers_error::LayersError, trust::Named};

/// What kind of artifact a manifest describes.
const ARTIFACT_TYPE: &str = "application/vnd.verimount.sealed.v1";

/// The media type of a layer with the seal of another one.
const SEAL_TYPE: &str = "application/vnd.verimount.seal.v1";

/// Of a configuration with nothing in it, whose bytes are [`EMPTY_CONFIG`].
const EMPTY_TYPE: &str = "application/vnd.oci.empty.v1+json";

/// The configuration of all artifacts.
pub const EMPTY_CONFIG: &[u8] = b"{}";

/// What begins the annotation with the digest of the content. The hash follows, and the binary logarithm of
/// the block size, as in composefs.
const FS_VERITY: &str = "dev.verimount.fsverity-";

/// The annotation with the root hash of dm-verity.
const DM_VERITY: &str = "dev.verimount.dmverity-roothash";

/// The annotation with the digest of the superblock of dm-verity, which the root hash does not cover.
const DM_VERITY_SUPERBLOCK: &str = "dev.verimount.dmverity-superblock";

/// The annotation with the name of a file, by the OCI image specification.
const TITLE: &str = "org.opencontainers.image.title";

/// What a seal says that the content is.
#[derive(Debug, Clone, Copy)]
pub enum SealedContent {
    /// By fs-verity.
    FsVerity {
        /// Its digest.
        digest: FileDigest,
        /// The binary logarithm of the size of a block.
        block_log2: u8,
    },
    /// By dm-verity.
    DmVerity {
        /// The root hash.
        root: Digest,
        /// The digest of the superblock, which the root hash does not cover.
        superblock: BlobDigest,
    },
}

/// The layers of sealed content.
#[derive(Debug, Clone)]
pub(crate) struct Layers {
    pub(crate) data: Descriptor,
    /// The seal, if it is not at the end of the data.
    pub(crate) seal: Option<Descriptor>,
    /// The content that the manifest says it has.
    pub(crate) named: Option<Named>,
}

/// Which superblock of dm-verity a manifest names. It says how data and tree are to be read, which the root hash does
/// not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedSuperblock {
    /// That with this digest.
    Digest(BlobDigest),
    /// That in the layer with this digest, all of which has to be read: older manifests say no more.
    InLayer(BlobDigest),
}

/// The place of a file's content and of its seal, for a new manifest.
pub struct NewLayers {
    /// The data's media type.
    pub media_type: &'static str,
    /// The digest and size of the data.
    pub data: (BlobDigest, u64),
    /// The digest and size of the seal, if it is not at the end of the data.
    pub seal: Option<(BlobDigest, u64)>,
    /// The name of the data's file, if it is text.
    pub title: Option<String>,
    /// What the seal says.
    pub content: SealedContent,
}

impl Layers {
    pub(crate) fn of(manifest: Manifest) -> Result<Self, LayersError> {
        let is_seal = |layer: &Descriptor| layer.media_type == SEAL_TYPE;
        let (mut seals, mut data): (Vec<_>, Vec<_>) =
            manifest.layers.into_iter().partition(is_seal);
        if seals.len() > 1 {
            return Err(LayersError::ManySeals);
        }
        let count = data.len();
        let data = data.pop().ok_or(LayersError::NoData)?;
        if count > 1 {
            return Err(LayersError::ManyLayers(count));
        }
        let seal = seals.pop();
        let annotations = [&manifest.annotations, &data.annotations];
        Ok(Self {
            named: named(&annotations, seal.as_ref().unwrap_or(&data))?,
            seal,
            data,
        })
    }
}

impl NamedSuperblock {
    /// Whether it is the superblock of this seal, which `layer` opens with where it is.
    pub(crate) fn is_of(
        &self,
        seal: &Seal,
        layer: impl FnOnce() -> Result<(Location, Arc<dyn Fetch>), Error>,
    ) -> Result<bool, Error> {
        match *self {
            Self::Digest(expected) => Ok(BlobDigest::of(seal.head()) == expected),
            Self::InLayer(expected) => {
                let (at, layer) = layer()?;
                Ok(hashed(&Unchecked(&*layer), &at, |_| Ok(()))? == expected)
            }
        }
    }
}

/// The content that annotations name. `layer` is that with the seal.
fn named(
    annotations: &[&BTreeMap<String, String>],
    layer: &Descriptor,
) -> Result<Option<Named>, LayersError> {
    let all = || annotations.iter().flat_map(|some| some.iter());
    let mut superblock = NamedSuperblock::InLayer(layer.digest);
    for (_, value) in all().filter(|(key, _)| *key == DM_VERITY_SUPERBLOCK) {
        let digest = value.parse();
        let digest = digest.map_err(|_| LayersError::BadAnnotation(DM_VERITY_SUPERBLOCK))?;
        let one = NamedSuperblock::Digest(digest);
        match superblock {
            NamedSuperblock::Digest(_) if superblock != one => {
                return Err(LayersError::ManyDigests);
            }
            _ => superblock = one,
        }
    }
    let mut named: Option<Named> = None;
    for (key, value) in all() {
        let one = match key.strip_prefix(FS_VERITY) {
            Some(parameters) => Named::Digest(
                fs_verity(parameters, value).ok_or(LayersError::BadAnnotation(FS_VERITY))?,
            ),
            None if key == DM_VERITY => {
                let root = value.parse();
                let root = root.map_err(|_| LayersError::BadAnnotation(DM_VERITY))?;
                Named::RootHash(root, superblock)
            }
            None => continue,
        };
        match &named {
            Some(other) if *other != one => return Err(LayersError::ManyDigests),
            _ => named = Some(one),
        }
    }
    Ok(named)
}

/// A digest whose hash and block size are named by `parameters`. The digest itself covers the block size.
fn fs_verity(parameters: &str, digits: &str) -> Option<FileDigest> {
    let (algorithm, block_log) = parameters.split_once('-')?;
    let algorithm: HashAlgorithm = algorithm.parse().ok()?;
    let _: u8 = block_log.parse().ok()?;
    Digest::new(algorithm, &parse_hex(digits)?).map(FileDigest::from)
}

impl NewLayers {
    /// The manifest, always the same for the same content.
    pub fn manifest(&self) -> Manifest {
        let annotations: BTreeMap<String, String> = match self.content {
            SealedContent::FsVerity { digest, block_log2 } => {
                let digest = digest.digest();
                let key = format!("{FS_VERITY}{}-{block_log2}", digest.algorithm());
                [(key, digest.to_string())].into()
            }
            SealedContent::DmVerity { root, superblock } => [
                (DM_VERITY.to_owned(), root.to_string()),
                (DM_VERITY_SUPERBLOCK.to_owned(), superblock.to_string()),
            ]
            .into(),
        };
        let mut data = layer(self.media_type, self.data);
        data.annotations.extend(annotations.clone());
        let title = self.title.clone();
        data.annotations
            .extend(title.map(|title| (TITLE.to_owned(), title)));
        let seal = self.seal.map(|seal| layer(SEAL_TYPE, seal));
        let config = layer(
            EMPTY_TYPE,
            (BlobDigest::of(EMPTY_CONFIG), EMPTY_CONFIG.len() as u64),
        );
        let layers = [data].into_iter().chain(seal).collect();
        Manifest::artifact(ARTIFACT_TYPE, config, layers, annotations)
    }
}

fn layer(media_type: &str, (digest, size): (BlobDigest, u64)) -> Descriptor {
    Descriptor {
        media_type: media_type.to_owned(),
        digest,
        size,
        annotations: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

    fn new(seal: bool) -> Manifest {
        let digest: FileDigest = format!("sha256:{HEX}").parse().unwrap();
        let blob = (BlobDigest::of(b""), 5);
        let new = NewLayers {
            media_type: "application/octet-stream",
            data: blob,
            seal: seal.then_some(blob),
            title: Some("file".to_owned()),
            content: SealedContent::FsVerity {
                digest,
                block_log2: 12,
            },
        };
        new.manifest()
    }

    #[test]
    fn what_is_stored_is_found() {
        for seal in [false, true] {
            let manifest = new(seal);
            let layers = Layers::of(manifest.clone()).unwrap();
            assert_eq!(layers.seal.is_some(), seal);
            let shown = format!("{:?}", layers.named.unwrap());
            assert!(shown.contains(HEX), "{shown}");
            let key = "dev.verimount.fsverity-sha256-12";
            assert_eq!(manifest.annotations[key], HEX);
            assert_eq!(manifest.layers[0].annotations[key], HEX);
            assert_eq!(manifest.layers[0].annotations[TITLE], "file");
        }
    }

    #[test]
    fn other_manifests_are_refused() {
        let refused = |change: fn(&mut Manifest)| {
            let mut manifest = new(true);
            change(&mut manifest);
            Layers::of(manifest).unwrap_err()
        };
        let no_data = refused(|manifest| drop(manifest.layers.remove(0)));
        assert_eq!(no_data, LayersError::NoData);
        let two = refused(|manifest| manifest.layers.push(manifest.layers[0].clone()));
        assert_eq!(two, LayersError::ManyLayers(2));
        let seals = refused(|manifest| manifest.layers.push(manifest.layers[1].clone()));
        assert_eq!(seals, LayersError::ManySeals);
        let other = refused(|manifest| {
            let key = "dev.verimount.fsverity-sha256-12".to_owned();
            manifest.annotations.insert(key, "0".repeat(64));
        });
        assert_eq!(other, LayersError::ManyDigests);
        let both = refused(|manifest| {
            let root = "0".repeat(64);
            manifest.annotations.insert(DM_VERITY.to_owned(), root);
        });
        assert_eq!(both, LayersError::ManyDigests);
        let superblocks = refused(|manifest| {
            let key = || DM_VERITY_SUPERBLOCK.to_owned();
            let digest = |bytes| BlobDigest::of(bytes).to_string();
            manifest.annotations.insert(key(), digest(b"1"));
            manifest.layers[0].annotations.insert(key(), digest(b"2"));
        });
        assert_eq!(superblocks, LayersError::ManyDigests);
        for (key, value) in [
            ("dev.verimount.fsverity-sha256-12", "12"),
            ("dev.verimount.fsverity-sha256-x", HEX),
            ("dev.verimount.fsverity-md5-12", HEX),
            ("dev.verimount.fsverity-sha512-12", HEX),
            ("dev.verimount.fsverity-", HEX),
        ] {
            let mut manifest = new(true);
            manifest.annotations = [(key.to_owned(), value.to_owned())].into();
            let error = Layers::of(manifest).unwrap_err();
            assert_eq!(error, LayersError::BadAnnotation(FS_VERITY), "{key}");
        }
    }

    #[test]
    fn content_of_others_has_no_digest() {
        let mut manifest = new(false);
        manifest.annotations.clear();
        manifest.layers[0].annotations = [("other".to_owned(), "text".to_owned())].into();
        assert!(Layers::of(manifest).unwrap().named.is_none());
    }
}
