//! Volumes as their users see them.

mod common;
mod costs;
mod damage;
mod format;
mod model;
