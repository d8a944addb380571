use thiserror::Error;

/// Why content in a registry cannot be opened, or does not have what its manifest says.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LayersError {
    /// There is no layer with data.
    #[error("its manifest has no layer")]
    NoData,
    /// There are several layers with data.
    #[error("its manifest has {0} layers: only content of one layer can be opened")]
    ManyLayers(usize),
    /// There are several seals.
    #[error("its manifest has several seals")]
    ManySeals,
    /// An annotation with the digest of the content is malformed.
    #[error("the annotation {0} of its manifest is not a digest")]
    BadAnnotation(&'static str),
    /// There are annotations with several digests.
    #[error("its manifest names several digests of the content")]
    ManyDigests,
    /// A layer has other bytes than the manifest says.
    #[error("the registry sends other bytes, {actual}, for the layer {expected}")]
    WrongLayer {
        /// In the manifest.
        expected: String,
        /// Of what was sent.
        actual: String,
    },
}
