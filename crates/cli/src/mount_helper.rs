//! `verimount` as the program that mount(8) starts for a type of file system: under the name
//! `mount.fuse.verimount` or `mount.verimount`, or through `mount.fuse3`.

use std::{
    ffi::OsString,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use clap::{Parser, error::ErrorKind};
use verimount_host::mounts::{our_mount_on, served};

use crate::{
    Cli,
    option_list::{Kind, ListedOption},
    target::ask_in_time,
};

/// The option that says that SOURCE is a volume.
const VOLUME: &str = "volume";

/// Mount an image, a sealed file, a directory (as a bridge) or a volume, as mount(8) asks for it
///
/// The options are the long options of verimount mount, bridge and volume mount without their dashes,
/// and those of mount(8). A directory is mirrored as by verimount bridge. The option volume says that
/// SOURCE is a volume.
#[derive(Parser)]
#[command(name = "mount.fuse.verimount", version, max_term_width = 100)]
pub(crate) struct HelperCall {
    source: PathBuf,
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Ignore unknown options
    #[arg(short = 's')]
    sloppy: bool,
    /// Check the arguments, and mount nothing
    #[arg(short = 'f')]
    pub(crate) fake: bool,
    /// No effect: only the kernel has a mount table
    #[arg(short = 'n')]
    _no_mtab: bool,
    /// Say how it was mounted
    #[arg(short = 'v')]
    verbose: bool,
    /// Not supported
    #[arg(short = 'N', value_name = "NAMESPACE")]
    namespace: Option<PathBuf>,
    /// No effect: there is only one type
    #[arg(short = 't', value_name = "TYPE")]
    _fs_type: Option<OsString>,
    /// Options, separated by commas
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<OsString>,
}

/// Who calls the helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// mount(8).
    Mount,
    /// `mount.fuse3`, which mount(8) has called. It adds `suid` and `dev` to all options.
    MountFuse,
}

impl Caller {
    /// The caller with these arguments, if the helper is called. `mount.fuse3` gives no name, but a path
    /// as the first argument, which is no command's name.
    pub(crate) fn of(arguments: &[OsString]) -> Option<Self> {
        let name = arguments
            .first()
            .and_then(|name| Path::new(name).file_name());
        match (name.and_then(|name| name.to_str()), arguments) {
            (Some("mount.fuse.verimount" | "mount.verimount"), _) => Some(Self::Mount),
            (_, [_, source, _, option, _]) => {
                let is_call = source.as_bytes().contains(&b'/') && option == "-o";
                is_call.then_some(Self::MountFuse)
            }
            _ => None,
        }
    }

    /// Whether mount(8) adds this option itself.
    fn adds(self, option: &ListedOption) -> bool {
        self == Self::MountFuse && (option.is_flag("suid") || option.is_flag("dev"))
    }
}

impl HelperCall {
    /// Whether the source is mounted there natively: then mount(8), which does not find it in the mount table, mounts what is mounted
    /// once more, by `mount -a`.
    pub(crate) fn is_mounted(&self) -> bool {
        let mount = our_mount_on(&self.directory).ok().flatten();
        if !mount.is_some_and(|mount| mount.is_native()) {
            return false;
        }
        let source = [
            served(&self.source, None).source,
            self.source.to_string_lossy().into_owned(),
        ];
        let told = ask_in_time(&self.directory);
        told.is_ok_and(|told| told.is_ok_and(|status| source.contains(&status.served.source)))
    }

    /// The command line that does what is asked for.
    ///
    /// # Errors
    /// What is wrong with the arguments.
    pub(crate) fn parse(&self, caller: Caller) -> Result<Cli, clap::Error> {
        if self.namespace.is_some() {
            let text =
                "-N is not supported: enter the namespace with nsenter(1), and mount there\n";
            return Err(clap::Error::raw(ErrorKind::UnknownArgument, text));
        }
        Cli::try_parse_from(self.command_line(caller)?)
    }

