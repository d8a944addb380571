//! Archives that come through a pipe.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    ops::ControlFlow,
    os::unix::fs::MetadataExt,
    path::Path,
};

use rustix::fs::{FileType, Mode, OFlags, fcntl_setfl, open};
use verimount_scan::{Error as ScanError, check_beginning};

use crate::{Error, Progress, Step, Watch, output_file::folder_of};

/// How much is received at once, in bytes.
const PIECE: usize = 1 << 20;

/// Opens an archive for reading. For the writer of a named pipe, the open does not wait, but each read does.
pub(crate) fn open_archive(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let archive = File::from(open(path, flags, Mode::empty())?);
    fcntl_setfl(&archive, OFlags::empty())?;
    Ok(archive)
}

/// The archive as a file that can be read at any place. What comes through a pipe or socket, or is the rest of a file, is
/// copied to a file without a name in the folder of `output`.
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
        FileType::RegularFile if archive.stream_position().map_err(of_archive)? == 0 => Ok(archive),
        FileType::RegularFile | FileType::Fifo | FileType::Socket => {
            received(&mut archive, name, output, watch)
        }
        _ => Err(of_archive(io::Error::other(
            "it is neither a directory nor a tar archive",
        ))),
    }
}

fn received(
    archive: &mut File,
    name: &Path,
    output: &Path,
    watch: &mut Watch<'_>,
) -> Result<File, Error> {
    let of_archive = |error| Error::io(name, error);
    let of_copy = |error| Error::io(output, error);
    let mut copy = tempfile::tempfile_in(folder_of(output)).map_err(of_copy)?;
    let mut piece = Vec::with_capacity(PIECE);
    let mut done: u64 = 0;
    loop {
        piece.clear();
        let mut part = archive.take(PIECE as u64);
        part.read_to_end(&mut piece).map_err(of_archive)?;
        if done == 0 {
            check_beginning(&piece).map_err(|source| {
                Error::Scan(ScanError::Archive {
                    path: name.to_owned(),
                    source,
                })
            })?;
        }
        done += piece.len() as u64;
        let progress = Progress {
            step: Step::Receive,
            done,
            total: done,
        };
        // At the end, too: an interrupt of a whole pipeline ends the writer, and so the archive.
        if watch(progress) == ControlFlow::Break(()) {
            return Err(Error::Cancelled { at: name.into() });
        }
        if piece.is_empty() {
            break;
        }
        copy.write_all(&piece).map_err(of_copy)?;
    }
    copy.seek(SeekFrom::Start(0)).map_err(of_copy)?;
    Ok(copy)
}
