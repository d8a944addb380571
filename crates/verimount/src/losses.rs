use std::fmt;

use verimount_scan::Loss;
use verimount_tree::Lost;

/// Which losses make [`build`](crate::build) fail. [`Loss::Privacy`] is not among them, see
/// [`RomfsOptions::widen_permissions`](crate::RomfsOptions::widen_permissions).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum RefusedLosses {
    /// None: the image is made without what it cannot hold.
    #[default]
    None,
    /// These.
    These(Vec<Loss>),
    /// All.
    All,
}

impl RefusedLosses {
    pub(crate) fn contains(&self, loss: Loss) -> bool {
        let is_refused = match self {
            Self::None => false,
            Self::These(losses) => losses.contains(&loss),
            Self::All => true,
        };
        is_refused && loss != Loss::Privacy
    }
}

/// Shows what an image does not store, and some of the files concerned, in one line.
#[derive(Debug)]
pub struct LossText<'a> {
    /// The [name](crate::ImageFormat::name) of the image's format.
    pub format: &'static str,
    /// What is lost.
    pub loss: Loss,
    /// Where.
    pub lost: &'a Lost,
}

impl fmt::Display for LossText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { format, loss, lost } = *self;
        let name = loss.description();
        match loss {
            // Nearly every file has times, so examples are useless.
            Loss::Times => write!(f, "{format} does not store {name}: all become 1970-01-01"),
            _ => write!(f, "{format} does not store the {name} of {lost}"),
        }
    }
}
