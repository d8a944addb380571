use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};
use verimount::{
    Description, FileKind, FoundFormat, FoundSeal, ImageDescription, ModelClaim,
    options::{SealError, Sealed, dm_verity::HashArea},
};
use verimount_host::{printable, volume::Superblock};

use crate::volume::{print_superblock, superblock_json};

/// The unverified information in a file.
pub(super) struct Report {
    /// As [`printable`] shows it, as not every path is text.
    file: String,
    /// The size of the file in bytes.
    size: u64,
    /// `image`, `file` or `volume`, as in a status.
    kind: &'static str,
    image: Option<ImageDescription>,
    model: Option<ModelClaim>,
    seal: Option<Seal>,
    volume: Option<Superblock>,
}

/// How data is sealed.
#[derive(Serialize)]
pub(super) struct Seal {
    /// `fs-verity` or `dm-verity`.
    format: &'static str,
    /// `appended` or `beside`.
    place: &'static str,
    /// The path of the sidecar.
    sidecar: Option<String>,
    /// The digest for `--digest`.
    digest: Option<String>,
    /// The root hash for `--root-hash`.
    root_hash: Option<String>,
    /// The id of the key in its signature, which is not verified.
    signer: Option<String>,
    hash: &'static str,
    data_block_size: usize,
    tree_block_size: usize,
    /// The salt in hexadecimal.
    salt: String,
    data_size: u64,
    tree_size: u64,
}

impl Seal {
    /// `None` for a format that this program does not know.
    fn new(found: &FoundSeal) -> Result<Option<Self>, SealError> {
        let sidecar = found.sidecar.as_ref().map(ToString::to_string);
        match &found.format {
            FoundFormat::FsVerity(sealed) => Self::of_fs_verity(sealed, sidecar).map(Some),
            FoundFormat::DmVerity(area) => Self::of_dm_verity(area, sidecar).map(Some),
            _ => Ok(None),
        }
    }

    fn of_fs_verity(sealed: &Sealed, sidecar: Option<String>) -> Result<Self, SealError> {
        let descriptor = sealed.descriptor();
        let (params, geometry) = (descriptor.params(), descriptor.geometry());
        let signature = sealed.signature()?;
        let signer = signature.map(|signature| match signature.key_id() {
            Some(id) => id.to_string(),
            None => "unknown".to_owned(),
        });
        Ok(Self {
            format: "fs-verity",
            place: place(&sidecar),
            sidecar,
            digest: Some(descriptor.file_digest().to_string()),
            root_hash: None,
            signer,
            hash: params.algorithm.name(),
            data_block_size: params.block_size.bytes(),
            tree_block_size: params.block_size.bytes(),
            salt: hex(params.salt.as_bytes()),
            data_size: geometry.data_size(),
            tree_size: geometry.tree_size(),
        })
    }

    fn of_dm_verity(area: &HashArea, sidecar: Option<String>) -> Result<Self, SealError> {
        let (params, geometry) = (area.params(), area.geometry());
        Ok(Self {
            format: "dm-verity",
            place: place(&sidecar),
            sidecar,
            digest: None,
            root_hash: area.root_hash_unverified()?.map(|root| root.to_string()),
            signer: None,
            hash: params.algorithm.name(),
            data_block_size: params.data_block_size.bytes(),
            tree_block_size: params.hash_block_size.bytes(),
            salt: hex(params.salt.as_bytes()),
            data_size: geometry.data_size(),
            tree_size: geometry.tree_size(),
        })
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        match &self.sidecar {
            Some(sidecar) => writeln!(out, "seal           {}, in {sidecar}", self.format)?,
            None => writeln!(out, "seal           {}, at the file's end", self.format)?,
        }
        if let Some(digest) = &self.digest {
            writeln!(out, "digest         {digest}")?;
        }
        if let Some(root_hash) = &self.root_hash {
            writeln!(out, "root hash      {root_hash}")?;
        }
        let signer = self.signer.as_deref().unwrap_or("nobody");
        writeln!(out, "signed by      {signer}")?;
        writeln!(out, "hash           {}", self.hash)?;
        writeln!(
            out,
            "blocks         {} bytes of data, {} of tree",
            self.data_block_size, self.tree_block_size
        )?;
        let salt = match self.salt.as_str() {
            "" => "none",
            salt => salt,
        };
        writeln!(out, "salt           {salt}")?;
        writeln!(out, "data           {} bytes", self.data_size)?;
        writeln!(out, "tree           {} bytes", self.tree_size)
    }
}

