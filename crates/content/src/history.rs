//! What is known of content on other machines besides what they send now: copies in the cache, other content from there, and other
//! releases in its place.
//!
//! With the feature `remote`; without it, `history/absent.rs` takes this place.

pub mod kept;
mod releases;
mod siblings;

use verimount_verity::Seal;

use self::kept::Kept;
pub(crate) use self::releases::{other_release, releases};
use crate::{accepted::Accepted, far::Access, origin::ContentOrigin, place::Place};

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
