use verimount_verity::Seal;

use super::{Access, kept::Kept, siblings::ContentOrigin};
use crate::{Error, accepted::Accepted, lazy::Lazy, place::Place};

/// Opens content that takes long to read, through its copies in the cache, if there is one.
pub(crate) fn open_slow(place: Place, accepted: Accepted, access: &Access) -> Result<Seal, Error> {
    let origin = place.origin(&accepted);
    if let Some(seal) = kept_seal(&place, &accepted, access) {
        let origin = origin.map(|origin| origin.if_found(false));
        return Ok(keep(Lazy::closed(place, accepted, seal), origin, access));
    }
    let (source, _) = place.content()?;
    let seal = accepted.find(&place, source)?;
    let seal = match accepted {
        // Only what was pinned is read on when it is stored in another way.
        Accepted::OwnSeal => seal,
        accepted => Lazy::open(place, accepted, seal),
    };
    Ok(keep(seal, origin, access))
}

/// The seal of what is accepted at a place, if the cache has it. Its data and tree are empty.
pub(crate) fn kept_seal(place: &Place, accepted: &Accepted, access: &Access) -> Option<Seal> {
    let kept = Kept::of_accepted(access, accepted)?;
    kept.seal(place, accepted)
}

/// Keeps what is read of the tree and the data of this seal, which was accepted, of content from `origin`, in the
/// cache, if there is one.
pub(crate) fn keep(seal: Seal, origin: Option<ContentOrigin>, access: &Access) -> Seal {
    match Kept::of_seal(access, &seal) {
        Some(kept) => kept.keep(seal, origin),
        None => seal,
    }
}
