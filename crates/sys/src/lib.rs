//! System calls that no safe library offers. The only crate of Verimount with unsafe code: each
//! block says why it is sound.

mod cachestat;

pub use cachestat::cached_pages;
