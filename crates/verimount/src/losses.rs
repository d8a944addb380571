use std::fmt;

use verimount_names::{one_line, printable};
use verimount_scan::{Example, Loss, Lost};

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
            _ => write!(f, "{format} does not store the {name} of {}", shown(lost)),
        }
    }
}

/// The number of affected files, and some examples.
pub(crate) fn shown(lost: &Lost) -> String {
    let examples: Vec<_> = lost.examples.iter().map(example).collect();
    let more = if lost.count > lost.examples.len() as u64 {
        ", …"
    } else {
        ""
    };
    format!("{}: {}{more}", lost.count, examples.join(", "))
}

fn example(Example { path, detail }: &Example) -> String {
    /// The maximum length of a path in characters, so that a few fit in a line.
    const MAX_LEN: usize = 100;
    let path = printable(path).to_string();
    let cut = path.char_indices().rev().nth(MAX_LEN - 1);
    let path = match cut.filter(|(start, _)| *start > 0) {
        Some((start, _)) => format!("…{}", &path[start..]),
        None => path,
    };
    if detail.is_empty() {
        path
    } else {
        format!("{path} ({})", one_line(detail))
    }
}
