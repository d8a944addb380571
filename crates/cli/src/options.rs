use std::{
    error::Error,
    fs::File,
    io::{self, Read},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    str::FromStr,
    thread,
};

use anyhow::{Context, Result};
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use verimount_names::printable;
use verimount_romfs::{BlockSize as ImageBlockSize, VolumeName};
use verimount_serve::Pin;
use verimount_verity::{
    BlockSize, FileDigest, HashAlgorithm, PublicKey, Salt, TreeParams, TreeReadahead, Trust,
    VerifyOptions,
};

use crate::dm_verity::{DmVerityArgs, RootHash};

/// A number of bytes: digits, then nothing or one of K, M, G and T.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'K' | 'k')) => (&text[..at], 10),
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        Some((at, 'T' | 't')) => (&text[..at], 40),
        _ => (text, 0),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "a size is a number, with K, M, G or T behind it if wanted".to_owned())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "that is too large".to_owned())
}

/// One of these names, which help and completions show.
pub(crate) fn one_of<T>(
    names: impl IntoIterator<Item = &'static str>,
) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err: Into<Box<dyn Error + Send + Sync>>> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}

/// A value, or nothing where `auto` leaves it to us.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Auto<T>(pub(crate) Option<T>);

/// Block size of an image, or of requests to one.
pub(crate) fn parse_image_block_size(text: &str) -> Result<Auto<ImageBlockSize>, String> {
    if text == "auto" {
        return Ok(Auto(None));
    }
    ImageBlockSize::try_from(parse_size(text)?)
        .map(|size| Auto(Some(size)))
        .map_err(|_| "a block size is auto or a power of two from 1K to 1M".to_owned())
}

/// A number of threads.
pub(crate) fn parse_threads(text: &str) -> Result<Auto<NonZeroUsize>, String> {
    if text == "auto" {
        return Ok(Auto(None));
    }
    text.parse()
        .map(|number| Auto(Some(number)))
        .map_err(|_| "the number of threads is auto or at least 1".to_owned())
}

/// An image's volume name.
pub(crate) fn parse_volume_name(text: &str) -> Result<VolumeName, String> {
    VolumeName::new(text.as_bytes()).map_err(|error| error.to_string())
}

fn parse_block_size(text: &str) -> Result<BlockSize, String> {
    BlockSize::new(parse_size(text)?).map_err(|error| error.to_string())
}

fn parse_salt(text: &str) -> Result<Salt, String> {
    let bytes = verimount_verity::parse_hex(text)
        .ok_or_else(|| "a salt is given in hexadecimal digits".to_owned())?;
    Salt::new(&bytes).map_err(|error| error.to_string())
}

fn parse_readahead(text: &str) -> Result<TreeReadahead, String> {
    match text {
        "auto" => Ok(TreeReadahead::Auto),
        "off" => Ok(TreeReadahead::Off),
        size => parse_size(size)
            .map(TreeReadahead::Bytes)
            .map_err(|_| "tree read-ahead is auto, off or a number of bytes of data".to_owned()),
    }
}

/// How a Merkle tree is made.
#[derive(Args)]
pub(crate) struct TreeArgs {
    /// Hash of the Merkle tree
    #[arg(long, value_name = "HASH", default_value = "sha256", value_parser = one_of::<HashAlgorithm>(HashAlgorithm::ALL.map(HashAlgorithm::name)))]
    hash_alg: HashAlgorithm,
    /// Block size of the Merkle tree, 1K to 64K
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = parse_block_size)]
    tree_block_size: BlockSize,
    /// Salt, up to 32 bytes in hexadecimal digits
    #[arg(long, value_name = "HEX", default_value = "", value_parser = parse_salt, hide_default_value = true)]
    salt: Salt,
}

impl TreeArgs {
    pub(crate) fn params(&self) -> TreeParams {
        TreeParams {
            algorithm: self.hash_alg,
            block_size: self.tree_block_size,
            salt: self.salt.clone(),
        }
    }
}

/// Which file it must be.
#[derive(Args)]
#[group(skip)]
pub(crate) struct TrustArgs {
    /// The digest it must have, such as sha256:3d24…
    #[arg(long, value_name = "DIGEST", group = "trust")]
    digest: Option<FileDigest>,
    /// The minisign public key it must be signed with: a file, or the key itself
    #[arg(long, value_name = "KEY", group = "trust")]
    key: Option<String>,
    /// Take the digest that it has: finds damage, but not a forgery
    #[arg(long, group = "trust")]
    unpinned: bool,
    /// Check nothing, and take the whole file as it is, with any Merkle tree at its end
    #[arg(long, group = "trust")]
    unverified: bool,
    #[command(flatten)]
    pub(crate) dm_verity: DmVerityArgs,
}

