//! An image of many archives, as layers of a container image in a store of layers, so that it is mounted once for all.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};
use sha2::{Digest, Sha256};
use verimount_support::mount_point::MountPoint;
use verimount_testkit::TarArchive;

use super::quietly;

/// The image, as everybody shows it.
pub(super) struct Store {
    ours: MountPoint,
    kernels: Option<MountPoint>,
    extracted: PathBuf,
}

impl Store {
    /// The image of these layers, built in `folder`, mounted and extracted.
    pub(super) fn new<'l>(
        folder: &Path,
        verimount: &Path,
        layers: impl Iterator<Item = &'l [u8]>,
    ) -> Result<Self> {
        let [archive, image] = ["image.tar", "store.img"].map(|name| folder.join(name));
        fs::write(&archive, container_image(layers))?;
        let run = |arguments: &[&str], paths: [&Path; 2]| {
            quietly(Command::new(verimount).args(arguments).args(paths))
        };
        let build = ["build", "--layer-store", "--no-seal"];
        run(&build, [&archive, &image])?;
        let extracted = folder.join("extracted");
        if extracted.exists() {
            fs::remove_dir_all(&extracted)?;
        }
        run(
            &["extract", "--unverified", "--strict"],
            [&image, &extracted],
        )?;
        let ours = MountPoint::new(folder.join("ours"))?;
        run(&["mount", "--unverified"], [&image, ours.path()])?;
        Ok(Self {
            ours,
            kernels: mount(&image, folder.join("kernels"))?,
            extracted,
        })
    }

    /// Who shows it, and where.
    pub(super) fn roots(&self) -> Vec<(&'static str, &Path)> {
        let mut roots = vec![
            ("Verimount's mount", self.ours.path()),
            ("what Verimount extracts", &self.extracted),
        ];
        roots.extend(
            self.kernels
                .iter()
                .map(|kernels| ("the kernel's mount", kernels.path())),
        );
        roots
    }

    pub(super) fn is_in_kernel(&self) -> bool {
        self.kernels.is_some()
    }
}

/// Where a layer is in a store.
pub(super) fn layer_path(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}/diff")
}

/// The archive of a container image with these layers.
fn container_image<'l>(layers: impl Iterator<Item = &'l [u8]>) -> Vec<u8> {
    let mut archive = TarArchive::default();
    let mut names = Vec::new();
    for (number, layer) in layers.enumerate() {
        let name = format!("{number}.tar");
        archive = archive.member(b'0', name.as_bytes(), b"", layer);
        names.push(format!("{name:?}"));
    }
    let names = names.join(",");
    let manifest = format!(r#"[{{"Config":"config.json","Layers":[{names}]}}]"#);
    archive
        .member(b'0', b"manifest.json", b"", manifest.as_bytes())
        .finish()
}

/// The kernel's mount of an image; `None`, after a note, if it does not know EROFS.
fn mount(image: &Path, directory: PathBuf) -> Result<Option<MountPoint>> {
    let point = MountPoint::new(directory)?;
    let mut mount = Command::new("mount");
    mount.args(["-t", "erofs", "-o", "ro"]);
    let status = mount.arg(image).arg(point.path()).status()?;
    if status.success() {
        return Ok(Some(point));
    }
    let known = fs::read_to_string("/proc/filesystems")?;
    ensure!(!known.contains("erofs"), "the kernel refuses the image");
    println!("SKIPPED: this kernel does not have EROFS");
    Ok(None)
}
