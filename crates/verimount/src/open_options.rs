use verimount_content::{Options, Pins, Trust};
use verimount_verity::{FileDigest, PublicKey};

use crate::{Error, ImageDevice, Location, RootHash, fault::ContentFault};

/// Which content is accepted, where its seal is, and how it is read.
///
/// All pins that are given must hold: [`digest`](Self::digest), [`key`](Self::key), [`root_hash`](Self::root_hash). Without
/// any, only a location that names its content by a digest can be opened, unless it is said to be
/// [`unpinned`](Self::unpinned) or [`unverified`](Self::unverified).
///
/// Clones share the connections to servers. Content that is opened with clones of one is closed together, when a mount of
/// it ends.
///
/// ```
/// use verimount::OpenOptions;
///
/// let digest = "sha256:adf83db3b55f77f4e12df982ede7545206a6791529f6f944e7208d764e282901";
/// let options = OpenOptions::new().digest(digest.parse()?).tree_cache(4 << 20);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct OpenOptions {
    pins: Pins,
    without_pins: Option<WithoutPins>,
    pub(crate) devices: Vec<ImageDevice>,
    pub(crate) places: Options,
}

#[derive(Debug, Clone, Copy)]
enum WithoutPins {
    Unpinned,
    Unverified,
}

impl OpenOptions {
    /// What a location names by a digest, from wherever that is.
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts only content with this digest of fs-verity.
    pub fn digest(mut self, digest: FileDigest) -> Self {
        self.pins.digest = Some(digest);
        self
    }

    /// Accepts only content whose seal of fs-verity is signed with this key.
    pub fn key(mut self, key: PublicKey) -> Self {
        self.pins.key = Some(key);
        self
    }

    /// Accepts only content with this root hash of dm-verity.
    pub fn root_hash(mut self, root_hash: RootHash) -> Self {
        self.pins.root_hash = Some(root_hash);
        self
    }

    /// Accepts any content that matches its own seal: detects damage, but not forgery. What a location names by a digest is
    /// pinned nevertheless.
    pub fn unpinned(mut self) -> Self {
        self.without_pins = Some(WithoutPins::Unpinned);
        self
    }

    /// Accepts anything, and verifies nothing. A seal at the end of the file is read as data.
    pub fn unverified(mut self) -> Self {
        self.without_pins = Some(WithoutPins::Unverified);
        self
    }

    /// The file with the Merkle tree, if it is neither at the end of the data nor in `FILE.verity`.
    pub fn sidecar(mut self, sidecar: impl Into<Option<Location>>) -> Self {
        self.places.sidecar = sidecar.into();
        self
    }

    /// The offset of a dm-verity superblock in bytes: in the sidecar if that is given, else in the data's own file. By
    /// default, that in `FILE.dmverity`, if there is no sidecar.
    pub fn hash_offset(mut self, offset: impl Into<Option<u64>>) -> Self {
        self.places.hash_offset = offset.into();
        self
    }

    /// Adds a further device of an image, in the order of its device table. By default, their data is looked for in the
    /// image itself.
    pub fn device(mut self, device: ImageDevice) -> Self {
        self.devices.push(device);
        self
    }

    /// Adds another place of the same content, with its seal at its end or beside it. What does not match at the first
    /// place, or cannot be read there, is taken from the next one that has it right. Mirrors are opened when they are
    /// needed, and must have the content that was accepted at first. There can be up to 15.
    pub fn mirror(mut self, location: impl Into<Location>) -> Self {
        self.places.mirrors.push(location.into());
        self
    }

    /// Whether right bytes from a mirror are written where others were found, in files on this machine: those of the content
    /// and of its mirrors. Only what was verified is written.
    pub fn repair(mut self, repair: bool) -> Self {
        self.places.repair = repair;
        self
    }

    /// Reads blocks from older content, which has a seal, too, where that has blocks with the same digests: only what changed
    /// is fetched. Nothing there is trusted: all is verified as what is fetched, which what does not match is.
    /// [`Content::unshared`](crate::Content::unshared) says what cannot be used.
    pub fn like(mut self, older: impl Into<Location>) -> Self {
        self.places.like.push(older.into());
        self
    }

    /// Whether large reads of files on this machine go through the kernel's page cache: useful for programs that read the same
    /// content again, or several at once. By default, reads of 256 KiB and more leave there only what is in it already, as
    /// whoever reads once, or is mounted, keeps the bytes elsewhere. Files that are opened for [`repair`](Self::repair) are
    /// read so anyway.
    pub fn page_cache(mut self, page_cache: bool) -> Self {
        self.places.page_cache = page_cache;
        self
    }

    /// How much of the Merkle tree is kept in memory, in bytes; by default 16 MiB.
    pub fn tree_cache(mut self, bytes: usize) -> Self {
        self.places.verify.cache_bytes = bytes;
        self
    }

    /// What is accepted at `location`, which is about to be opened.
    pub(crate) fn trust(&self, location: &Location) -> Result<Trust, Error> {
        match self.without_pins {
            None => Ok(Trust::Pinned(self.pins.clone())),
            Some(_) if !self.pins.is_empty() => Err(ContentFault::PinnedAndNot.at(location)),
            Some(WithoutPins::Unpinned) => Ok(Trust::Unpinned),
            Some(WithoutPins::Unverified) => Ok(Trust::Unverified),
        }
    }

    /// These options, for content that is nowhere else and has no devices.
    pub(crate) fn alone(self) -> Self {
        Self {
            devices: Vec::new(),
            places: self.places.without_places(),
            ..self
        }
    }

    /// These options, with an account of what is read through the content that is about to be opened, its devices included.
    pub(crate) fn with_own_account(self) -> Self {
        Self {
            places: self.places.with_own_account(),
            ..self
        }
    }

    /// These options, for content at `location` of which `trust` accepts some.
    pub(crate) fn for_content(&self, location: &Location, trust: &Trust) -> Self {
        let devices = self.devices.iter().map(ImageDevice::location);
        Self {
            places: self.places.for_content(location, trust, devices),
            ..self.clone()
        }
    }
}