/// On what grounds a file is read.
pub(crate) enum Grounds<'a> {
    Verified(Trust),
    /// Its dm-verity tree has this root hash.
    DmVerity(&'a RootHash),
    Unverified,
}

impl Grounds<'_> {
    /// As a status tells it.
    pub(crate) fn pin(&self) -> Pin {
        match self {
            Self::Verified(Trust::Digest(_)) => Pin::Digest,
            Self::Verified(Trust::Key(key)) => Pin::Key {
                id: key.id().map(|id| id.to_string()).unwrap_or_default(),
            },
            Self::Verified(Trust::Unpinned) => Pin::Unpinned,
            Self::DmVerity(_) => Pin::RootHash,
            Self::Unverified => Pin::Unverified,
        }
    }
}

impl TrustArgs {
    /// Whether any was given.
    pub(crate) fn is_given(&self) -> bool {
        self.digest.is_some()
            || self.key.is_some()
            || self.unpinned
            || self.unverified
            || self.dm_verity.root_hash().is_some()
    }

    /// What was asked for; nothing asks for no certain digest.
    pub(crate) fn grounds(&self) -> Result<Grounds<'_>> {
        if self.unverified {
            return Ok(Grounds::Unverified);
        }
        if let Some(root_hash) = self.dm_verity.root_hash() {
            return Ok(Grounds::DmVerity(root_hash));
        }
        let trust = match (&self.digest, &self.key) {
            (Some(digest), _) => Trust::Digest(*digest),
            (None, Some(key)) => Trust::Key(read_key(key)?),
            (None, None) => Trust::Unpinned,
        };
        Ok(Grounds::Verified(trust))
    }
}

/// A public key, given itself or as the name of its file.
fn read_key(key: &str) -> Result<PublicKey> {
    match PublicKey::parse(key) {
        Ok(key) => Ok(key),
        Err(_) => {
            let text = read_key_file(key.as_ref())
                .with_context(|| format!("public key {}", printable(key)))?;
            PublicKey::parse(&text).with_context(|| printable(key).to_string())
        }
    }
}

/// Reads a key's file; a pipe does, too.
pub(crate) fn read_key_file(path: &Path) -> io::Result<String> {
    read_short_text(File::open(path)?)
}

/// Reads the text of a key or password.
pub(crate) fn read_short_text(from: impl Read) -> io::Result<String> {
    /// Many times what a key takes, comments and all; what is longer is none.
    const MAX_SIZE: u64 = 64 << 10;
    let mut text = String::new();
    from.take(MAX_SIZE).read_to_string(&mut text)?;
    Ok(text)
}

/// How verified data is read.
#[derive(Args)]
pub(crate) struct ReadArgs {
    /// Where the Merkle tree is, if not at the file's end or in FILE.verity
    #[arg(long, value_name = "FILE")]
    pub(crate) sidecar: Option<PathBuf>,
    /// How much data the Merkle tree is read ahead for: auto, off or a size
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = parse_readahead)]
    tree_readahead: TreeReadahead,
    /// How much of the Merkle tree is kept in memory
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = parse_size)]
    tree_cache: u64,
    /// Largest request to the storage: auto, or a power of two from 1K to 1M
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = parse_image_block_size)]
    pub(crate) block_size: Auto<ImageBlockSize>,
}

impl ReadArgs {
    pub(crate) fn verify_options(&self) -> VerifyOptions {
        VerifyOptions {
            tree_readahead: self.tree_readahead,
            cache_bytes: usize::try_from(self.tree_cache).unwrap_or(usize::MAX),
        }
    }
}

/// As many threads as there are processors.
pub(crate) fn all_processors() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Enough threads for the storage to have several requests at once, though few processors.
pub(crate) fn auto_threads() -> NonZeroUsize {
    const MOST: NonZeroUsize = NonZeroUsize::new(8).unwrap();
    all_processors()
        .saturating_mul(const { NonZeroUsize::new(2).unwrap() })
        .min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("0"), Ok(0));
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("4K"), Ok(4096));
        assert_eq!(parse_size("3g"), Ok(3 << 30));
        for wrong in ["", "K", "4KB", "-1", "4 K", "1.5M", "99999999T", "4é"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