    fn command_line(&self, caller: Caller) -> Result<Vec<OsString>, clap::Error> {
        let lists = self.options.iter();
        let mut options: Vec<_> = lists.flat_map(|list| ListedOption::parse(list)).collect();
        let kind = self.kind(&options);
        options.retain(|option| !option.is_flag(VOLUME) && !caller.adds(option));
        let mut line = vec![OsString::from("verimount")];
        line.extend(kind.command().iter().map(OsString::from));
        if !self.verbose {
            line.push("--quiet".into());
        }
        for option in options {
            match option.long(kind) {
                Err(_) if self.sloppy => {}
                long => line.extend(long?),
            }
        }
        let operands = [
            "--".as_ref(),
            self.source.as_os_str(),
            self.directory.as_os_str(),
        ];
        line.extend(operands.map(OsString::from));
        Ok(line)
    }

    fn kind(&self, options: &[ListedOption]) -> Kind {
        if options.iter().any(|option| option.is_flag(VOLUME)) {
            return Kind::Volume;
        }
        if fs::metadata(&self.source).is_ok_and(|source| source.is_dir()) {
            Kind::Bridge
        } else {
            Kind::Image
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use clap::CommandFactory;

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    /// The command line for a call.
    fn line(call: &str) -> Result<String, clap::Error> {
        line_by(Caller::Mount, call)
    }

    fn line_by(caller: Caller, call: &str) -> Result<String, clap::Error> {
        let line = HelperCall::try_parse_from(words(call))?.command_line(caller)?;
        Ok(line.join(OsStr::new(" ")).into_string().unwrap())
    }

    #[test]
    fn the_helper_is_consistent() {
        HelperCall::command().debug_assert();
    }

    #[test]
    fn calls_become_command_lines() {
        let directory = std::env::temp_dir();
        let directory = directory.to_str().unwrap();
        for (call, expected) in [
            ("m /a /b -o rw", "verimount mount --quiet -- /a /b"),
            (
                "m /a /b -sfnv -t fuse.verimount",
                "verimount mount -- /a /b",
            ),
            (
                "m /a /b -n -o ro,noexec,digest=sha256:ab,allow_other,user",
                "verimount mount --quiet --noexec --digest=sha256:ab --allow-other -- /a /b",
            ),
            (
                "m /a /b -o rw,suid,dev,nosuid",
                "verimount mount --quiet --suid --dev --nosuid -- /a /b",
            ),
            (
                "m /a /b -s -o what,uid=1",
                "verimount mount --quiet --uid=1 -- /a /b",
            ),
            (
                "m /a /b -o rw,volume,mode=bitmap",
                "verimount volume mount --quiet --mode=bitmap -- /a /b",
            ),
            (
                &format!("m {directory} /b -o ro"),
                &format!("verimount bridge --quiet --read-only -- {directory} /b"),
            ),
        ] {
            assert_eq!(line(call).unwrap(), expected);
        }
        assert!(
            line("m /a /b -o rw,what")
                .unwrap_err()
                .to_string()
                .contains("option 2")
        );
        assert!(line("m /a").is_err());
    }

    #[test]
    fn what_mount_fuse_adds_has_no_effect() {
        assert_eq!(
            line_by(Caller::MountFuse, "m /a /b -o rw,unpinned,dev,suid").unwrap(),
            "verimount mount --quiet --unpinned -- /a /b"
        );
    }

    #[test]
    fn other_namespaces_are_refused() {
        let call = HelperCall::try_parse_from(words("m /a /b -N /proc/1/ns/mnt -o unpinned"));
        assert!(call.unwrap().parse(Caller::Mount).is_err());
    }

    #[test]
    fn a_call_is_known_by_name_or_by_shape() {
        for (call, caller) in [
            ("/sbin/mount.fuse.verimount a b", Some(Caller::Mount)),
            ("mount.verimount --help", Some(Caller::Mount)),
            ("verimount /a b -o rw", Some(Caller::MountFuse)),
            ("verimount a b -o rw", None),
            ("verimount mount b -o rw", None),
            ("verimount /a b", None),
            ("mount.fuse3 a b", None),
        ] {
            assert_eq!(Caller::of(&words(call)), caller, "{call}");
        }
    }
}
