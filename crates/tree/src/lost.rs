use std::{fmt, path::PathBuf};

use verimount_names::{one_line, printable};

/// The inodes of which something is lost.
#[derive(Debug, Clone, Default)]
pub struct Lost {
    /// Number of inodes.
    pub count: u64,
    /// The first few, in walk order.
    pub examples: Vec<Example>,
}

/// An inode with a loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// Its path below the root; `.` for the root.
    pub path: PathBuf,
    /// The loss, such as `0600 becomes 0644`; may be empty, and may contain untrusted text.
    pub detail: String,
}

/// The most examples.
const MAX_EXAMPLES: usize = 3;

impl Lost {
    /// Counts an inode, and keeps it as an example if there are few.
    pub fn add(&mut self, path: impl FnOnce() -> PathBuf, detail: impl fmt::Display) {
        self.count = self.count.saturating_add(1);
        if self.examples.len() < MAX_EXAMPLES {
            self.examples.push(Example {
                path: path(),
                detail: detail.to_string(),
            });
        }
    }
}

/// The number, and some examples, in one line.
impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let examples: Vec<_> = self.examples.iter().map(ToString::to_string).collect();
        let more = if self.count > self.examples.len() as u64 {
            ", …"
        } else {
            ""
        };
        write!(f, "{}: {}{more}", self.count, examples.join(", "))
    }
}

impl fmt::Display for Example {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// The maximum length of a path in characters, so that a few fit in a line.
        const MAX_LEN: usize = 100;
        let path = printable(&self.path).to_string();
        let cut = path.char_indices().rev().nth(MAX_LEN - 1);
        match cut.filter(|(start, _)| *start > 0) {
            Some((start, _)) => write!(f, "…{}", path.get(start..).unwrap_or_default())?,
            None => f.write_str(&path)?,
        }
        if self.detail.is_empty() {
            Ok(())
        } else {
            write!(f, " ({})", one_line(&self.detail))
        }
    }
}
