use std::{collections::BTreeMap, fmt, path::PathBuf};

/// A kind of what a tree can have and the format has no place for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Loss {
    /// Time of the last change. (Other times cannot be set in any file system.)
    Times,
    /// An owner or group that is not root.
    Owners,
    /// Permission bits or an access control list that keep somebody from reading a file, or from
    /// listing or searching a directory. Everybody may do that in the image.
    Privacy,
    /// Other permission bits than the image shows, which keep nobody from reading.
    Permissions,
    /// Set-user-id, set-group-id and sticky bits.
    SpecialBits,
    /// Access control lists, of POSIX or of NFS.
    AccessLists,
    /// File capabilities.
    Capabilities,
    /// Any other extended attribute.
    Attributes,
    /// Ranges of files that take no storage. They are stored as zeros.
    Holes,
}

/// What of a tree its image does not keep.
#[derive(Debug, Default)]
pub struct Losses(BTreeMap<Loss, Lost>);

/// Where one kind of loss is met.
#[derive(Debug, Default)]
pub struct Lost {
    /// How many files, directories and others, each counted once for all its names.
    pub count: u64,
    /// The first few of them, in walk order.
    pub examples: Vec<Example>,
}

/// One that loses something.
#[derive(Debug, PartialEq, Eq)]
pub struct Example {
    /// Its path from the root, which is `.` itself.
    pub path: PathBuf,
    /// What it loses, such as `0600 becomes 0644`, in which all is from strangers; may be empty.
    pub detail: String,
}

/// Most examples for each kind of loss.
const MAX_EXAMPLES: usize = 3;

impl Losses {
    /// All that are met, by kind.
    pub fn iter(&self) -> impl Iterator<Item = (Loss, &Lost)> {
        self.0.iter().map(|(loss, lost)| (*loss, lost))
    }

    /// Where this kind is met, if anywhere.
    pub fn get(&self, loss: Loss) -> Option<&Lost> {
        self.0.get(&loss)
    }

    /// Adds one that is at a path.
    pub(super) fn add(
        &mut self,
        loss: Loss,
        path: impl FnOnce() -> PathBuf,
        detail: fmt::Arguments<'_>,
    ) {
        let lost = self.0.entry(loss).or_default();
        lost.count = lost.count.saturating_add(1);
        if lost.examples.len() < MAX_EXAMPLES {
            lost.examples.push(Example {
                path: path(),
                detail: detail.to_string(),
            });
        }
    }
}
