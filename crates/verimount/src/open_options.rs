use verimount_content::{Options, Pins, Trust, setters};
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

    setters! {
        /// Accepts only content with this digest of fs-verity.
        digest: FileDigest => pins.digest;

        /// Accepts only content whose seal of fs-verity is signed with this key.
        key: PublicKey => pins.key;

        /// Accepts only content with this root hash of dm-verity.
        root_hash: RootHash => pins.root_hash;
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

    setters! {
        /// The file with the Merkle tree, if it is neither at the end of the data nor in `FILE.verity`.
        sidecar: impl Into<Option<Location>> => places.sidecar;

        /// The offset of a dm-verity superblock in bytes: in the sidecar if that is given, else in the data's own file. By
        /// default, that in `FILE.dmverity`, if there is no sidecar.
        hash_offset: impl Into<Option<u64>> => places.hash_offset;
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

    setters! {
        /// Whether right bytes from a mirror are written where others were found, in files on this machine: those of the content
        /// and of its mirrors. Only what was verified is written.
        repair: bool => places.repair;
    }

    /// Reads blocks from older content, which has a seal, too, where that has blocks with the same digests: only what changed
    /// is fetched. Nothing there is trusted: all is verified as what is fetched, which what does not match is.
    /// [`Content::unshared`](crate::Content::unshared) says what cannot be used.
    pub fn like(mut self, older: impl Into<Location>) -> Self {
        self.places.like.push(older.into());
        self
    }

    setters! {
        /// Whether large reads of files on this machine go through the kernel's page cache: useful for programs that read the same
        /// content again, or several at once. By default, reads of 256 KiB and more leave there only what is in it already, as
        /// whoever reads once, or is mounted, keeps the bytes elsewhere. Files that are opened for [`repair`](Self::repair) are
        /// read so anyway.
        page_cache: bool => places.page_cache;

        /// How much of the Merkle tree is kept in memory, in bytes; by default 16 MiB.
        tree_cache: usize => places.verify.cache_bytes;
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
        let devices = self.devices.iter().map(|device| &device.location);
        Self {
            places: self.places.for_content(location, trust, devices),
            ..self.clone()
        }
    }
}
