use std::{
    fs::File,
    io::{self, Seek, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use verimount_remote::registry::Descriptor;
use verimount_source::{FileSource, ReadAt};
use verimount_verity::Identity;

use super::{
    hashed::hashed,
    layer_copy::{LayerCopy, OpenLayer},
};
use crate::{
    Error, Location, OpenOptions, Step,
    accepted::Accepted,
    far::FarLocation,
    fault::Fault,
    layers_error::LayersError,
    location::sidecar_path,
    mirrors::{answering, mirrors_of},
    open::open_accepted,
    output_file::OutputFile,
    place::Place,
    progress::{Watch, Watcher, step, watched},
    verify::verify_watched,
};

/// How content in a registry is copied.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct PullOptions {
    open: OpenOptions,
    watcher: Watcher,
}

impl PullOptions {
    /// Accepts what the options for opening accept, from where they say. The offset of a dm-verity superblock is that in the
    /// seal's layer if there is one, else in the data's.
    pub fn new(open: OpenOptions) -> Self {
        Self {
            open,
            watcher: Watcher::default(),
        }
    }
}

watched!(PullOptions);

/// A file that is being fetched.
struct Fetched {
    path: PathBuf,
    output: OutputFile,
}

/// Copies sealed content from a registry to `file`, which must not exist. A seal that is a layer of its own
/// becomes `FILE.verity`.
///
/// Everything is verified, layers by their digests as well. The files get their names when they are
/// complete, that of the seal first.
///
/// ```no_run
/// use verimount::{OpenOptions, PullOptions, pull};
///
/// # let digest = "sha256:adf83db3b55f77f4e12df982ede7545206a6791529f6f944e7208d764e282901";
/// let options = OpenOptions::new().digest(digest.parse()?);
/// pull("oci://registry.example.org/me/app:1.0", "app.img", &PullOptions::new(options))?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Damaged`](crate::ErrorKind::Damaged) if not all bytes match the seal; [`InvalidInput`](crate::ErrorKind::InvalidInput) for
/// content that is not in a registry; [`Cancelled`](crate::ErrorKind::Cancelled); those of opening and writing.
pub fn pull<L: TryInto<Location>>(
    image: L,
    file: impl AsRef<Path>,
    options: &PullOptions,
) -> Result<Identity, Error>
where
    Error: From<L::Error>,
{
    let (location, file) = (image.try_into()?, file.as_ref());
    let watch = &mut options.watcher.watch();
    let open = &options.open;
    let trust = open.trust(&location)?;
    let places = places_of(location, open);
    let there = answering(&places, &trust)?;
    let Some((FarLocation::Registry(_), found)) = there.manifest()? else {
        let reason = "a file is copied from a registry (oci://)";
        return Err(Fault::WrongPlace(reason).somewhere());
    };
    let accepted = Accepted::at(there, &trust)?;
    let layers = &found.layers;
    let data = Fetched::new(file.to_owned())?;
    let seal = match &layers.seal {
        Some(_) => Some(Fetched::new(sidecar_path(file))?),
        None => None,
    };
    let content: OpenLayer = |place| Ok(place.content()?.0);
    data.fetch(&places, content, &layers.data, open, watch)?;
    if let (Some(fetched), Some(layer)) = (&seal, &layers.seal) {
        fetched.fetch(&places, open_seal, layer, open, watch)?;
    }
    let here = OpenOptions::new()
        .sidecar(seal.as_ref().map(Fetched::location).transpose()?)
        .hash_offset(open.hash_offset);
    let place = Place::new(data.location()?, &here);
    let report = verify_watched(&open_accepted(place, accepted, &here)?, watch)?;
    if !report.is_good() {
        return Err(Fault::Damaged.at(there.location()));
    }
    for fetched in seal.into_iter().chain([data]) {
        fetched.commit()?;
    }
    Ok(report.identity)
}

/// The content's place, and those of its mirrors.
fn places_of(location: Location, options: &OpenOptions) -> Vec<Arc<Place>> {
    let there = Place::new(location, &options.clone().without_places());
    let mirrors = options.mirrors.iter().cloned();
    let mirrors = mirrors.map(|mirror| Place::of_mirror(mirror, options));
    let places = [there].into_iter().chain(mirrors);
    places.map(Arc::new).collect()
}

/// Opens the layer with the seal of what is at a place.
fn open_seal(place: &Place) -> Result<Arc<dyn ReadAt>, Error> {
    let at = place.location();
    let beside = || at.sidecar();
    let seal = place.sidecar()?.or_else(beside);
    let missing = || Fault::NotSealed { sidecar: None }.at(at);
    place.file(&seal.ok_or_else(missing)?)
}

impl Fetched {
    fn new(path: PathBuf) -> Result<Self, Error> {
        let output = OutputFile::new(&path, 0o666).map_err(|error| Error::io(&path, error))?;
        Ok(Self { path, output })
    }

    fn file(&self) -> &File {
        self.output.file()
    }

    /// Fetches a layer from the first place that has it right.
    fn fetch(
        &self,
        places: &[Arc<Place>],
        open: OpenLayer,
        layer: &Descriptor,
        options: &OpenOptions,
        watch: &mut Watch<'_>,
    ) -> Result<(), Error> {
        let mut left = places;
        loop {
            let fetched = self.fetch_from(left, open, layer, options, watch);
            let is_wrong = |error: &Error| {
                matches!(error.fault(), Fault::Layers(LayersError::WrongLayer { .. }))
            };
            match fetched {
                // Only all of it together tells that it is wrong, and not where.
                Err(error) if is_wrong(&error) && left.len() > 1 => {
                    tracing::warn!(%error, "a copy is wrong there: other places are asked");
                    left = &left[1..];
                    self.clear().map_err(|error| Error::io(&self.path, error))?;
                }
                fetched => return fetched,
            }
        }
    }

    /// Fetches a layer from the first place, and what that fails to send from others; and compares its digest.
    fn fetch_from(
        &self,
        places: &[Arc<Place>],
        open: OpenLayer,
        layer: &Descriptor,
        options: &OpenOptions,
        watch: &mut Watch<'_>,
    ) -> Result<(), Error> {
        let from = places[0].location();
        let copies = places.iter().map(|place| -> Arc<dyn ReadAt> {
            Arc::new(LayerCopy::new(place.clone(), open, layer.size))
        });
        let source = mirrors_of(places, options).part("layer", copies.collect());
        let mut progress = step(watch, Step::Download, layer.size);
        let expected = layer.digest;
        let actual = hashed(&source, from, |bytes| {
            let written = self.file().write_all(bytes);
            written.map_err(|error| Error::io(&self.path, error))?;
            match progress(bytes.len() as u64).is_break() {
                true => Err(Fault::Cancelled.at(from)),
                false => Ok(()),
            }
        })?;
        if expected == actual {
            return Ok(());
        }
        let (expected, actual) = (expected.to_string(), actual.to_string());
        Err(Fault::Layers(LayersError::WrongLayer { expected, actual }).at(from))
    }

    /// Removes what was written.
    fn clear(&self) -> io::Result<()> {
        self.file().set_len(0)?;
        self.file().rewind()
    }

    /// What was fetched, for reading.
    fn location(&self) -> Result<Location, Error> {
        let source = self.file().try_clone().and_then(FileSource::new);
        let source = source.map_err(|error| Error::io(&self.path, error))?;
        Ok(Location::source(&self.path, source))
    }

    fn commit(self) -> Result<(), Error> {
        let path = self.path;
        self.output.commit().map_err(|error| Error::io(path, error))
    }
}