impl Report {
    pub(super) fn new(file: String, found: Description) -> Result<Self, SealError> {
        let seal = found.seal.as_ref().map(Seal::new).transpose()?.flatten();
        let (kind, image) = match found.kind {
            FileKind::Image(image) => ("image", Some(image)),
            _ => ("file", None),
        };
        Ok(Self {
            file,
            size: found.size,
            kind,
            image,
            model: found.model,
            seal,
            volume: None,
        })
    }

    /// Of a volume.
    pub(super) fn of_volume(file: String, superblock: Superblock, size: u64) -> Self {
        Self {
            file,
            size,
            kind: "volume",
            image: None,
            model: None,
            seal: None,
            volume: Some(superblock),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let (image, model, seal) = (&self.image, &self.model, self.seal.as_ref());
        let volume = self.volume.as_ref();
        json!({
            "file": self.file,
            "size": self.size,
            "kind": self.kind,
            // To make clear that nothing was verified.
            "verified": false,
            // Those of the seal, where other reports have them.
            "digest": seal.and_then(|seal| seal.digest.as_ref()),
            "root_hash": seal.and_then(|seal| seal.root_hash.as_ref()),
            "image": image.as_ref().map(|image| json!({
                "format": image.format,
                // Without padding and index, in bytes.
                "size": image.size,
                "volume_name": String::from_utf8_lossy(&image.volume_name),
                // How many there are besides this file.
                "devices": image.devices,
            })),
            // What the model signature in the image says of itself.
            "model": model.as_ref().map(|claim| json!({
                "name": claim.model,
                "files": claim.files,
                // The SHA-256 of the public key's PEM.
                "key": claim.key,
                "certified": claim.is_certified,
            })),
            "seal": seal,
            "volume": volume.map(|superblock| superblock_json(&self.file, superblock)),
        })
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "file           {}, {} bytes", self.file, self.size)?;
        match &self.image {
            Some(image) => {
                let (format, size) = (image.format, image.size);
                write!(out, "kind           image: {format} of {size} bytes")?;
                if !image.volume_name.is_empty() {
                    let name = String::from_utf8_lossy(&image.volume_name);
                    write!(out, ", named {}", printable(&*name))?;
                }
                writeln!(out)?;
                if image.devices > 0 {
                    writeln!(out, "devices        {} besides this file", image.devices)?;
                }
            }
            None => writeln!(out, "kind           {}", self.kind)?,
        }
        if let Some(model) = &self.model {
            print_model(out, model)?;
        }
        match (&self.seal, &self.volume) {
            (Some(seal), _) => seal.print(out)?,
            (None, Some(volume)) => print_superblock(out, volume)?,
            (None, None) => writeln!(out, "seal           none")?,
        }
        writeln!(
            out,
            "verified       nothing: this is what the file says of itself"
        )
    }
}

fn print_model(out: &mut impl Write, claim: &ModelClaim) -> io::Result<()> {
    let (name, files) = (printable(&claim.model), claim.files);
    writeln!(out, "model          {name}, {files} files")?;
    match &claim.key {
        Some(key) => writeln!(out, "model key      {}", printable(key)),
        None if claim.is_certified => writeln!(out, "model key      that of a certificate"),
        None => writeln!(out, "model key      unknown"),
    }
}

fn place(sidecar: &Option<String>) -> &'static str {
    match sidecar {
        Some(_) => "beside",
        None => "appended",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
