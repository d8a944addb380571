use std::{
    cell::Cell,
    fmt,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
    sync::Arc,
};

use verimount_source::{ReadAt, ReadError, Scratch, check_range};
use verimount_tree::{Error as TreeError, NodeId, Tree};
use verimount_verity::Checked;

use crate::{Content, Error, Image, Location, OpenOptions, fault::ContentFault};

/// How much is read, verified and written at a time.
pub(crate) const CHUNK: usize = 1 << 20;

thread_local! {
    /// Where blocks are verified that are not read into the caller's memory.
    static SCRATCH: Cell<Scratch> = Cell::default();
}

/// A verified file: a sealed file at a location, or a regular file in an image.
///
/// It is read in order, as any [`Read`], or at any place through [`ReadAt`], by several threads at once. Each clone
/// has a position of its own. A read of bytes that do not match fails; bytes that others asked for are not
/// affected.
///
/// ```no_run
/// use std::io::{Read, Seek, SeekFrom};
/// use verimount::{File, OpenOptions, ReadAt};
///
/// # let digest = "sha256:adf83db3b55f77f4e12df982ede7545206a6791529f6f944e7208d764e282901";
/// let options = OpenOptions::new().digest(digest.parse()?);
/// let mut model = File::open("model.safetensors", &options)?;
/// let mut length = [0; 8];
/// model.read_exact(&mut length)?;
/// model.seek(SeekFrom::Start(4096))?;
/// model.read_exact_at(&mut length, 1 << 20)?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct File {
    bytes: Bytes,
    size: u64,
    position: u64,
}

#[derive(Clone)]
enum Bytes {
    Whole {
        location: Location,
        source: Checked,
    },
    InImage {
        image: Image,
        node: NodeId,
        path: Arc<Path>,
    },
}

impl File {
    /// Opens a sealed file, as the options accept it. Of an image, this gives its bytes.
    ///
    /// # Errors
    /// As [`Content::open`].
    pub fn open<L: TryInto<Location>>(location: L, options: &OpenOptions) -> Result<Self, Error>
    where
        Error: From<L::Error>,
    {
        Ok(Content::open(location, options)?.file())
    }

    pub(crate) fn whole(location: Location, source: Checked) -> Self {
        Self {
            size: source.size(),
            bytes: Bytes::Whole { location, source },
            position: 0,
        }
    }

    /// The file with this node and size in an image, where it is at `path`.
    pub(crate) fn in_image(image: Image, (node, size): (NodeId, u64), path: &Path) -> Self {
        let path = path.into();
        Self {
            size,
            bytes: Bytes::InImage { image, node, path },
            position: 0,
        }
    }

    /// How many bytes it has.
    #[allow(clippy::len_without_is_empty, reason = "as of std::fs::Metadata")]
    pub fn len(&self) -> u64 {
        self.size
    }

    /// Reads as many bytes as there are from `offset` on, at most `buf.len()`. Fewer only where the file ends.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) if they do not match, and those of the storage.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        let rest = self.size.saturating_sub(offset);
        let len = usize::try_from(rest).map_or(buf.len(), |rest| rest.min(buf.len()));
        let buf = &mut buf[..len];
        match &self.bytes {
            Bytes::Whole { location, source } => source
                .read_exact_at(buf, offset)
                .map_err(|error| ContentFault::read(location, error)),
            Bytes::InImage { image, node, path } => read_in_image(image.tree(), *node, buf, offset)
                .map_err(|error| image.failed(path, error)),
        }?;
        Ok(len)
    }

    /// Appends everything from `offset` on to `content`. If that fails, what was read before it is there.
    pub(crate) fn read_rest(&self, offset: u64, content: &mut Vec<u8>) -> Result<(), Error> {
        // In pieces, as an image can claim that a file has any size.
        for piece in (offset..self.size).step_by(CHUNK) {
            let start = content.len();
            let len = (self.size - piece).min(CHUNK as u64);
            content.resize(start + len as usize, 0);
            if let Err(error) = self.read_at(&mut content[start..], piece) {
                content.truncate(start);
                return Err(error);
            }
        }
        Ok(())
    }
}

fn read_in_image(
    tree: &dyn Tree,
    node: NodeId,
    buf: &mut [u8],
    offset: u64,
) -> Result<(), TreeError> {
    // Taken, as the image may be read from a file in another image.
    let mut scratch = SCRATCH.take();
    let starts = (offset..).step_by(CHUNK);
    for (part, start) in buf.chunks_mut(CHUNK).zip(starts) {
        let bytes = tree.read(node, start, part.len(), &mut scratch)?;
        if bytes.len() != part.len() {
            return Err(TreeError::corrupt("its content ends before its size"));
        }
        part.copy_from_slice(bytes);
    }
    SCRATCH.set(scratch);
    Ok(())
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.read_at(buf, self.position)?;
        self.position += read as u64;
        Ok(read)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        let start = buf.len();
        let read = self.read_rest(self.position, buf);
        let added = buf.len() - start;
        self.position += added as u64;
        read?;
        Ok(added)
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(offset) => self.size.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

impl ReadAt for File {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        check_range(offset, buf.len(), self.size)?;
        match &self.bytes {
            Bytes::Whole { source, .. } => source.read_exact_at(buf, offset),
            Bytes::InImage { image, node, .. } => {
                let read = read_in_image(image.tree(), *node, buf, offset);
                read.map_err(|error| match error {
                    TreeError::Read(error) => error,
                    other => ReadError::Rejected(Box::new(other)),
                })
            }
        }
    }

    fn will_need(&self, offset: u64, len: u64) {
        match &self.bytes {
            Bytes::Whole { source, .. } => source.will_need(offset, len),
            Bytes::InImage { image, node, .. } => image.tree().will_need(*node, offset, len),
        }
    }

    fn will_reach(&self, offset: u64, len: u64) {
        // An image is read ahead by what it is read from.
        if let Bytes::Whole { source, .. } = &self.bytes {
            source.will_reach(offset, len);
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("File");
        match &self.bytes {
            Bytes::Whole { location, .. } => shown.field("location", location),
            Bytes::InImage { image, path, .. } => shown.field("image", image).field("path", path),
        };
        shown.field("size", &self.size).finish_non_exhaustive()
    }
}
