use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use clap::{
    Args, ValueHint,
    builder::{PathBufValueParser, TypedValueParser},
};
use verimount::{ImageDevice, Location, LocationError};

/// The further devices of an image.
#[derive(Args)]
pub(crate) struct DeviceArgs {
    /// A file with data of the image, as mkfs.erofs --blobdev makes it, sealed by itself: FILE, or FILE@DIGEST to accept
    /// only this digest, which --digest and --root-hash require. To be given for each device, in the image's order
    #[arg(long, value_name = "FILE[@DIGEST]", value_parser = device(), value_hint = ValueHint::AnyPath)]
    pub(crate) device: Vec<ImageDevice>,
}

/// A path or URL, which may have an at sign and a digest behind it.
fn device() -> impl TypedValueParser<Value = ImageDevice> {
    PathBufValueParser::new().try_map(|argument| {
        let whole = Location::try_from(argument.as_os_str())?;
        let bytes = argument.as_os_str().as_bytes();
        let at = bytes.iter().rposition(|byte| *byte == b'@');
        let digest = at.and_then(|at| str::from_utf8(&bytes[at + 1..]).ok()?.parse().ok());
        Ok::<_, LocationError>(match (at, digest) {
            // In a registry, it is a digest of another kind.
            (Some(at), Some(digest)) if !whole.names_content() => ImageDevice {
                location: Location::try_from(OsStr::from_bytes(&bytes[..at]))?,
                digest: Some(digest),
            },
            _ => ImageDevice {
                location: whole,
                digest: None,
            },
        })
    })
}
