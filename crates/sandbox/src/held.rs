use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// What holds of this process.
static HELD: OnceLock<Held> = OnceLock::new();

/// What a sandbox holds back.
///
/// Programs of other versions read it: they ignore unknown fields, and take missing fields as zero or absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Held {
    /// The version of Landlock's interface by which it holds; 0 without Landlock.
    pub landlock: u32,
    /// Whether only the daemon's own files can be opened.
    pub files: bool,
    /// Whether only known system calls can be made, which run no programs.
    pub system_calls: bool,
    /// Whether other machines can be reached.
    pub network: bool,
    /// The capabilities that are left, by their names without `CAP_`.
    pub capabilities: Vec<String>,
}

/// What holds of this process since it entered a [`Sandbox`](crate::Sandbox); `None` if it has not.
pub fn held() -> Option<&'static Held> {
    HELD.get()
}

/// Notes what holds of this process from now on.
pub(crate) fn hold(held: Held) {
    HELD.get_or_init(|| held);
}
