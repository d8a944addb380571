use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::{
    lab::{Format, Lab, User, ensure_same_tree},
    mounts::{self, Mount, Sealed},
};

/// Who reads an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    /// The kernel, over blocks that we verify.
    Native,
    /// The same once more: what differs is chance.
    Again,
    /// This program, for a FUSE mount.
    Served,
    /// This program, for a FUSE mount that keeps the file in memory.
    Resident,
    /// The kernel, over the file.
    KernelFile,
    /// The kernel, over a loop device.
    KernelLoop,
    /// None: the directory that the image is made of.
    Plain,
}

impl Engine {
    /// Those with which a native mount is compared. Nobody but our own mounts verifies anything.
    const ALL: [Self; 6] = [
        Self::Native,
        Self::Again,
        Self::Served,
        Self::KernelFile,
        Self::KernelLoop,
        Self::Plain,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Again => "native, again",
            Self::Served => "served",
            Self::Resident => "served, resident",
            Self::KernelFile => "kernel erofs, file",
            Self::KernelLoop => "kernel erofs, loop",
            Self::Plain => "the directory",
        }
    }
}

/// A directory, and an image of it.
pub(super) struct Subject {
    directory: PathBuf,
    image: Sealed,
    engines: Vec<Engine>,
}

/// A directory as an engine shows it.
pub(super) struct There {
    path: PathBuf,
    _mount: Option<Mount>,
}

impl There {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Subject {
    /// Makes an image of `directory`, with these options of `build`.
    pub(super) fn new(lab: &Lab, directory: PathBuf, name: &str, options: &[&str]) -> Result<Self> {
        let image = lab.path(name);
        let mut build = lab.build(Format::Erofs, &directory, &image);
        let subject = Self {
            image: Sealed::built(build.args(options), image)?,
            directory,
            engines: Engine::ALL.to_vec(),
        };
        ensure_same_tree(
            &subject.directory,
            subject.shown_by(lab, Engine::Native)?.path(),
        )?;
        Ok(subject)
    }

    /// Compares with a mount that keeps its files in memory, too.
    pub(super) fn with_resident(mut self) -> Self {
        self.engines.push(Engine::Resident);
        self
    }

    /// Those that are compared.
    pub(super) fn engines(&self) -> &[Engine] {
        &self.engines
    }

    /// In a new mount, unless it is the directory itself.
    pub(super) fn shown_by(&self, lab: &Lab, engine: Engine) -> Result<There> {
        let ours = |options: &[&str]| self.image.mount(lab, User::Caller, options).map(Some);
        let image = &self.image.source;
        let mount = match engine {
            Engine::Native | Engine::Again => ours(&["--allow-other", "--native"])?,
            Engine::Served => ours(&["--allow-other"])?,
            Engine::Resident => {
                let limit = self.bytes()?.to_string();
                ours(&["--resident", "all", "--resident-limit", &limit])?
            }
            Engine::KernelFile => Some(mounts::file_backed(lab, "erofs", image)?),
            Engine::KernelLoop => Some(mounts::kernel(lab, "erofs", image)?),
            Engine::Plain => None,
        };
        let path = mount.as_ref().map_or(&*self.directory, Mount::path);
        Ok(There {
            path: path.to_owned(),
            _mount: mount,
        })
    }

    /// The size of the image in bytes.
    pub(super) fn bytes(&self) -> Result<u64> {
        Ok(fs::metadata(&self.image.source)?.len())
    }
}
