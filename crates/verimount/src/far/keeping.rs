use verimount_verity::Seal;

use super::{Access, kept::Kept, siblings::ContentOrigin};
use crate::{accepted::Accepted, place::Place};

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
