//! Black-box tests of the command: the input is arguments, files, mounts and signals; only output, files and
//! the exit code are checked.

mod bad_input;
mod bridge;
mod build;
mod build_erofs;
mod build_romfs;
mod build_tar;
mod common;
mod contents;
mod devices;
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
mod registry;
mod remote;
mod remote_cache;
mod restoring;
mod usage;
mod verify;
mod verify_erofs;
mod volume;
