//! What makes images, seals and digests.

use std::path::PathBuf;

use pyo3::{Bound, FromPyObject, PyAny, PyResult, Python, pyfunction};
use verimount::{
    BuildOptions, DigestOptions, ImageFormat, LossText, NewSeal, RefusedLosses, RomfsOptions,
    SealOptions, Timestamp, Watcher,
    options::{Compression, ErofsOptions, Exclude, Owner, ScanOptions, Times},
};

use crate::{
    arguments::GivenLocation,
    errors::invalid,
    interrupt::{AfterInterrupt, run},
};

/// The keyword arguments of `build`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct BuildArguments {
    format: String,
    compress: Option<String>,
    strict: bool,
    exclude: Vec<String>,
    mtime: Option<i64>,
    owner: Option<(u32, u32)>,
    replace: bool,
}

impl BuildArguments {
    fn options(&self) -> PyResult<BuildOptions> {
        let owner = self.owner.map(|(uid, gid)| Owner { uid, gid });
        let times = match self.mtime {
            Some(seconds) => {
                Times::All(Timestamp::new(seconds, 0).ok_or_else(|| invalid("mtime"))?)
            }
            None => Times::Kept,
        };
        let scan = ScanOptions {
            exclude: Exclude::new(&self.exclude).map_err(invalid)?,
            times,
            owner,
            ..ScanOptions::default()
        };
        Ok(BuildOptions {
            format: self.format()?,
            scan,
            replace: self.replace,
            ..BuildOptions::default()
        })
    }

    fn format(&self) -> PyResult<ImageFormat> {
        match (&*self.format, &self.compress) {
            ("erofs", compress) => {
                let codec = compress.as_deref().map(str::parse).transpose();
                let compression = codec.map_err(invalid)?.map(|codec| Compression {
                    codec,
                    cluster: Default::default(),
                });
                Ok(ImageFormat::Erofs(ErofsOptions {
                    compression,
                    ..ErofsOptions::default()
                }))
            }
            ("romfs", None) => {
                let refused = if self.strict {
                    RefusedLosses::All
                } else {
                    RefusedLosses::None
                };
                Ok(ImageFormat::Romfs(RomfsOptions {
                    refused_losses: refused,
                    ..RomfsOptions::default()
                }))
            }
            ("romfs", Some(_)) => Err(invalid("only erofs images are compressed")),
            _ => Err(invalid("the format is erofs or romfs")),
        }
    }
}

/// Builds an image; returns its digest, and what it does not store or have.
#[pyfunction]
pub(crate) fn build(
    py: Python<'_>,
    source: PathBuf,
    image: PathBuf,
    arguments: BuildArguments,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Option<String>, Vec<String>)> {
    let mut options = arguments.options()?;
    let format = arguments.format()?.name();
    let built = run(py, progress, AfterInterrupt::Wait, move |watch| {
        options.watcher = Watcher::new(move |progress| watch.watch(progress));
        verimount::build(source, image, &options)
    })?;
    let losses = built.losses.iter();
    let mut notes: Vec<_> = losses
        .map(|(loss, lost)| LossText { format, loss, lost }.to_string())
        .collect();
    let outward = &built.outward_links;
    if outward.count > 0 && built.layers.is_none() {
        let first = verimount_names::printable(&outward.first);
        let count = outward.count;
        notes.push(format!(
            "{count} links lead out of the tree, such as {first}"
        ));
    }
    Ok((built.digest.map(|digest| digest.to_string()), notes))
}

/// Seals a file; returns its digest, and whether another seal takes precedence.
#[pyfunction]
pub(crate) fn seal(
    py: Python<'_>,
    file: PathBuf,
    append: bool,
    replace: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, bool)> {
    let sealed: NewSeal = run(py, progress, AfterInterrupt::Wait, move |watch| {
        let options = SealOptions {
            append,
            replace,
            watcher: Watcher::new(move |progress| watch.watch(progress)),
            ..SealOptions::default()
        };
        verimount::seal(file, &options)
    })?;
    Ok((sealed.identity.to_string(), sealed.is_shadowed))
}

/// The digest that anything has.
#[pyfunction]
pub(crate) fn digest(
    py: Python<'_>,
    place: GivenLocation,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let digest = run(py, progress, AfterInterrupt::Leave, move |watch| {
        let options = DigestOptions {
            watcher: Watcher::new(move |progress| watch.watch(progress)),
            ..DigestOptions::default()
        };
        verimount::digest(place.location, &options)
    })?;
    Ok(digest.to_string())
}
