use std::{
    fmt::Display,
    fs::File,
    io::{self, Read},
    num::NonZeroUsize,
    path::Path,
};

use anyhow::{Context, Result};
use clap::{
    Args, ValueHint,
    builder::{PathBufValueParser, PossibleValuesParser, TypedValueParser},
};
use verimount::{
    FileDigest, Location, OpenOptions, PublicKey,
    options::{BlockSize, HashAlgorithm, Salt, TreeParams, parse_hex},
};
use verimount_host::{printable, sandbox::Sandbox};

use crate::{dm_verity::DmVerityArgs, remote::AccessArgs};

/// Parses a number of bytes: digits with an optional suffix K, M, G or T.
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
        .map_err(|_| "a size is a number with an optional suffix K, M, G or T".to_owned())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "the size is too large".to_owned())
}

/// Parses a number of bytes as what is made of it, which may refuse it.
pub(crate) fn of_size<T, E: Display>(
    make: fn(u64) -> Result<T, E>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| make(parse_size(text)?).map_err(|error| error.to_string())
}

/// One of these, by their names, which help and completions show.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.map(name)).try_map(move |chosen| {
        let mut all = all.into_iter();
        all.find(|value| name(*value) == chosen)
            .ok_or("it is none of them")
    })
}

/// A path, a URL, or the name of an image in a registry or object store.
pub(crate) fn location() -> impl TypedValueParser<Value = Location> {
    PathBufValueParser::new().try_map(|argument| Location::try_from(argument.as_os_str()))
}

/// A value, or `None` for `auto`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Auto<T>(pub(crate) Option<T>);

/// Parses a number of bytes or `auto`.
pub(crate) fn parse_auto_size(text: &str) -> Result<Auto<u64>, String> {
    match text {
        "auto" => Ok(Auto(None)),
        text => Ok(Auto(Some(parse_size(text)?))),
    }
}

/// Parses a number of threads.
pub(crate) fn parse_threads(text: &str) -> Result<Auto<NonZeroUsize>, String> {
    if text == "auto" {
        return Ok(Auto(None));
    }
    text.parse()
        .map(|number| Auto(Some(number)))
        .map_err(|_| "the number of threads is auto or at least 1".to_owned())
}

fn parse_salt(text: &str) -> Result<Salt, String> {
    let bytes =
        parse_hex(text).ok_or_else(|| "a salt consists of hexadecimal digits".to_owned())?;
    Salt::new(&bytes).map_err(|error| error.to_string())
}

/// The parameters of a Merkle tree.
#[derive(Args)]
pub(crate) struct TreeArgs {
    /// Hash of the Merkle tree
    #[arg(long, value_name = "HASH", default_value = "sha256", value_parser = one_of(HashAlgorithm::ALL, HashAlgorithm::name))]
    hash_alg: HashAlgorithm,
    /// Block size of the Merkle tree, 1K to 64K
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = of_size(BlockSize::new))]
    tree_block_size: BlockSize,
    /// Salt of the Merkle tree: up to 32 bytes, hexadecimal
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

/// Which content is trusted. All pins that are given must hold.
#[derive(Args)]
#[group(skip)]
pub(crate) struct TrustArgs {
    /// Accept only this digest, such as sha256:3d24…
    #[arg(long, value_name = "DIGEST")]
    digest: Option<FileDigest>,
    /// Accept only content signed with this minisign public key: a file, or the key itself. With --digest, both must
    /// hold
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Accept any digest: detects damage, but not forgery
    #[arg(long, conflicts_with_all = ["digest", "key", "unverified"])]
    unpinned: bool,
    /// Verify nothing, and read the whole file as it is, including any Merkle tree at its end
    #[arg(long, conflicts_with_all = ["digest", "key"])]
    unverified: bool,
    #[command(flatten)]
    pub(crate) dm_verity: DmVerityArgs,
}

impl TrustArgs {
    /// Whether any of the options was given.
    pub(crate) fn is_given(&self) -> bool {
        self.digest.is_some()
            || self.key.is_some()
            || self.unpinned
            || self.unverified
            || self.dm_verity.root_hash().is_some()
    }

    /// Adds to `options` what is accepted at `location`. Without arguments, that is what the location names, or else
    /// anything that has the digest in its own seal.
    pub(crate) fn apply(&self, options: OpenOptions, location: &Location) -> Result<OpenOptions> {
        if self.unverified {
            return Ok(options.unverified());
        }
        if self.unpinned || !self.is_given() && !location.names_content() {
            return Ok(options.unpinned());
        }
        let key = self.key.as_deref().map(read_key).transpose()?;
        let options = options.hash_offset(self.dm_verity.hash_offset());
        let options = self.digest.into_iter().fold(options, OpenOptions::digest);
        let options = key.into_iter().fold(options, OpenOptions::key);
        let root_hash = self.dm_verity.root_hash();
        Ok(root_hash.into_iter().fold(options, OpenOptions::root_hash))
    }

    /// Keeps the file with the key.
    pub(crate) fn prepare(&self, sandbox: &mut Sandbox) {
        if let Some(key) = &self.key {
            sandbox.read(key);
        }
    }

    /// Whether nothing is to be verified.
    pub(crate) fn is_unverified(&self) -> bool {
        self.unverified
    }
}

/// Reads a public key, given as text or as the path of its file.
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

/// Many times the length of a key with its comments.
const MAX_TEXT: usize = 64 << 10;

/// Reads a key file, which may be a pipe.
pub(crate) fn read_key_file(path: &Path) -> io::Result<String> {
    let text = read_short_text(File::open(path)?)?;
    if text.len() == MAX_TEXT {
        return Err(io::Error::other("it is too long for a key"));
    }
    Ok(text)
}

/// Reads the text of a key or password, or only its beginning.
pub(crate) fn read_short_text(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(MAX_TEXT as u64).read_to_string(&mut text)?;
    Ok(text)
}

/// The options for reading verified data.
#[derive(Args)]
pub(crate) struct ReadArgs {
    /// File with the Merkle tree, if it is not at the end of the file or in FILE.verity
    #[arg(long, value_name = "FILE", value_parser = location(), value_hint = ValueHint::AnyPath)]
    pub(crate) sidecar: Option<Location>,
    /// Size of the cache for the Merkle tree
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = parse_size)]
    tree_cache: u64,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
}

impl ReadArgs {
    /// The options for reading content of which some is on another machine, or none.
    pub(crate) fn options(&self, is_remote: bool) -> Result<OpenOptions> {
        let options = OpenOptions::new()
            .sidecar(self.sidecar.clone())
            .tree_cache(usize::try_from(self.tree_cache).unwrap_or(usize::MAX));
        self.access.apply_if(is_remote, options)
    }
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
