//! System calls that no safe library offers. The only crate of Verimount with unsafe code: each
//! block says why it is sound.

mod cachestat;
mod fuse;
mod inherited;

pub use cachestat::cached_pages;
pub use fuse::{clone_fuse_device, close_fuse_backing, open_fuse_backing};
pub use inherited::take_inherited;
