use super::{Access, kept::Kept, lazy::Lazy};
use crate::{Error, accepted::Accepted, opened_seal::OpenedSeal, place::Place};

/// Opens content that takes long to read, through its copies in the cache, if there is one.
pub(crate) fn open_slow(
    place: Place,
    accepted: Accepted,
    access: &Access,
) -> Result<OpenedSeal, Error> {
    if let Some(kept) = Kept::of_accepted(access, &accepted)
        && let Some(seal) = kept.seal(&accepted)
        && accepted.check(&place, &seal).is_ok()
    {
        return Ok(kept.keep(Lazy::closed(place, accepted, seal)));
    }
    let (source, _) = place.content()?;
    let seal = accepted.find(&place, source)?;
    let kept = Kept::of_seal(access, &seal);
    let seal = match accepted {
        // Only what was pinned is read on when it is stored in another way.
        Accepted::OwnSeal => seal,
        accepted => Lazy::open(place, accepted, seal),
    };
    Ok(match kept {
        Some(kept) => kept.keep(seal),
        None => seal,
    })
}
