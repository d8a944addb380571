//! Archives that come through a pipe, or are compressed.

mod decompress;
mod receive;

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    ops::Range,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::Arc,
};

use rustix::fs::{FileType, Mode, OFlags, fcntl_setfl, open};
use verimount_content::Watch;
use verimount_scan::{
    ArchiveError, ArchiveScan, Compression, Error as ScanError, Options as ScanOptions, SourceTree,
    scan_layers,
};
use verimount_source::{FileRange, FileSource, folder_of};

use crate::{
    Error,
    build_fault::BuildFault,
    fault::ContentFault,
    foreign::foreign,
    image_archive::{self, InArchive},
    image_format,
};

pub(crate) use self::receive::Receiver;

/// Opens an archive for reading. For the writer of a named pipe, the open does not wait, but each read does.
pub(crate) fn open_archive(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let archive = File::from(open(path, flags, Mode::empty())?);
    fcntl_setfl(&archive, OFlags::empty())?;
    Ok(archive)
}

/// The archive as a file that can be read at any place. What comes through a pipe or socket, is the rest of a file, or
/// is compressed, is copied to a file without a name in the folder of `output`.
///
/// An image has all metadata in front of the contents, and of equal contents only one, so it cannot be
/// written while the archive is read. The folder has room for the image, so most likely also for this.
pub(crate) fn seekable(
    mut archive: File,
    name: &Path,
    output: &Path,
    watch: &mut Watch<'_>,
) -> Result<File, Error> {
    let of_archive = |error| ContentFault::io(name, error);
    let metadata = archive.metadata().map_err(of_archive)?;
    match FileType::from_raw_mode(metadata.mode()) {
        FileType::RegularFile if archive.stream_position().map_err(of_archive)? == 0 => {
            match compression(&archive, 0).map_err(of_archive)? {
                None => Ok(archive),
                Some(_) => received(&archive, name, output, watch),
            }
        }
        FileType::RegularFile | FileType::Fifo | FileType::Socket => {
            received(&archive, name, output, watch)
        }
        _ => Err(of_archive(io::Error::other(
            "it is neither a directory nor a tar archive",
        ))),
    }
}

/// Reads the tree in a tar archive, or that of a container image in it, and returns the number of layers of the latter. What
/// of the image is compressed is copied to a file without a name in the folder of `output`.
pub(crate) fn scan_tar(
    archive: File,
    name: &Path,
    output: &Path,
    options: &ScanOptions,
    watch: &mut Watch<'_>,
) -> Result<(SourceTree, Option<usize>), Error> {
    let of_archive = |error| ContentFault::io(name, error);
    let file = archive.try_clone().map_err(of_archive)?;
    let scan = ArchiveScan::read(archive, name, options);
    let scan = scan.map_err(|error| what_it_is(error, &file, name))?;
    let files = InArchive {
        archive: Arc::new(file.try_clone().map_err(of_archive)?),
        scan: &scan,
    };
    let layers = image_archive::layers(&files, watch);
    let layers = layers.map_err(|error| error.at(name))?;
    let Some(layers) = layers else {
        let tree = scan.into_tree();
        return Ok((tree.map_err(|error| BuildFault::scan(name, error))?, None));
    };
    drop(scan);
    let count = layers.len();
    let (file, layers) = decompressed_layers(file, layers, name, output, watch)?;
    let tree = scan_layers(file, &layers, name, options);
    Ok((
        tree.map_err(|error| BuildFault::scan(name, error))?,
        Some(count),
    ))
}

/// The layers at these places of a file, if any of them is compressed, decompressed in another file.
fn decompressed_layers(
    file: File,
    layers: Vec<Range<u64>>,
    name: &Path,
    output: &Path,
    watch: &mut Watch<'_>,
) -> Result<(File, Vec<Range<u64>>), Error> {
    let compressions = layers.iter().map(|layer| compression(&file, layer.start));
    let compressions: io::Result<Vec<_>> = compressions.collect();
    let compressions = compressions.map_err(|error| ContentFault::io(name, error))?;
    if compressions.iter().all(Option::is_none) {
        return Ok((file, layers));
    }
    let copy = tempfile::tempfile_in(folder_of(output));
    let copy = copy.map_err(|error| ContentFault::io(output, error))?;
    let receiver = Receiver::new(name, output, watch);
    let mut end = 0;
    let plain = layers.into_iter().map(|layer| {
        let start = end;
        end += receiver.receive(FileRange::new(&file, layer), &copy)?;
        Ok(start..end)
    });
    let plain: Result<_, Error> = plain.collect();
    Ok((copy, plain?))
}

/// The error for a file that is something else: the beginning of most images looks like an empty archive.
fn what_it_is(error: ScanError, file: &File, name: &Path) -> Error {
    let source = file.try_clone().and_then(FileSource::new).ok();
    let image = source
        .as_ref()
        .and_then(|source| image_format::describe(source).ok().flatten());
    let what = match (&error, source, image) {
        (ScanError::Archive { .. }, _, Some(image)) => {
            Some(format!("an image of the format {}", image.format))
        }
        (
            ScanError::Archive {
                source: ArchiveError::NotAnArchive,
                ..
            },
            Some(source),
            None,
        ) => foreign(&source).map(str::to_owned),
        _ => None,
    };
    let Some(what) = what else {
        return BuildFault::scan(name, error);
    };
    let text = format!(
        "it is {what}, not a tar archive: unpack it to build another image of what is in it"
    );
    ContentFault::io(name, io::Error::other(text))
}

/// How what begins at a place in a file is compressed, if it is.
pub(crate) fn compression(file: &File, at: u64) -> io::Result<Option<Compression>> {
    let mut beginning = Vec::new();
    let end = at + Compression::MAGIC_LEN as u64;
    FileRange::new(file, at..end).read_to_end(&mut beginning)?;
    Ok(Compression::of(&beginning))
}

fn received(
    archive: &File,
    name: &Path,
    output: &Path,
    watch: &mut Watch<'_>,
) -> Result<File, Error> {
    let of_copy = |error| ContentFault::io(output, error);
    let mut copy = tempfile::tempfile_in(folder_of(output)).map_err(of_copy)?;
    Receiver::new(name, output, watch).receive(archive, &copy)?;
    copy.seek(SeekFrom::Start(0)).map_err(of_copy)?;
    Ok(copy)
}
