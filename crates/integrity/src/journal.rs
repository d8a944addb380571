//! The journal: a ring of sections. Each section holds the blocks of some writes, their target
//! sectors and their tags.

mod committed;
mod layout;
mod pending;
mod replay;
mod ring;
mod section;
mod sequence;
mod writer;

pub(crate) use layout::JournalLayout;
pub(crate) use pending::Pending;
pub(crate) use replay::{Replayed, Scan, hold, replay};
pub(crate) use ring::{Position, Ring};
pub(crate) use section::SectionFormat;
pub(crate) use sequence::Sequence;
pub(crate) use writer::Journal;
