//! A store of the layers of container images, from which container engines take those that they need: containers-storage calls
//! it an additional layer store. It has a directory for each layer, by the digest of its blob, with the tree of the layer
//! (`diff`), the blob itself (`blob`), and what is known of both (`info`).

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Seek, SeekFrom, Write},
    ops::Range,
    path::Path,
    sync::Arc,
};

use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use verimount_content::Watch;
use verimount_scan::{ArchiveScan, Compression, Options as ScanOptions, StoreLayer, scan_store};
use verimount_source::{FileRange, folder_of};
use verimount_sys::GuardedPath;
use verimount_verity::HashAlgorithm;

use crate::{
    BuildOptions, Built, Error,
    archive_input::{Receiver, compression, open_archive, seekable},
    blob::{digest_text, hashed},
    build::build_tree,
    build_fault::BuildFault,
    fault::ContentFault,
    image_archive::{FilePart, ImageArchiveError, ImageFiles, InArchive, all_layers},
};

/// Builds an image that is a store of all layers of container images. Each source is an archive, as docker, podman and skopeo
/// save them, or a directory in OCI's layout. Nothing is unpacked, and no rights are needed.
///
/// # Errors
/// As [`build`](crate::build); [`NotOneImage`](crate::ErrorKind::NotOneImage) for a source that has no container images.
pub fn build_layer_store<S: AsRef<Path>>(
    sources: &[S],
    output: impl AsRef<Path>,
    options: &BuildOptions,
) -> Result<Built, Error> {
    let output = output.as_ref();
    let first = sources.first().map_or(output, AsRef::as_ref);
    let scan_options = options.of_archive(first)?;
    let mut count = 0;
    let scan = |watch: &mut Watch<'_>| {
        let mut store = Store::new(output)?;
        for source in sources {
            store.add_all(source.as_ref(), watch)?;
        }
        count = store.layers.len();
        let layers: Vec<_> = store.layers.into_values().collect();
        let tree = scan_store(store.file, &layers, output, scan_options);
        tree.map_err(|error| BuildFault::scan(output, error))
    };
    let built = build_tree(output, output, options, scan)?;
    Ok(Built {
        layers: Some(count),
        ..built
    })
}

/// What is known of a layer, as containers-storage reads it.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Info<'a> {
    compressed_diff_digest: &'a str,
    compressed_size: u64,
    diff_digest: &'a str,
    diff_size: u64,
    /// Its number in containers-storage.
    compression: u8,
}

/// The layers so far, and all that they consist of in one file without a name.
struct Store<'o> {
    output: &'o Path,
    file: File,
    /// By the digests of their blobs.
    layers: BTreeMap<String, StoreLayer>,
}

/// A directory in OCI's layout, which may be another user's.
struct InDirectory<'d>(&'d Path);

impl ImageFiles for InDirectory<'_> {
    fn open(&self, name: &str) -> io::Result<Option<FilePart>> {
        // Digests are part of names. None may lead elsewhere.
        let is_plain = |part: &str| {
            let mut bytes = part.bytes();
            !part.is_empty()
                && !part.starts_with('.')
                && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        };
        if !name.split('/').all(is_plain) {
            return Ok(None);
        }
        let file = GuardedPath::new(&self.0.join(name))
            .and_then(|guarded| guarded.open(OFlags::NONBLOCK, Mode::empty()));
        let in_file = |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"));
        let file = match file {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(in_file)?,
        };
        let metadata = file.metadata()?;
        Ok(metadata.is_file().then(|| FilePart {
            file: Arc::new(file),
            range: 0..metadata.len(),
        }))
    }
}

impl<'o> Store<'o> {
    /// An empty one, which needs room where the image will be.
    fn new(output: &'o Path) -> Result<Self, Error> {
        let file = tempfile::tempfile_in(folder_of(output));
        Ok(Self {
            output,
            file: file.map_err(|error| ContentFault::io(output, error))?,
            layers: BTreeMap::new(),
        })
    }

