use std::{
    fmt::Write as _,
    io::{self, Write},
};

use serde::Serialize;
use verimount::{
    Description, FileKind, FoundFormat, FoundSeal, ImageDescription, ModelClaim,
    options::{SealError, Sealed, dm_verity::HashArea},
};
use verimount_host::{printable, volume::Superblock};

use crate::volume::VolumeInfo;

/// The unverified information in a file.
#[derive(Serialize)]
pub(super) struct Report {
    /// As [`printable`] shows it, as not every path is text.
    file: String,
    /// The size of the file in bytes.
    size: u64,
    /// `image`, `file` or `volume`, as in a status.
    kind: &'static str,
    /// Always false, to make clear that nothing was verified.
    verified: bool,
    /// Those of the seal, where other reports have them.
    digest: Option<String>,
    root_hash: Option<String>,
    image: Option<ImageInfo>,
    model: Option<ModelInfo>,
    seal: Option<Seal>,
    volume: Option<VolumeInfo>,
}

/// The unverified information in an image.
#[derive(Serialize)]
pub(super) struct ImageInfo {
    format: &'static str,
    /// The size without padding and index, in bytes.
    size: u64,
    volume_name: String,
    /// How many further devices it has.
    devices: u16,
}

/// What the model signature in an image says of itself.
#[derive(Serialize)]
struct ModelInfo {
    /// What the signer called the model.
    name: String,
    /// How many files are signed.
    files: usize,
    /// The SHA-256 of the public key's PEM.
    key: Option<String>,
    /// Whether there is a certificate of the key.
    certified: bool,
}

impl ModelInfo {
    fn new(claim: &ModelClaim) -> Self {
        Self {
            name: claim.model.clone(),
            files: claim.files,
            key: claim.key.clone(),
            certified: claim.is_certified,
        }
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let (name, files) = (printable(&self.name), self.files);
        writeln!(out, "model          {name}, {files} files")?;
        match &self.key {
            Some(key) => writeln!(out, "model key      {}", printable(key)),
            None if self.certified => writeln!(out, "model key      that of a certificate"),
            None => writeln!(out, "model key      unknown"),
        }
    }
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

impl ImageInfo {
    fn new(image: &ImageDescription) -> Self {
        Self {
            format: image.format,
            size: image.size,
            volume_name: String::from_utf8_lossy(&image.volume_name).into_owned(),
            devices: image.devices,
        }
    }
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
    pub(super) fn new(file: String, found: &Description) -> Result<Self, SealError> {
        let (kind, image) = match &found.kind {
            FileKind::Image(image) => ("image", Some(ImageInfo::new(image))),
            _ => ("file", None),
        };
        let seal = found.seal.as_ref().map(Seal::new).transpose()?.flatten();
        let of_seal = |field: fn(&Seal) -> &Option<String>| {
            seal.as_ref().and_then(|seal| field(seal).clone())
        };
        Ok(Self {
            file,
            size: found.size,
            kind,
            verified: false,
            digest: of_seal(|seal| &seal.digest),
            root_hash: of_seal(|seal| &seal.root_hash),
            image,
            model: found.model.as_ref().map(ModelInfo::new),
            seal,
            volume: None,
        })
    }

    /// Of a volume.
    pub(super) fn of_volume(file: String, superblock: &Superblock, size: u64) -> Self {
        Self {
            size,
            kind: "volume",
            verified: false,
            digest: None,
            root_hash: None,
            image: None,
            model: None,
            seal: None,
            volume: Some(VolumeInfo::new(file.clone(), superblock)),
            file,
        }
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "file           {}, {} bytes", self.file, self.size)?;
        match &self.image {
            Some(image) => {
                let (format, size) = (image.format, image.size);
                write!(out, "kind           image: {format} of {size} bytes")?;
                if !image.volume_name.is_empty() {
                    write!(out, ", named {}", printable(&image.volume_name))?;
                }
                writeln!(out)?;
                if image.devices > 0 {
                    writeln!(out, "devices        {} besides this file", image.devices)?;
                }
            }
            None => writeln!(out, "kind           {}", self.kind)?,
        }
        if let Some(model) = &self.model {
            model.print(out)?;
        }
        match (&self.seal, &self.volume) {
            (Some(seal), _) => seal.print(out)?,
            (None, Some(volume)) => volume.print(out)?,
            (None, None) => writeln!(out, "seal           none")?,
        }
        writeln!(
            out,
            "verified       nothing: this is what the file says of itself"
        )
    }
}

fn place(sidecar: &Option<String>) -> &'static str {
    match sidecar {
        Some(_) => "beside",
        None => "appended",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
