//! Gives up the rights that a daemon of Verimount does not need: capabilities, files, network, system calls.
//!
//! A [`Sandbox`] is put together from what the command line says, and [entered](Sandbox::enter) before the first thread is
//! started and before anything is read that could be hostile. What the kernel cannot do is left out, and told:
//! [`held`] says what holds. Landlock takes the files and the network; seccomp the system calls.

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod arguments;
mod calls;
mod capabilities;
mod filter;
mod held;
mod kind;
mod landlock;
mod sandbox;

#[doc(hidden)]
pub use calls::decided_calls;
pub use held::{Held, held};
pub use kind::Kind;
pub use sandbox::{FileRights, Sandbox};
