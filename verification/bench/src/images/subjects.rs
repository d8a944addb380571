//! One tree of files: plain, as our image, and as images of other file systems.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use verimount_support::command;
use verimount_testenv::tools;

use super::compression::Compression;
use crate::{
    lab::{Format, Lab, User, file_system, has},
    mounts::{self, Mount, Sealed},
    report::Report,
};

/// Our mount of a compressed image.
pub(super) const OURS: &str = "verimount";
/// The program in the newest erofs-utils that mounts images.
pub(super) const EROFSFUSE: &str = "erofsfuse";
/// The kernel's mount of an EROFS image.
pub(super) const KERNEL: &str = "kernel erofs";
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
    Fuse(PathBuf, PathBuf),
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
    let erofsfuse = lab.erofs_utils(EROFSFUSE);
    for format in lab.formats()? {
        let image = lab.image(format, tree, lab.path(&format!("ours.{}", format.name())))?;
        if format == Format::Erofs {
            let kernel = Form::Kernel("erofs", image.source.clone());
            peers.push(Subject::new(KERNEL_OURS, kernel));
        }
        subjects.push(Subject::new(format.ours(), Form::Ours(image)));
    }
    for compression in Compression::all(lab) {
        let image = lab.path(&format!("ours.{}", compression.name));
        let image = Sealed::built(&mut compression.build(lab, tree, &image), image)?;
        let new = |subject, form| Subject::new(compression.variant(subject), form);
        peers.push(new(KERNEL, Form::Kernel("erofs", image.source.clone())));
        if let Some(program) = &erofsfuse {
            peers.push(new(
                EROFSFUSE,
                Form::Fuse(program.clone(), image.source.clone()),
            ));
        }
        subjects.push(new(OURS, Form::Ours(image)));
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
            match tools::locate("squashfuse") {
                Some(program) => {
                    let fuse = Form::Fuse(program, image.clone());
                    peers.push(Subject::new(format!("squashfuse {kind}"), fuse));
                }
                None => report.leave_out("squashfuse", "not installed"),
            }
            let kernel = Form::Kernel("squashfs", image);
            peers.push(Subject::new(format!("kernel squashfs {kind}"), kernel));
        }
    }
    match (lab.erofs_utils("mkfs.erofs"), lab.erofs_utils(EROFSFUSE)) {
        (Some(mkfs), Some(erofsfuse)) => {
            let image = lab.path("tree.erofs");
            command::stdout(&mut Compression::STORED.mkfs(&mkfs, tree, &image))?;
            peers.push(Subject::new(
                EROFSFUSE,
                Form::Fuse(erofsfuse, image.clone()),
            ));
            peers.push(Subject::new(KERNEL, Form::Kernel("erofs", image)));
        }
        _ => report.leave_out("images of mkfs.erofs", "not installed"),
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
