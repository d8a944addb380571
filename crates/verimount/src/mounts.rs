//! What Verimount serves on this machine: the mount table, statuses, and how mounts end.

pub use verimount_mount::{
    Daemon, DaemonEnd, EndSignals, EndingMount, Mode, MountEntry, MountError,
    MountOptions as AttachOptions, Mountable, Mounted, NoAnswer, RegisteredExport, Registration,
    Reload, Terminal, UnmountError, attach, ending_mounts, mounts, registered_exports,
    shown_process, unmount,
};
pub use verimount_serve::{
    AskError, BadSector, CacheStatus, CheckEvent, Export, Failure, ImageStatus, Kind,
    OriginFailure, OriginStatus, Requests, Served, Status, StorageCounts, VolumeStatus, ask_export,
    ask_mount, check_export,
};
pub use verimount_sys::take_inherited;
