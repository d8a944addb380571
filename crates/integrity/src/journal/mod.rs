//! The journal: a ring of sections, each of which holds the blocks of some writes and what is known
//! of them.

mod layout;
mod ring;
mod section;
mod sequence;

pub(crate) use layout::JournalLayout;
pub(crate) use ring::Ring;
pub(crate) use section::SectionFormat;
pub(crate) use sequence::Sequence;
