use std::{ffi::OsString, num::NonZeroUsize};

use clap::Args;
use verimount_host::{
    MountOptions,
    mounts::{AttachOptions, auto_threads},
};

use crate::{
    background::BackgroundArgs,
    options::{Auto, parse_threads},
};

/// The options for serving a mount.
#[derive(Args)]
pub(crate) struct MountArgs {
    // The list is expanded before arguments are parsed; this shows it in the help.
    /// Comma-separated options as in fstab: long options without dashes, such as allow_other,log=FILE, and
    /// those of mount(8)
    #[arg(short = 'o', value_name = "OPTIONS")]
    _list: Vec<OsString>,
    /// Let other users access the mount, each with their own permissions
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Number of threads that answer the kernel, or auto
    #[arg(long, value_name = "N", default_value = "auto", value_parser = parse_threads)]
    threads: Auto<NonZeroUsize>,
    /// Keep processors from entering idle states while requests arrive, for lower latency; requires
    /// root
    #[arg(long)]
    awake: bool,
    /// Refuse to run programs from the mount
    #[arg(long)]
    noexec: bool,
    #[command(flatten)]
    pub(crate) background: BackgroundArgs,
}

impl MountArgs {
    /// The options of an image's mount.
    pub(crate) fn options(&self) -> MountOptions {
        MountOptions {
            allow_other: self.allow_other,
            threads: self.threads.0,
            awake: self.awake,
            no_exec: self.noexec,
            ..MountOptions::default()
        }
    }

    /// The options of another mount, without set-ID bits and devices.
    pub(crate) fn attaching(&self, source_name: String, read_only: bool) -> AttachOptions {
        AttachOptions {
            source_name,
            read_only,
            allow_other: self.allow_other,
            threads: self.threads.0.unwrap_or_else(auto_threads),
            awake: self.awake,
            no_exec: self.noexec,
            no_symfollow: false,
            native: false,
            suid: false,
            dev: false,
        }
    }
}
