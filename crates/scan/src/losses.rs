use std::{collections::BTreeMap, fmt, path::PathBuf};

use verimount_names::named;
use verimount_tree::Lost;

named! {
    /// A kind of attribute that the format of an image cannot store. The names are those in options.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum Loss {
        /// Modification time.
        Times = "times",
        /// An owner or group other than root.
        Owners = "owners",
        /// Permission bits or an access control list that deny somebody reading a file, or listing or
        /// searching a directory. In the image, everybody may do that.
        Privacy = "privacy",
        /// Permission bits that differ from those of the image, but deny nobody reading.
        Permissions = "permissions",
        /// Set-user-id, set-group-id and sticky bits.
        SpecialBits = "special-bits",
        /// Access control lists, of POSIX or of NFS.
        AccessLists = "access-lists",
        /// File capabilities.
        Capabilities = "capabilities",
        /// Any other extended attribute.
        Attributes = "attributes",
        /// Ranges of files without storage, which are stored as zeros.
        Holes = "holes",
    }
}

impl Loss {
    /// Each kind that is accepted unless it is refused: all but that of privacy, which is refused unless it is
    /// accepted.
    pub const REFUSABLE: [Self; 8] = [
        Self::Times,
        Self::Owners,
        Self::Permissions,
        Self::SpecialBits,
        Self::AccessLists,
        Self::Capabilities,
        Self::Attributes,
        Self::Holes,
    ];

    /// What is lost, in the plural.
    pub fn description(self) -> &'static str {
        match self {
            Self::Privacy => "read protection",
            Self::SpecialBits => "set-user-id, set-group-id or sticky bits",
            Self::AccessLists => "access control lists",
            Self::Capabilities => "file capabilities",
            Self::Attributes => "extended attributes",
            Self::Times | Self::Owners | Self::Permissions | Self::Holes => self.name(),
        }
    }
}

/// The attributes of a tree that its image does not store.
#[derive(Debug, Clone, Default)]
pub struct Losses(BTreeMap<Loss, Lost>);

impl Losses {
    /// All losses, by kind.
    pub fn iter(&self) -> impl Iterator<Item = (Loss, &Lost)> {
        self.0.iter().map(|(loss, lost)| (*loss, lost))
    }

    /// The inodes with this kind of loss, if any.
    pub fn get(&self, loss: Loss) -> Option<&Lost> {
        self.0.get(&loss)
    }

    /// Adds an inode by its path.
    pub fn add(&mut self, loss: Loss, path: impl FnOnce() -> PathBuf, detail: fmt::Arguments<'_>) {
        self.0.entry(loss).or_default().add(path, detail);
    }
}
