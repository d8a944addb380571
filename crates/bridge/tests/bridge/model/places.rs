//! The names that are used.

/// The initial directories, each with a file of each name. Others appear only by moves.
pub(super) const DIRECTORIES: [&str; 10] = [
    "pub",
    "pub/d",
    "secrets",
    "secrets/d",
    "fixed",
    "fixed/d",
    "one",
    "one/d",
    "pub/keys",
    "pub/d/e",
];

/// The directories where most operations are allowed.
pub(super) const FREE: [&str; 4] = ["pub", "pub/d", "pub/keys", "pub/d/e"];

/// Where directories may be later; the first is the source itself.
pub(super) const MOVED: [&str; 8] = ["", "", "d", "e", "pub/d/d", "secrets/e", "fixed/e", "one/e"];

pub(super) const DIRECTORY_NAMES: [&str; 7] = ["d", "e", "keys", "pub", "one", "fixed", "secrets"];

pub(super) const FILES: [&str; 3] = ["a", "b", "x.key"];
