//! The same tree of files: plain, as our image, and as images of other file systems.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use verimount_support::command;

use crate::{
    lab::{Lab, User, file_system, has},
    mounts::{self, Mount, Sealed},
    report::Report,
};

/// The name of our own image.
pub(super) const OURS: &str = "verimount";

/// The tree in one form.
pub(super) struct Subject {
    pub(super) name: String,
    form: Form,
}

enum Form {
    Plain,
    Ours(Sealed),
    Squashfuse(PathBuf),
    Kernel(&'static str, PathBuf),
}

impl Subject {
    fn new(name: impl Into<String>, form: Form) -> Self {
        Self {
            name: name.into(),
            form,
        }
    }

    /// Mounts it; the plain tree is not mounted.
    pub(super) fn mount(&self, lab: &Lab) -> Result<Option<Mount>> {
        match &self.form {
            Form::Plain => Ok(None),
            Form::Ours(image) => image.mount(lab, User::Caller, &[]).map(Some),
            Form::Squashfuse(image) => mounts::squashfuse(lab, image).map(Some),
            Form::Kernel(file_system, image) => mounts::kernel(lab, file_system, image).map(Some),
        }
    }

    /// The reason why it cannot be measured here, if any.
    fn obstacle(&self, lab: &Lab) -> Option<&'static str> {
        match self.form {
            Form::Squashfuse(_) if !has("squashfuse") => Some("squashfuse is not installed"),
            Form::Kernel(..) if self.mount(lab).is_err() => Some("this kernel does not mount it"),
            _ => None,
        }
    }
}

/// The plain tree, then our image, then those of the peers that work here.
pub(super) fn subjects(lab: &Lab, report: &mut Report, tree: &Path) -> Result<Vec<Subject>> {
    let native = format!("native {}", file_system(tree)?);
    let source = lab.path("tree.img");
    let ours = Sealed {
        digest: lab.build(tree, &source, &[])?,
        source,
    };
    let mut subjects = vec![
        Subject::new(native, Form::Plain),
        Subject::new(OURS, Form::Ours(ours)),
    ];
    for peer in peers(lab, report, tree)? {
        match peer.obstacle(lab) {
            None => subjects.push(peer),
            Some(obstacle) => report.leave_out(&peer.name, obstacle),
        }
    }
    Ok(subjects)
}

fn peers(lab: &Lab, report: &mut Report, tree: &Path) -> Result<Vec<Subject>> {
    let mut peers = Vec::new();
    // Compressed, the default of mksquashfs; and stored, as our image.
    let stored = ["-noI", "-noD", "-noF", "-noX"];
    for (kind, options) in [("gzip", &[][..]), ("stored", &stored[..])] {
        let image = lab.path(&format!("tree-{kind}.squashfs"));
        let mut make = Command::new("mksquashfs");
        make.arg(tree)
            .arg(&image)
            .args(["-quiet", "-no-progress"])
            .args(options);
        if made(report, &format!("squashfs {kind}"), "mksquashfs", &mut make)? {
            let fuse = Form::Squashfuse(image.clone());
            peers.push(Subject::new(format!("squashfuse {kind}"), fuse));
            let kernel = Form::Kernel("squashfs", image);
            peers.push(Subject::new(format!("kernel squashfs {kind}"), kernel));
        }
    }
    let image = lab.path("tree.erofs");
    let mut make = Command::new("mkfs.erofs");
    make.arg("--quiet").arg(&image).arg(tree);
    if made(report, "erofs", "mkfs.erofs", &mut make)? {
        peers.push(Subject::new("kernel erofs", Form::Kernel("erofs", image)));
    }
    Ok(peers)
}

/// Makes a peer's image, if its program is installed.
fn made(report: &mut Report, name: &str, program: &str, make: &mut Command) -> Result<bool> {
    let installed = has(program);
    if installed {
        command::stdout(make)?;
    } else {
        report.leave_out(name, &format!("{program} is not installed"));
    }
    Ok(installed)
}
