//! Sealed contents, stored in all ways.

use std::{fs, path::Path};

use verimount::{
    FileDigest, Identity, OpenOptions, PublicKey, RootHash, SealFormat, SealOptions, SealedFile,
    SecretKey, options::dm_verity, seal,
};
use verimount_verity::KeyPair;

/// How a tree is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    Appended,
    Sidecar,
    DmVerity,
    DmVerityAppended,
}

impl Layout {
    pub(crate) const ALL: [Self; 4] = [
        Self::Appended,
        Self::Sidecar,
        Self::DmVerity,
        Self::DmVerityAppended,
    ];
}

/// What a sealed content is known by.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    Digest(FileDigest),
    Root { root: RootHash, blocks: u64 },
}

/// A content with its seal.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) layout: Layout,
    pub(crate) known: Known,
    /// By which of the keys it is signed.
    pub(crate) signer: Option<usize>,
    /// The content.
    pub(crate) data: Vec<u8>,
    /// Its file.
    pub(crate) file: Vec<u8>,
    pub(crate) sidecar: Option<Vec<u8>>,
    pub(crate) hash_offset: Option<u64>,
}

/// Two keys.
pub(crate) struct Keys(Vec<KeyPair>);

impl Keys {
    pub(crate) fn new() -> Self {
        let pair = || KeyPair::generate(None).unwrap();
        Self(vec![pair(), pair()])
    }

    pub(crate) fn public(&self, number: usize) -> PublicKey {
        PublicKey::parse(&self.0[number].public).unwrap()
    }

    fn secret(&self, number: usize) -> SecretKey {
        SecretKey::parse(&self.0[number].secret, None).unwrap()
    }
}

impl Stored {
    /// Seals `data` in this layout. Only a seal of fs-verity can be signed.
    pub(crate) fn new(data: Vec<u8>, layout: Layout, signer: Option<(&Keys, usize)>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, &data).unwrap();
        let is_appended = matches!(layout, Layout::Appended | Layout::DmVerityAppended);
        let format = match layout {
            Layout::Appended | Layout::Sidecar => SealFormat::default(),
            _ => SealFormat::DmVerity(dm_verity::Params::default()),
        };
        let options = SealOptions {
            append: is_appended,
            format,
            ..SealOptions::default()
        };
        let made = seal(&path, &options).unwrap();
        if let Some((keys, number)) = signer {
            let sealed = SealedFile::open(&path, &OpenOptions::new()).unwrap();
            sealed.sign(&keys.secret(number)).unwrap();
        }
        Self {
            layout,
            known: match made.identity {
                Identity::FileDigest(digest) => Known::Digest(digest),
                Identity::RootHash(root) => Known::Root {
                    root: root.into(),
                    blocks: data.len() as u64 / 4096,
                },
            },
            signer: signer.map(|(_, number)| number),
            data,
            sidecar: fs::read(path.with_extension("verity")).ok(),
            file: fs::read(&path).unwrap(),
            hash_offset: made.hash_offset.filter(|_| is_appended),
        }
    }

    /// Writes the files to a folder; returns the path of that with the content.
    pub(crate) fn write_to(&self, folder: &Path) -> std::path::PathBuf {
        let path = folder.join("file");
        fs::write(&path, &self.file).unwrap();
        if let Some(sidecar) = &self.sidecar {
            fs::write(path.with_extension("verity"), sidecar).unwrap();
        }
        path
    }

    /// The file that the tree is in, for changes.
    pub(crate) fn sealing(&mut self) -> &mut Vec<u8> {
        self.sidecar.as_mut().unwrap_or(&mut self.file)
    }
}
