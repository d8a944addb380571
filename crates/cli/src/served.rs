use std::path::{Path, absolute};

use verimount_names::printable;
use verimount_serve::{Pin, Served};

/// What this process serves from now on: `source`, whose path is told from the root, as others who ask
/// for the status are in other directories.
pub(crate) fn served(source: &Path, pin: Option<Pin>) -> Served {
    let absolute = absolute(source);
    let source = absolute.as_deref().unwrap_or(source);
    Served::new(printable(source).to_string(), pin)
}
