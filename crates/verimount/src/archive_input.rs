//! Archives that come through a pipe, or are compressed.

mod decompress;
mod receive;

use std::{
    fs::File,
    io::{self, Seek, SeekFrom},
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
};

use rustix::fs::{FileType, Mode, OFlags, fcntl_setfl, open};
use verimount_scan::Compression;

use self::receive::Receiver;
use crate::{Error, Watch, output_file::folder_of};

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
    let of_archive = |error| Error::io(name, error);
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

/// How what begins at a place in a file is compressed, if it is.
fn compression(file: &File, at: u64) -> io::Result<Option<Compression>> {
    let mut beginning = [0; Compression::MAGIC_LEN];
    let mut len = 0;
    while len < beginning.len() {
        match file.read_at(&mut beginning[len..], at + len as u64)? {
            0 => break,
            read => len += read,
        }
    }
    Ok(Compression::of(&beginning[..len]))
}

fn received(
    archive: &File,
    name: &Path,
    output: &Path,
    watch: &mut Watch<'_>,
) -> Result<File, Error> {
    let of_copy = |error| Error::io(output, error);
    let mut copy = tempfile::tempfile_in(folder_of(output)).map_err(of_copy)?;
    Receiver::new(name, output, watch).receive(archive, &copy)?;
    copy.seek(SeekFrom::Start(0)).map_err(of_copy)?;
    Ok(copy)
}
