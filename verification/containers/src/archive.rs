//! A container image in an archive, and images of its layers.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{caller::Caller, output};

/// A container image.
pub(crate) struct Archive {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    /// Sealed images of its layers, the lowermost first.
    pub(crate) layers: Vec<PathBuf>,
    /// A sealed image of the tree that all layers make together.
    pub(crate) flat: PathBuf,
    /// A sealed image without files.
    pub(crate) empty: PathBuf,
}

impl Archive {
    /// Makes image `number` as `builder`, and images of its layers with `program`.
    pub(crate) fn make(
        folder: &Path,
        program: &Path,
        builder: &Caller,
        number: u32,
    ) -> Result<Self> {
        let name = format!("image {number}");
        let file = folder.join(format!("{number}.tar"));
        builder.run(
            "images.sh",
            &[number.to_string().as_ref(), file.as_os_str()],
        )?;
        let unpacked = folder.join(format!("{number}.oci"));
        fs::create_dir(&unpacked)?;
        let mut tar = Command::new("tar");
        output(tar.arg("-xf").arg(&file).arg("-C").arg(&unpacked))?;
        let build = |source: &Path, image: PathBuf| -> Result<PathBuf> {
            output(Command::new(program).arg("build").arg(source).arg(&image))?;
            Ok(image)
        };
        let layers = layers(&unpacked)?;
        ensure!(layers.len() >= 3, "{name} has {} layers", layers.len());
        let layers = layers
            .iter()
            .enumerate()
            .map(|(index, layer)| build(layer, folder.join(format!("{number}.{index}.img"))));
        let nothing = folder.join(format!("{number}.nothing"));
        fs::create_dir(&nothing)?;
        Ok(Self {
            layers: layers.collect::<Result<_>>()?,
            flat: build(&file, folder.join(format!("{number}.img")))?,
            empty: build(&nothing, folder.join(format!("{number}.empty.img")))?,
            name,
            file,
        })
    }
}

impl Archive {
    /// Whether two of its layers are the same.
    pub(crate) fn has_equal_layers(&self) -> Result<bool> {
        let layers = self.layers.iter().map(fs::read);
        let layers = layers.collect::<Result<BTreeSet<_>, _>>()?;
        Ok(layers.len() < self.layers.len())
    }
}

/// The archives of the layers in an unpacked OCI layout of one image, the lowermost first.
fn layers(layout: &Path) -> Result<Vec<PathBuf>> {
    let read = |path: PathBuf| -> Result<Value> { Ok(serde_json::from_slice(&fs::read(path)?)?) };
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().context("no digest")?;
        Ok(layout.join("blobs").join(digest.replace(':', "/")))
    };
    let index = read(layout.join("index.json"))?;
    let manifest = read(blob(&index["manifests"][0])?)?;
    let layers = manifest["layers"].as_array().context("no layers")?;
    layers.iter().map(blob).collect()
}
