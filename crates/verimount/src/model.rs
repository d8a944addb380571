//! Model signatures: checked while an image is built or a file is sealed, and again when an image is verified.

mod building;
mod hashers;
mod in_order;
mod sealing;
mod verifying;

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use verimount_models::{Bundle, MAX_BUNDLE, Manifest};
pub use verimount_models::{Claim as ModelClaim, Key as ModelKey};
use verimount_tree::{Error as TreeError, FileType, NodeId, Tree};

use crate::{Error, build_fault::BuildFault, fault::ContentFault};

pub(crate) use self::{building::ContentChecks, sealing::seal_checked, verifying::verify_model};

/// Where an image keeps the signature of the model that it was built of, in its root.
pub(crate) const SIGNATURE_FILE: &str = "model.sig";

/// A model signature that was made with a key that is trusted: the files of a model, and what is in them.
///
/// It is an OpenSSF model signature: a Sigstore bundle, signed with an elliptic curve key.
#[derive(Debug, Clone)]
pub struct ModelSignature {
    path: PathBuf,
    text: Arc<[u8]>,
    manifest: Arc<Manifest>,
}

impl ModelSignature {
    /// Reads the signature in a file, and checks that it was made with the key.
    ///
    /// # Errors
    /// [`WrongModel`](crate::ErrorKind::WrongModel) if it was made with another key,
    /// [`WrongFormat`](crate::ErrorKind::WrongFormat) if it is not a model signature,
    /// [`Unsupported`](crate::ErrorKind::Unsupported), [`Corrupt`](crate::ErrorKind::Corrupt) if it contradicts itself; those of
    /// reading.
    pub fn open(path: impl AsRef<Path>, key: &ModelKey) -> Result<Self, Error> {
        let path = path.as_ref();
        let text = read_text(path).map_err(|error| ContentFault::io(path, error))?;
        let manifest = Bundle::parse(&text).and_then(|bundle| bundle.verify(key));
        let manifest = manifest.map_err(|error| BuildFault::ModelSignature(error).at(path))?;
        Ok(Self {
            path: path.to_owned(),
            text: text.into(),
            manifest: Arc::new(manifest),
        })
    }

    /// What the signer called the model.
    pub fn model(&self) -> &str {
        self.manifest.model()
    }

    /// How many files are signed.
    pub fn files(&self) -> usize {
        self.manifest.count()
    }
}

/// What a file is that no signature covers.
fn type_name(file_type: FileType) -> &'static str {
    match file_type {
        FileType::RegularFile => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symbolic link",
        FileType::BlockDevice => "block device",
        FileType::CharDevice => "character device",
        FileType::Fifo => "named pipe",
        FileType::Socket => "socket",
    }
}

/// Reads no more than tells that it is too long.
fn read_text(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let most = MAX_BUNDLE as u64 + 1;
    File::open(path)?.take(most).read_to_end(&mut text)?;
    Ok(text)
}

/// The model signature that an image keeps, if it has one: nothing of it is checked.
pub(crate) fn kept_signature(tree: &dyn Tree) -> Result<Option<Bundle>, ContentFault> {
    let attr = match tree.lookup(NodeId::ROOT, SIGNATURE_FILE.as_ref()) {
        Err(TreeError::NotFound) => return Ok(None),
        attr => attr?,
    };
    let mut text = Vec::new();
    // One byte too many tells that it is too long.
    let size = attr.size.min(MAX_BUNDLE as u64 + 1);
    verifying::read_while(tree, attr.node, size, &mut |bytes| {
        text.extend_from_slice(bytes);
        true
    })?;
    Bundle::parse(&text)
        .map(Some)
        .map_err(|error| BuildFault::ModelSignature(error).into())
}

/// The longest model signature in bytes of which is told what it says of itself: that is read of any image, so an attacker
/// chooses it. One takes some 250 bytes for each file or shard of the model, and several times its length of memory.
const MAX_CLAIM: u64 = 8 << 20;

/// What the model signature in an image says of itself; `None` if it has none, or one that is too long.
pub(crate) fn claim(tree: &dyn Tree) -> Option<ModelClaim> {
    let attr = tree.lookup(NodeId::ROOT, SIGNATURE_FILE.as_ref()).ok()?;
    if attr.size > MAX_CLAIM {
        return None;
    }
    kept_signature(tree).ok()??.claim().ok()
}
