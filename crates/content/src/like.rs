//! What of new content is here already, in the blocks of older content.
//!
//! Every block of both has a digest in their trees. So no file, name or place need be the same. Older content is never trusted:
//! it only says where bytes may be that match a digest, and what does not match is fetched.

mod index;
mod old;
mod runs;
mod source;

#[cfg(feature = "remote")]
pub(crate) use self::old::{Gathering, TakeOver};
pub(crate) use self::source::Like;
pub use self::{
    old::{OldBlock, Olds, Part, Unshared, UnsharedReason},
    runs::Runs,
};
