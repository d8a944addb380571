//! What is at a location.

use std::ffi::OsString;

use pyo3::{Bound, PyAny, PyResult, Python, pyclass, pymethods};
use verimount::{Content as VerifiedContent, Identity, Report, VerifyOptions, Watcher};

use crate::{
    arguments::Opening,
    file::File,
    handle::Handle,
    image::Image,
    interrupt::{AfterInterrupt, ask, run},
};

/// What is at a location, image or not.
#[pyclass(frozen, module = "verimount._verimount")]
pub(crate) struct Content {
    content: Handle<VerifiedContent>,
    is_slow: bool,
}

/// What content is recognised by: the name of the kind of pin, and its text.
type Named = (&'static str, String);

/// What `verify` found: the identity, sizes, and of each bad range the bytes, the reason and the files in it; why some could
/// not be named, and what contradicts itself.
type Verified = (
    String,
    (u64, u64, u64),
    Vec<((u64, u64), String, Vec<OsString>)>,
    Option<String>,
    Option<String>,
);

#[pymethods]
impl Content {
    /// Opens what an `Opening` says.
    #[new]
    fn open(py: Python<'_>, opening: Opening) -> PyResult<Self> {
        let options = py.detach(|| opening.options())?;
        let is_slow = opening.is_slow();
        let location = opening.location.location;
        let content = ask(py, is_slow, move || {
            VerifiedContent::open(location, &options)
        })?;
        Ok(Self {
            content: Handle::new(content),
            is_slow,
        })
    }

    /// Its digest or root hash.
    #[getter]
    fn identity(&self) -> PyResult<Option<Named>> {
        Ok(self.content.get()?.identity().as_ref().map(named))
    }

    /// Those of its devices.
    #[getter]
    fn devices(&self) -> PyResult<Vec<Option<Named>>> {
        let devices = self.content.get()?.devices().iter();
        Ok(devices
            .map(|device| device.identity().as_ref().map(named))
            .collect())
    }

    /// All of it, as one file.
    fn file(&self) -> PyResult<File> {
        Ok(File::new(self.content.get()?.file(), self.is_slow))
    }

    /// The image that it is.
    fn image(&self, py: Python<'_>) -> PyResult<Image> {
        let content = self.content.get()?.clone();
        let image = ask(py, self.is_slow, move || content.image())?;
        Ok(Image::new(image, self.is_slow))
    }

    /// Reads and verifies all of it.
    #[pyo3(signature = (progress=None))]
    fn verify(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<Verified> {
        let content = self.content.get()?.clone();
        let after = if self.is_slow {
            AfterInterrupt::Leave
        } else {
            AfterInterrupt::Wait
        };
        let report = run(py, progress, after, move |watch| {
            let options = VerifyOptions {
                watcher: Watcher::new(move |progress| watch.watch(progress)),
                ..VerifyOptions::default()
            };
            content.verify(&options)
        })?;
        Ok(verified(report))
    }
}

fn named(identity: &Identity) -> Named {
    match identity {
        Identity::FileDigest(digest) => ("digest", digest.to_string()),
        Identity::RootHash(hash) => ("root_hash", hash.to_string()),
    }
}

fn verified(report: Report) -> Verified {
    let bad = report.bad.into_iter().map(|found| {
        let range = (found.range.start, found.range.end);
        let files = found.files.into_iter().map(OsString::from);
        (range, found.reason.to_string(), files.collect())
    });
    (
        report.identity.to_string(),
        (report.size, report.bad_bytes, report.bad_ranges),
        bad.collect(),
        report.unnamed.map(|error| error.to_string()),
        report.defect.map(|error| error.to_string()),
    )
}
