//! Other programs read what we write, and we read what they write.

mod archives;
mod dm_verity;
mod erofs;
mod fs_verity;
mod romfs;
mod signatures;
mod volumes;
