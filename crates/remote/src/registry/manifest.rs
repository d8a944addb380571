use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::BlobDigest;

/// The media type of a manifest.
pub const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

/// The media type of a manifest, as docker calls it.
const DOCKER_MANIFEST_TYPE: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// Media types of lists of manifests.
const INDEX_TYPES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

/// A manifest of the OCI image specification: what an image in a registry is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    /// What kind of artifact it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// The configuration, which is a blob.
    pub config: Descriptor,
    /// The blobs with the content.
    pub layers: Vec<Descriptor>,
    /// Further properties.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A blob that a manifest names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What it holds.
    pub media_type: String,
    /// Its digest.
    pub digest: BlobDigest,
    /// Its size in bytes.
    pub size: u64,
    /// Further properties.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// Why some bytes are not a [`Manifest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// They are a list of manifests.
    #[error(
        "it is a list of images, for several platforms: give the @sha256: digest of one of them"
    )]
    Index,
    /// They are anything else.
    #[error("it is not a manifest of the OCI image specification")]
    Malformed,
}

/// What all manifests and lists of them have.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Beginning {
    schema_version: u32,
    media_type: Option<String>,
    manifests: Option<serde::de::IgnoredAny>,
}

impl Manifest {
    /// The largest manifest, in bytes: what the distribution specification recommends to accept.
    pub const MAX_SIZE: u64 = 4 << 20;

    /// A manifest of an artifact.
    pub fn artifact(
        artifact_type: &str,
        config: Descriptor,
        layers: Vec<Descriptor>,
        annotations: BTreeMap<String, String>,
    ) -> Self {
        Self {
            schema_version: 2,
            media_type: Some(MANIFEST_TYPE.to_owned()),
            artifact_type: Some(artifact_type.to_owned()),
            config,
            layers,
            annotations,
        }
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        let malformed = |_| ManifestError::Malformed;
        let beginning: Beginning = serde_json::from_slice(bytes).map_err(malformed)?;
        let media_type = beginning.media_type.as_deref();
        if beginning.manifests.is_some() || media_type.is_some_and(|it| INDEX_TYPES.contains(&it)) {
            return Err(ManifestError::Index);
        }
        let is_known =
            media_type.is_none_or(|it| it == MANIFEST_TYPE || it == DOCKER_MANIFEST_TYPE);
        if beginning.schema_version != 2 || !is_known {
            return Err(ManifestError::Malformed);
        }
        serde_json::from_slice(bytes).map_err(malformed)
    }

    /// The bytes that are stored, always the same for the same manifest.
    ///
    /// # Panics
    /// Never.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a manifest has only texts and numbers")
    }

    /// What a client accepts that asks for a manifest. Lists are named to be told from what does not exist.
    pub(super) fn accepted() -> String {
        let [index, list] = INDEX_TYPES;
        [MANIFEST_TYPE, DOCKER_MANIFEST_TYPE, index, list].join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

    fn blob(size: &str) -> String {
        format!(r#"{{"mediaType": "a/b", "digest": "{DIGEST}", "size": {size}}}"#)
    }

    fn manifest(size: &str) -> String {
        let blob = blob(size);
        format!(r#"{{"schemaVersion": 2, "config": {blob}, "layers": [{blob}], "other": [1]}}"#)
    }

    #[test]
    fn manifests_are_text() {
        let parsed = Manifest::parse(manifest("5").as_bytes()).unwrap();
        assert_eq!(parsed.layers[0].size, 5);
        assert_eq!(Manifest::parse(&parsed.to_bytes()), Ok(parsed.clone()));
        let own = Manifest::artifact(
            "a/b",
            parsed.config,
            parsed.layers,
            [("key".to_owned(), "value".to_owned())].into(),
        );
        assert_eq!(Manifest::parse(&own.to_bytes()), Ok(own));
    }

    #[test]
    fn lists_of_manifests_are_told_from_nonsense() {
        for (text, error) in [
            (
                r#"{"schemaVersion": 2, "manifests": []}"#.to_owned(),
                ManifestError::Index,
            ),
            (
                format!(
                    r#"{{"schemaVersion": 2, "mediaType": "{}"}}"#,
                    INDEX_TYPES[1]
                ),
                ManifestError::Index,
            ),
            (String::new(), ManifestError::Malformed),
            ("{}".to_owned(), ManifestError::Malformed),
            (
                manifest("5").replace(": 2", ": 1"),
                ManifestError::Malformed,
            ),
            (
                manifest("5").replacen('{', r#"{"mediaType": "a/b", "#, 1),
                ManifestError::Malformed,
            ),
            (manifest("-5"), ManifestError::Malformed),
            (manifest("5.5"), ManifestError::Malformed),
            (manifest("18446744073709551616"), ManifestError::Malformed),
            (
                manifest("5").replace("sha256", "sha512"),
                ManifestError::Malformed,
            ),
            (
                manifest("5").replace("layers", "config"),
                ManifestError::Malformed,
            ),
            ("[".repeat(100_000), ManifestError::Malformed),
        ] {
            assert_eq!(Manifest::parse(text.as_bytes()), Err(error), "{text:.200}");
        }
    }
}
