//! Tests of volumes through the public interface.

mod bitmap;
mod check;
mod commit_timer;
mod common;
mod costs;
mod damage;
mod failures;
mod faults;
mod format;
mod header;
mod journal;
mod model;
mod read_only;
mod threads;
