use clap::Args;

/// The options that give programs and device nodes in a mount their powers.
#[derive(Args)]
pub(crate) struct PowerArgs {
    /// Let set-user-ID and set-group-ID bits and file capabilities of programs take effect, as in other mounts
    /// of root; requires root
    #[arg(long, visible_alias = "allow-suid", conflicts_with_all = ["uid", "gid"], overrides_with = "nosuid")]
    pub(crate) suid: bool,
    /// Let device nodes be opened; requires root
    #[arg(long, visible_alias = "allow-dev", overrides_with = "nodev")]
    pub(crate) dev: bool,
    // As mount(8) takes them: the last one of a kind counts.
    #[arg(long, hide = true, overrides_with = "suid")]
    nosuid: bool,
    #[arg(long, hide = true, overrides_with = "dev")]
    nodev: bool,
}
