//! Volumes as their users see them.

mod bitmap;
mod check;
mod common;
mod costs;
mod damage;
mod failures;
mod faults;
mod format;
mod journal;
mod model;
mod threads;
