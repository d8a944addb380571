//! The unverified information in a file.

use std::io::{self, Write};

use serde_json::{Value, json};
use verimount::{
    Description, FileKind, FoundFormat, FoundSeal,
    options::{SealError, dm_verity::Params},
};
use verimount_host::{printable, volume::Superblock};

use crate::{
    template,
    volume::{SUPERBLOCK, superblock_json},
};

/// The [template](template::print) of what comes before the superblock of a volume.
const TEXT: &str = "\
|file           {file}, {size} bytes
image|kind           image: {format} of {size} bytes[, named {volume_name}]
|{!image}kind           {kind}
image|devices        {devices} besides this file
model|model          {name}, {files} files
model|model key      {key}
model|{!key}{certified}model key      that of a certificate
model|{!key}{!certified}model key      unknown
seal|seal           {format}, in {sidecar}
seal|{!sidecar}seal           {format}, at the file's end
seal|digest         {digest}
seal|root hash      {root_hash}
seal|signed by      {signer}
seal|{!signer}signed by      nobody
seal|hash           {hash}
seal|blocks         {data_block_size} bytes of data, {tree_block_size} of tree
seal|salt           {salt}
seal|{!salt}salt           none
seal|data           {data_size} bytes
seal|tree           {tree_size} bytes
|{!seal}{!volume}seal           none
";

/// What comes last.
const LAST: &str = "|verified       nothing: this is what the file says of itself";

/// What a sealed file or an image says of itself. Its name is as [`printable`] shows it, as not every path is text.
pub(super) fn of_file(file: &str, found: &Description) -> Result<Value, SealError> {
    let image = match &found.kind {
        FileKind::Image(image) => Some(json!({
            "format": image.format,
            // Without padding and index, in bytes.
            "size": image.size,
            "volume_name": String::from_utf8_lossy(&image.volume_name),
            // How many there are besides this file.
            "devices": image.devices,
        })),
        _ => None,
    };
    // What the model signature in the image says of itself.
    let model = found.model.as_ref().map(|claim| {
        json!({
            "name": claim.model,
            "files": claim.files,
            // The SHA-256 of the public key's PEM.
            "key": claim.key,
            "certified": claim.is_certified,
        })
    });
    let seal = found.seal.as_ref().map(seal).transpose()?.flatten();
    let kind = if image.is_some() { "image" } else { "file" };
    let parts = json!({"image": image, "model": model, "seal": seal});
    Ok(report(file, found.size, kind, &parts))
}

/// What a volume says of itself.
pub(super) fn of_volume(file: &str, superblock: &Superblock, size: u64) -> Value {
    let parts = json!({"volume": superblock_json(file, superblock)});
    report(file, size, "volume", &parts)
}

/// A report of a file of this size in bytes and this kind, as in a status, with what it has of some parts.
fn report(file: &str, size: u64, kind: &str, parts: &Value) -> Value {
    json!({
        "file": file,
        "size": size,
        "kind": kind,
        // To make clear that nothing was verified.
        "verified": false,
        // Those of the seal, where other reports have them.
        "digest": parts["seal"]["digest"],
        "root_hash": parts["seal"]["root_hash"],
        "image": parts["image"],
        "model": parts["model"],
        "seal": parts["seal"],
        "volume": parts["volume"],
    })
}

/// How data is sealed; `None` in a format that this program does not know.
fn seal(found: &FoundSeal) -> Result<Option<Value>, SealError> {
    let (format, params, geometry, own) = match &found.format {
        FoundFormat::FsVerity(sealed) => {
            let (descriptor, signature) = (sealed.descriptor(), sealed.signature()?);
            let digest = descriptor.file_digest().to_string();
            let signer = signature.map(|signature| match signature.key_id() {
                Some(id) => id.to_string(),
                None => "unknown".to_owned(),
            });
            let params = Params::from(descriptor.params().clone());
            let own = json!({"digest": digest, "signer": signer});
            ("fs-verity", params, descriptor.geometry(), own)
        }
        FoundFormat::DmVerity(area) => {
            let root_hash = area.root_hash_unverified()?.map(|root| root.to_string());
            let own = json!({"root_hash": root_hash});
            ("dm-verity", area.params().clone(), area.geometry(), own)
        }
        _ => return Ok(None),
    };
    let sidecar = found.sidecar.as_ref().map(ToString::to_string);
    Ok(Some(json!({
        "format": format,
        "place": if sidecar.is_some() { "beside" } else { "appended" },
        "sidecar": sidecar,
        // The one for --digest.
        "digest": own["digest"],
        // The one for --root-hash.
        "root_hash": own["root_hash"],
        // The id of the key in its signature, which is not verified.
        "signer": own["signer"],
        "hash": params.algorithm.name(),
        "data_block_size": params.data_block_size.bytes(),
        "tree_block_size": params.hash_block_size.bytes(),
        "salt": hex(params.salt.as_bytes()),
        "data_size": geometry.data_size(),
        "tree_size": geometry.tree_size(),
    })))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn print(out: &mut impl Write, report: &Value) -> io::Result<()> {
    let told = told(report);
    let mut parts = [TEXT, SUPERBLOCK, LAST].iter();
    parts.try_for_each(|part| template::print(out, part, &told))
}

/// What the text shows of a report: names are escaped as those of files, and what is nothing is left out.
fn told(report: &Value) -> Value {
    let mut told = report.clone();
    for name in ["/image/volume_name", "/model/name", "/model/key"] {
        if let Some(Value::String(name)) = told.pointer_mut(name) {
            *name = printable(name).to_string();
        }
    }
    for field in ["/image/volume_name", "/image/devices", "/seal/salt"] {
        if let Some(field) = told.pointer_mut(field)
            && (*field == "" || *field == 0)
        {
            *field = Value::Null;
        }
    }
    told
}
