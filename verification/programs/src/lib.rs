//! Tests that compare with other programs for the same formats: `mkfs.erofs`, `fsck.erofs` and the kernel's EROFS, `genromfs`, GRUB,
//! `fsverity`, `veritysetup`, `integritysetup`, `minisign`, GNU tar.
//!
//! They are not with the crates, so that `cargo test` needs no other programs, skips no comparison, and takes a minute.
