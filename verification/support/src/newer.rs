//! Programs of newer Debian releases than this machine's, unpacked below the target folder and not installed.
//!
//! Their C library is newer, too. So they run with the loader and the libraries that are unpacked beside them.

mod packages;

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use self::packages::Packages;

/// The version of erofs-utils in trixie.
pub const EROFS_UTILS_1_8_6: Newer = Newer {
    programs: Packages {
        name: "erofs-utils-1.8.6",
        list: include_str!("newer/erofs-utils-1.8.6.sha256"),
    },
};

/// The version of erofs-utils in sid.
pub const EROFS_UTILS_1_9_4: Newer = Newer {
    programs: Packages {
        name: "erofs-utils-1.9.4",
        list: include_str!("newer/erofs-utils-1.9.4.sha256"),
    },
};

/// All of them.
pub const ALL: [Newer; 2] = [EROFS_UTILS_1_8_6, EROFS_UTILS_1_9_4];

/// What all programs need.
const LIBRARIES: Packages = Packages {
    name: "libraries",
    list: include_str!("newer/libraries.sha256"),
};

/// Where programs are in their packages.
const PROGRAMS: [&str; 2] = ["usr/bin", "usr/sbin"];

/// Packages with programs.
#[derive(Debug, Clone, Copy)]
pub struct Newer {
    programs: Packages,
}

impl Newer {
    /// The name and version.
    pub fn name(&self) -> &'static str {
        self.programs.name
    }

    /// The folder with a script for each program, below Cargo's target folder. The packages are fetched the
    /// first time.
    ///
    /// # Errors
    /// A package cannot be fetched or unpacked, or it is not the expected one.
    pub fn installed(&self, target: &Path) -> Result<PathBuf> {
        let folder = target.join("tools/debian");
        LIBRARIES.unpacked(&folder)?;
        let unpacked = self.programs.unpacked(&folder)?;
        let scripts = unpacked.join("bin");
        write_scripts(&unpacked, &scripts)
            .with_context(|| format!("writing {}", scripts.display()))?;
        Ok(scripts)
    }
}

fn write_scripts(unpacked: &Path, scripts: &Path) -> io::Result<()> {
    fs::create_dir_all(scripts)?;
    for place in PROGRAMS {
        let folder = unpacked.join(place);
        if !folder.is_dir() {
            continue;
        }
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            let script = scripts.join(&name);
            if !script.exists() {
                let new = scripts.join(format!(".{}", std::process::id()));
                fs::write(&new, script_for(&format!("{place}/{}", name.display())))?;
                fs::set_permissions(&new, Permissions::from_mode(0o755))?;
                fs::rename(new, script)?;
            }
        }
    }
    Ok(())
}

/// Runs a program with the libraries unpacked beside its packages.
fn script_for(program: &str) -> String {
    let libraries = LIBRARIES.name;
    format!(
        "#!/bin/sh\n\
         here=${{0%/*}}/..\n\
         libraries=$here/../{libraries}/usr\n\
         exec \"$libraries/lib64/ld-linux-x86-64.so.2\" \\\n    \
         --library-path \"$libraries/lib/x86_64-linux-gnu\" \"$here/{program}\" \"$@\"\n"
    )
}
