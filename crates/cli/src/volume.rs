mod args;
mod check;
mod exported;
mod format;
mod grow;
mod header;
mod holder;
mod info;
mod mount;
mod mounted;
mod opened;
mod serve;
mod shape_args;
mod socket;

use crate::commands::commands;

pub(crate) use info::{SUPERBLOCK, superblock_json};

commands! {
    /// Create and use volumes: writable disks whose blocks are all checked, in the format of the
    /// kernel's dm-integrity
    ///
    /// Options have the same names as in integritysetup. A volume does not store its algorithm, key or
    /// mode: give them each time.
    pub(crate) enum Volume {
        Format(format::Format),
        Info(info::Info),
        Check(check::Check),
        Grow(grow::Grow),
        Mount(mount::Mount),
        Serve(serve::Serve),
        BackupHeader(header::BackupHeader),
        RestoreHeader(header::RestoreHeader),
        RebuildHeader(header::RebuildHeader),
    }
}
