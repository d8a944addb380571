//! The same tree of files: plain, as our image, and as images of other file systems.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use verimount_support::command;

use crate::{
    lab::{Format, Lab, User, file_system, has},
    mounts::{self, Mount, Sealed},
    report::Report,
};

/// The kernel's mount of our own EROFS image.
pub(super) const KERNEL_OURS: &str = "kernel erofs, the same image";

/// The tree in one form.
pub(super) struct Subject {
    pub(super) name: String,
    form: Form,
}

enum Form {
    Plain,
    Ours(Sealed),
    Fuse(&'static str, PathBuf),
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
            Form::Fuse(program, image) => mounts::fuse(lab, program, image).map(Some),
            Form::Kernel(file_system, image) => mounts::kernel(lab, file_system, image).map(Some),
        }
    }

    /// The reason why it cannot be measured here, if any.
    fn obstacle(&self, lab: &Lab) -> Option<&'static str> {
        match self.form {
            Form::Fuse(program, _) if !has(program) => Some("not installed"),
            Form::Kernel(..) if self.mount(lab).is_err() => Some("this kernel does not mount it"),
            _ => None,
        }
    }
}

/// The plain tree, then our images, then those of the peers that work here.
pub(super) fn subjects(lab: &Lab, report: &mut Report, tree: &Path) -> Result<Vec<Subject>> {
    let native = format!("native {}", file_system(tree)?);
    let mut subjects = vec![Subject::new(native, Form::Plain)];
    let mut peers = Vec::new();
    for format in lab.formats()? {
        let image = lab.image(format, tree, lab.path(&format!("ours.{}", format.name())))?;
        if format == Format::Erofs {
            let kernel = Form::Kernel("erofs", image.source.clone());
            peers.push(Subject::new(KERNEL_OURS, kernel));
        }
        subjects.push(Subject::new(format.ours(), Form::Ours(image)));
    }
    peers.extend(others(lab, report, tree)?);
    for peer in peers {
        match peer.obstacle(lab) {
            None => subjects.push(peer),
            Some(obstacle) => report.leave_out(&peer.name, obstacle),
        }
    }
    Ok(subjects)
}

/// Images of other programs.
fn others(lab: &Lab, report: &mut Report, tree: &Path) -> Result<Vec<Subject>> {
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
            let fuse = Form::Fuse("squashfuse", image.clone());
            peers.push(Subject::new(format!("squashfuse {kind}"), fuse));
            let kernel = Form::Kernel("squashfs", image);
            peers.push(Subject::new(format!("kernel squashfs {kind}"), kernel));
        }
    }
    let image = lab.path("tree.erofs");
    let mut make = Command::new("mkfs.erofs");
    make.arg("--quiet").arg(&image).arg(tree);
    if made(report, "erofs", "mkfs.erofs", &mut make)? {
        let fuse = Form::Fuse("erofsfuse", image.clone());
        peers.push(Subject::new("erofsfuse", fuse));
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
