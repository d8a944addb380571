//! EROFS images made by us and by `mkfs.erofs`, with the same algorithm, level and cluster size.

use std::{path::Path, process::Command};

use crate::lab::{Format, Lab};

/// How an image is compressed, if at all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compression {
    /// For output.
    pub(super) name: &'static str,
    /// Options of `verimount build`.
    ours: &'static [&'static str],
    /// Options of `mkfs.erofs`.
    theirs: &'static [&'static str],
}

impl Compression {
    /// None.
    pub(super) const STORED: Self = Self {
        name: "stored",
        ours: &[],
        theirs: &[],
    };

    const ALL: [Self; 3] = [
        Self {
            name: "lz4 16K",
            ours: &["--compress", "lz4", "--cluster", "16K"],
            theirs: &["-zlz4", "-C16384"],
        },
        Self {
            name: "lz4,9 64K",
            ours: &["--compress", "lz4,9", "--cluster", "64K"],
            theirs: &["-zlz4hc,level=9", "-C65536"],
        },
        Self {
            name: "zstd,3 64K",
            ours: &["--compress", "zstd,3", "--cluster", "64K"],
            theirs: &["-zzstd,level=3", "-C65536"],
        },
    ];

    /// All that the measured programs know.
    pub(super) fn all(lab: &Lab) -> impl Iterator<Item = Self> {
        let known = !lab.has_older_program();
        Self::ALL.into_iter().filter(move |_| known)
    }

    /// A command that builds and seals an image of ours.
    pub(super) fn build(self, lab: &Lab, tree: &Path, image: &Path) -> Command {
        let mut build = lab.build(Format::Erofs, tree, image);
        build.args(self.ours);
        build
    }

    /// A command that makes an image with this `mkfs.erofs`.
    pub(super) fn mkfs(self, program: &Path, tree: &Path, image: &Path) -> Command {
        let mut mkfs = Command::new(program);
        mkfs.arg("--quiet").args(self.theirs).arg(image).arg(tree);
        mkfs
    }

    /// The name of a variant of a measurement: `subject` with such an image.
    pub(super) fn variant(self, subject: &str) -> String {
        format!("{subject}, {}", self.name)
    }
}
