//! The paths of members.

use verimount_tree::MAX_DEPTH;

use super::placing::Refusal;
use crate::{Limit, Misfit};

/// The longest name in bytes.
pub(crate) const MAX_NAME: usize = 255;

/// The names that a path consists of below a directory, with those of the directory.
pub(super) fn names_below<'p>(
    directory: &'p [u8],
    path: &'p [u8],
) -> Result<Vec<&'p [u8]>, Refusal> {
    let mut all = names(directory)?;
    all.extend(names(path)?);
    if all.len() > MAX_DEPTH {
        Err(Limit::Depth.into())
    } else {
        Ok(all)
    }
}

/// The names that a path consists of, below the root. As `tar` does, a slash at the beginning is left out, but a path
/// with `..` is refused.
pub(super) fn names(path: &[u8]) -> Result<Vec<&[u8]>, Refusal> {
    let names = path.split(|byte| *byte == b'/');
    let names = names.filter(|name| !matches!(*name, b"" | b"."));
    // A path may consist of many more.
    let names: Vec<_> = names.take(MAX_DEPTH + 1).collect();
    if names.len() > MAX_DEPTH {
        return Err(Limit::Depth.into());
    }
    for name in &names {
        match *name {
            b".." => return Err(Misfit::Outside.into()),
            name if name.len() > MAX_NAME => return Err(Misfit::NameLength.into()),
            _ => {}
        }
    }
    Ok(names)
}
