//! One directory: native, through our bridge, and through other mirrors.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::{
    lab::{Lab, Which, has},
    mounts::{self, Mount},
    report::Report,
};

pub(super) const NATIVE: &str = "native";

/// Our bridge with default options: as root, all files are passed through.
pub(super) const OURS: &str = "verimount";

/// The bridge of a source that is changed through it only.
pub(super) const EXCLUSIVE: &str = "verimount, cache exclusive";

/// The bridge that keeps processors awake while requests come.
pub(super) const AWAKE: &str = "verimount, awake";

/// The bridge without extended attributes, which saves two round trips for each new file.
pub(super) const NO_XATTR: &str = "verimount, no xattr";

/// Both.
pub(super) const AWAKE_NO_XATTR: &str = "verimount, awake, no xattr";

/// The bridge that passes files through or fails.
pub(super) const PASSTHROUGH: &str = "verimount, passthrough";

/// The bridge that relays every read and write.
pub(super) const RELAY: &str = "verimount, relay";

/// An example of libfuse.
const PASSTHROUGH_HP: &str = "passthrough_hp";

/// A way to use a directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject {
    pub(super) name: &'static str,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Native,
    /// Options of `verimount bridge`.
    Ours(&'static [&'static str]),
    /// The program after which the subject is named.
    Peer,
}

impl Subject {
    pub(super) const NATIVE: Self = Self::new(NATIVE, Form::Native);
    pub(super) const OURS: Self = Self::new(OURS, Form::Ours(&[]));
    pub(super) const EXCLUSIVE: Self = Self::new(EXCLUSIVE, Form::Ours(&["--cache", "exclusive"]));
    pub(super) const AWAKE: Self = Self::new(AWAKE, Form::Ours(&["--awake"]));
    pub(super) const NO_XATTR: Self = Self::new(NO_XATTR, Form::Ours(&["--no-xattr"]));
    pub(super) const AWAKE_NO_XATTR: Self =
        Self::new(AWAKE_NO_XATTR, Form::Ours(&["--awake", "--no-xattr"]));
    pub(super) const PASSTHROUGH: Self =
        Self::new(PASSTHROUGH, Form::Ours(&["--passthrough", "require"]));
    pub(super) const RELAY: Self = Self::new(RELAY, Form::Ours(&["--passthrough", "never"]));

    /// The mirrors of other projects.
    pub(super) const PEERS: [Self; 4] = [
        Self::new("bindfs", Form::Peer),
        Self::new("fuse-overlayfs", Form::Peer),
        Self::new("mergerfs", Form::Peer),
        Self::new(PASSTHROUGH_HP, Form::Peer),
    ];

    const fn new(name: &'static str, form: Form) -> Self {
        Self { name, form }
    }

    /// Whether it is our bridge.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self.form, Form::Ours(_))
    }

    /// Whether it is another project's program.
    pub(super) fn is_peer(&self) -> bool {
        self.form == Form::Peer
    }

    /// Mounts the directory `source`, unless it is used directly.
    pub(super) fn open<'s>(&self, lab: &Lab, source: &'s Path) -> Result<Mirror<'s>> {
        let mount = match self.form {
            Form::Native => None,
            Form::Ours(options) => Some(mounts::bridge(lab, source, options)?),
            Form::Peer => Some(mounts::background(lab, peer(lab, self.name, source)?)?),
        };
        Ok(Mirror { source, mount })
    }

    /// The number of reads and writes that have reached our process, if it is our bridge.
    pub(super) fn relayed(&self, lab: &Lab, mirror: &Mirror<'_>) -> Result<Option<u64>> {
        let (Form::Ours(_), Some(mount)) = (self.form, &mirror.mount) else {
            return Ok(None);
        };
        let [reads, writes] =
            ["relayed/reads", "relayed/writes"].map(|name| mount.counter(lab, name));
        Ok(Some(reads? + writes?))
    }

    /// The reason why it cannot be measured here, if any.
    fn obstacle(&self, lab: &Lab) -> Result<Option<String>> {
        let needs_root = [AWAKE, AWAKE_NO_XATTR, PASSTHROUGH, PASSTHROUGH_HP].contains(&self.name);
        if needs_root && !lab.is_root() {
            return Ok(Some(Lab::NEEDS_ROOT.to_owned()));
        }
        if self.is_peer() && !has(self.name) {
            return Ok(Some("not installed".to_owned()));
        }
        // Some versions of a peer do not mount for every user, and our older programs know fewer options.
        lab.choose(Which::Older);
        let refusal = self.open(lab, lab.new_folder()?.path()).err();
        lab.choose(Which::Today);
        Ok(refusal.map(|error| format!("{error:#}")))
    }
}

/// A directory as a subject shows it. It is unmounted when this is dropped.
#[derive(Debug)]
pub(super) struct Mirror<'s> {
    source: &'s Path,
    mount: Option<Mount>,
}

impl Mirror<'_> {
    pub(super) fn path(&self) -> &Path {
        self.mount.as_ref().map_or(self.source, Mount::path)
    }
}

/// Those of `subjects` that can be measured here.
pub(super) fn possible(
    lab: &Lab,
    report: &mut Report,
    subjects: &[Subject],
) -> Result<Vec<Subject>> {
    let mut possible = Vec::new();
    for subject in subjects {
        match subject.obstacle(lab)? {
            None => possible.push(*subject),
            Some(obstacle) => report.leave_out(subject.name, &obstacle),
        }
    }
    Ok(possible)
}

/// A command that mirrors `source` with the program `name`; the caller adds the mount point.
fn peer(lab: &Lab, name: &str, source: &Path) -> Result<Command> {
    let mut command = Command::new(name);
    match name {
        // Otherwise it allows all users, which other users than root may not always do.
        "bindfs" => _ = command.arg("--no-allow-other").arg(source),
        "fuse-overlayfs" => {
            let (lower, work) = (folder(lab, "overlay-lower")?, folder(lab, "overlay-work")?);
            command.arg("-o").arg(format!(
                "lowerdir={},upperdir={},workdir={}",
                lower.display(),
                source.display(),
                work.display(),
            ));
        }
        // Otherwise it creates no file if less than 4 GiB are free.
        "mergerfs" => _ = command.args(["-o", "minfreespace=0"]).arg(source),
        _ => _ = command.arg(source),
    }
    Ok(command)
}

/// An empty folder for a peer's own use, besides the directories that it mirrors.
fn folder(lab: &Lab, name: &str) -> Result<PathBuf> {
    let folder = lab.path(name);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}
