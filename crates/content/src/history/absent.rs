//! What takes the place of `history` without the feature `remote`: nothing comes from other machines.

use std::{io, ops::Range, sync::Arc};

use verimount_source::Fetch;
use verimount_verity::{Releases, Seal};

use crate::{
    Error, Location, Options, accepted::Accepted, far::Access, origin::ContentOrigin, place::Place,
};

/// No other release takes a place on another machine.
pub(crate) fn other_release(
    _: &Place,
    _: Arc<dyn Fetch>,
    _: &Accepted,
    _: &Seal,
    _: &Range<u64>,
) -> Result<Option<io::Error>, Error> {
    Ok(None)
}

/// No other release is known.
pub(crate) fn releases(
    _: &Location,
    _: Accepted,
    _: &Seal,
    _: &Options,
) -> Option<Arc<dyn Releases>> {
    None
}

/// Nothing is kept.
pub(crate) fn kept_seal(_: &Place, _: &Accepted, _: &Access) -> Option<Seal> {
    None
}

/// Nothing is kept of what the seal reads.
pub(crate) fn keep(seal: Seal, _: Option<ContentOrigin>, _: &Access) -> Seal {
    seal
}