    /// Adds the layers of all images of a source.
    fn add_all(&mut self, source: &Path, watch: &mut Watch<'_>) -> Result<(), Error> {
        if source.is_dir() {
            return self.add_images(&InDirectory(source), source, watch);
        }
        let of_source = |error| ContentFault::io(source, error);
        let archive = open_archive(source).map_err(of_source)?;
        let archive = seekable(archive, source, self.output, watch)?;
        let copy = archive.try_clone().map_err(of_source)?;
        let all = ScanOptions::default();
        let scan = ArchiveScan::read(copy, source, &all);
        let scan = &scan.map_err(|error| BuildFault::scan(source, error))?;
        let archive = Arc::new(archive);
        self.add_images(&InArchive { archive, scan }, source, watch)
    }

    fn add_images(
        &mut self,
        files: &dyn ImageFiles,
        source: &Path,
        watch: &mut Watch<'_>,
    ) -> Result<(), Error> {
        let layers = all_layers(files, watch)
            .and_then(|found| found.ok_or_else(|| ImageArchiveError::Nothing.into()));
        let layers = layers.map_err(|error| error.at(source))?;
        let mut layers = layers.iter();
        layers.try_for_each(|layer| self.add(layer, source, watch))
    }

    /// Adds a layer, unless it is there.
    fn add(&mut self, layer: &FilePart, source: &Path, watch: &mut Watch<'_>) -> Result<(), Error> {
        let of_store = |error| ContentFault::io(self.output, error);
        let start = self.file.seek(SeekFrom::End(0)).map_err(of_store)?;
        let copied = self.copy(layer, watch);
        let (digest, blob) = copied.map_err(|stopped| stopped.at(source))?;
        if self.layers.contains_key(&digest) {
            return self.file.set_len(start).map_err(of_store);
        }
        let compression = compression(&self.file, blob.start).map_err(of_store)?;
        let archive = match compression {
            None => blob.clone(),
            Some(_) => {
                let receiver = Receiver::new(source, self.output, watch);
                let len = receiver.receive(FileRange::new(&self.file, blob.clone()), &self.file)?;
                blob.end..blob.end + len
            }
        };
        let archive_bytes = FileRange::new(&self.file, archive.clone());
        let hashed = hashed(archive_bytes, io::sink(), HashAlgorithm::Sha256, watch);
        let (diff_digest, _) = hashed.map_err(|stopped| stopped.at(source))?;
        let info = Info {
            compressed_diff_digest: &digest,
            compressed_size: blob.end - blob.start,
            diff_digest: &digest_text(&diff_digest),
            diff_size: archive.end - archive.start,
            compression: number(compression),
        };
        let info = serde_json::to_vec(&info).map_err(|error| of_store(error.into()))?;
        (&self.file).write_all(&info).map_err(of_store)?;
        let info = archive.end..archive.end + info.len() as u64;
        let layer = StoreLayer {
            name: digest.clone(),
            archive,
            files: vec![("blob", blob), ("info", info)],
        };
        self.layers.insert(digest, layer);
        Ok(())
    }

    /// Appends the blob of a layer, and returns its digest and place.
    fn copy(
        &self,
        layer: &FilePart,
        watch: &mut Watch<'_>,
    ) -> Result<(String, Range<u64>), ContentFault> {
        let start = (&self.file).stream_position()?;
        let from = FileRange::new(&layer.file, layer.range.clone());
        let (digest, len) = hashed(from, &self.file, HashAlgorithm::Sha256, watch)?;
        Ok((digest_text(&digest), start..start + len))
    }
}

/// The number of a compression in containers-storage.
fn number(compression: Option<Compression>) -> u8 {
    match compression {
        Some(Compression::Gzip) => 2,
        Some(Compression::Zstd) => 4,
        _ => 0,
    }
}
