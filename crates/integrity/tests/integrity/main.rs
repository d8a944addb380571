//! Volumes as their users see them.

mod common;
mod costs;
mod crash;
mod damage;
mod format;
mod journal;
mod model;
