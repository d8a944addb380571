use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
};

use verimount_remote::{
    Session,
    registry::{BlobHasher, Descriptor},
};
use verimount_source::{FileSource, ReadAt};
use verimount_verity::Identity;

use super::{Found, RegistryImage};
use crate::{
    Access, Error, Location, OpenOptions, Step, Trust, Watch, accepted::Accepted, content::CHUNK,
    location::sidecar_path, open::open_accepted, output_file::OutputFile, place::Place,
    progress::step, verify,
};

/// How content in a registry is copied.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PullOptions {
    /// The offset of a dm-verity superblock in bytes: in the seal's layer if there is one, else in the data's.
    /// Only used with a root hash.
    pub hash_offset: Option<u64>,
    /// How the registry is reached.
    pub session: Session,
}

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
/// # Errors
/// [`Error::Damaged`] if not all bytes match the seal; [`Error::Layers`]; [`Error::Cancelled`] if `watch` ends
/// it; any other [`Error`] of opening and writing.
pub fn pull(
    image: &RegistryImage,
    file: &Path,
    trust: &Trust,
    options: &PullOptions,
    watch: &mut Watch<'_>,
) -> Result<Identity, Error> {
    let access = Access {
        session: options.session.clone(),
        ..Access::default()
    };
    let there = OpenOptions {
        access,
        ..OpenOptions::default()
    };
    let there = Place::new(Location::Registry(image.clone()), &there);
    let accepted = Accepted::at(&there, trust)?;
    let Some(found) = there.manifest()? else {
        unreachable!("the place is in a registry");
    };
    let layers = &found.layers;
    let data = Fetched::new(file.to_owned())?;
    let seal = match &layers.seal {
        Some(_) => Some(Fetched::new(sidecar_path(file))?),
        None => None,
    };
    data.fetch(image, found, &layers.data, watch)?;
    if let (Some(fetched), Some(layer)) = (&seal, &layers.seal) {
        fetched.fetch(&image.seal(), found, layer, watch)?;
    }
    let options = OpenOptions {
        sidecar: seal.as_ref().map(Fetched::location).transpose()?,
        hash_offset: options.hash_offset,
        ..OpenOptions::default()
    };
    let place = Place::new(data.location()?, &options);
    let report = verify(&open_accepted(place, accepted, &options)?, watch)?;
    if !report.is_good() {
        return Err(Error::Damaged {
            at: Location::Registry(image.clone()),
        });
    }
    for fetched in seal.into_iter().chain([data]) {
        fetched.commit()?;
    }
    Ok(report.identity)
}

impl Fetched {
    fn new(path: PathBuf) -> Result<Self, Error> {
        let output = OutputFile::new(&path, 0o666).map_err(|error| Error::io(&path, error))?;
        Ok(Self { path, output })
    }

    fn file(&self) -> &File {
        self.output.file()
    }

    /// Fetches a layer, and compares its digest.
    fn fetch(
        &self,
        image: &RegistryImage,
        found: &Found,
        layer: &Descriptor,
        watch: &mut Watch<'_>,
    ) -> Result<(), Error> {
        let from = || Location::Registry(image.clone());
        let source = image.open(found)?;
        let mut progress = step(watch, Step::Download, layer.size);
        let mut hasher = BlobHasher::default();
        let mut buf = vec![0; CHUNK];
        let mut offset = 0;
        while offset < layer.size {
            let len = (layer.size - offset).min(CHUNK as u64);
            let buf = &mut buf[..len as usize];
            let read = source.read_exact_at(buf, offset);
            read.map_err(|error| Error::seal(from(), error.into()))?;
            hasher.add(buf);
            let written = self.file().write_all(buf);
            written.map_err(|error| Error::io(&self.path, error))?;
            offset += len;
            if progress(len).is_break() {
                return Err(Error::Cancelled { at: from() });
            }
        }
        let (expected, actual) = (layer.digest, hasher.finish());
        match expected == actual {
            true => Ok(()),
            false => Err(Error::Layers {
                at: from(),
                source: super::LayersError::WrongLayer { expected, actual },
            }),
        }
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
