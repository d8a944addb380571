use std::path::{Path, absolute};

use verimount_names::printable;
use verimount_serve::{Pin, Served};

/// Describes what this process serves from now on. `source` is reported as an absolute path, as
/// readers of the status have other working directories.
pub(crate) fn served(source: &Path, pin: Option<Pin>) -> Served {
    let absolute = absolute(source);
    let source = absolute.as_deref().unwrap_or(source);
    Served::new(printable(source).to_string(), pin)
}
