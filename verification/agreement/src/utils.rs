use std::{
    path::{Path, PathBuf},
    process::Command,
};

use verimount_support::newer::{EROFS_UTILS_1_8_6, EROFS_UTILS_1_9_4};

/// A version of erofs-utils.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    /// Debian 12's. It compresses by LZ4 only.
    V1_5,
    /// Debian 13's.
    V1_8_6,
    /// That of Debian's unstable release.
    V1_9_4,
}

/// The programs of a version.
#[derive(Debug)]
pub(crate) struct Utils {
    version: Version,
    /// The folder with the programs; `None` for those of the machine.
    folder: Option<PathBuf>,
}

impl Utils {
    /// All versions that can be had, the newest last.
    pub(crate) fn all(target: &Path) -> Vec<Self> {
        let mut all = vec![Self {
            version: Version::V1_5,
            folder: None,
        }];
        for (version, packages) in [
            (Version::V1_8_6, EROFS_UTILS_1_8_6),
            (Version::V1_9_4, EROFS_UTILS_1_9_4),
        ] {
            match packages.installed(target) {
                Ok(folder) => all.push(Self {
                    version,
                    folder: Some(folder),
                }),
                Err(error) => println!("SKIPPED: {}: {error:#}", packages.name()),
            }
        }
        all
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// One of its programs.
    pub(crate) fn program(&self, name: &str) -> Command {
        match &self.folder {
            Some(folder) => Command::new(folder.join(name)),
            None => Command::new(name),
        }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V1_5 => "1.5",
            Self::V1_8_6 => "1.8.6",
            Self::V1_9_4 => "1.9.4",
        })
    }
}
