#![doc = include_str!("../README.md")]

mod clock;
mod full;
mod line;
mod log;
mod record;
mod state;
mod tally;
mod target;
mod writer;

pub use full::Full;
pub use line::Line;
pub use log::{AuditLog, AuditOptions, AuditStatus, Kept, Outcome};
pub use record::{Kind, Record, Rule};
pub use tally::{RuleCounts, Tally};
pub use target::{Open, Target};
