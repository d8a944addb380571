//! Tests of what daemons of the command cannot do.
//!
//! A daemon is started as users start it, and then has system calls made in each of its threads, as whoever had taken it over
//! could make them: the tests trace it for that, as a debugger does. So what is tested is the program itself, without any
//! code for tests.

pub mod attempt;
pub mod daemon;
pub mod foreign;
pub mod kernel;
pub mod tally;
pub mod thread;
pub mod victim;
