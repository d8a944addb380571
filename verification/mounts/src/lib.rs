//! Tests of mounts that the test process itself serves: images, disks of volumes, mirrored directories.
//!
//! They are no tests of one crate: the kernel is a part of all of them. They take half a minute, so that `cargo test` leaves
//! them to `cargo xtask`.
