//! The command as its users and its attackers meet it: only its arguments, files, mounts and
//! signals go in, only its output, files and exit code are judged.

mod bad_input;
mod bridge;
mod build;
mod common;
mod contents;
mod dm_verity;
mod durability;
mod flips;
mod hostile;
mod info;
mod interrupts;
mod keys;
mod kills;
mod limits;
mod mount_helper;
mod mounting;
mod names;
mod ordinary_user;
mod outputs;
mod progress;
mod usage;
mod verify;
mod volume;
