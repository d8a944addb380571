use verimount_source::Giver;

/// Who gave bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// A place that may have them right, and its strikes when it was asked.
    Place(usize, u8),
    /// One that has had them wrong too often, as no other one had answered by then.
    LastResort,
}

/// The number of [`Who::LastResort`].
const LAST_RESORT: u64 = u64::MAX;

impl From<Who> for Giver {
    fn from(who: Who) -> Self {
        Self(match who {
            Who::Place(place, strikes) => (place as u64) << 8 | u64::from(strikes),
            Who::LastResort => LAST_RESORT,
        })
    }
}

impl From<Giver> for Who {
    fn from(Giver(number): Giver) -> Self {
        if number == LAST_RESORT {
            Self::LastResort
        } else {
            Self::Place((number >> 8) as usize, number as u8)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_says_who_it_is() {
        for who in [
            Who::Place(0, 0),
            Who::Place(1, 2),
            Who::Place(1000, u8::MAX),
            Who::LastResort,
        ] {
            assert_eq!(Who::from(Giver::from(who)), who);
        }
    }
}
