//! The process that finds which file of an image some bytes belong to, for a mount whose own process reads no file system.
//!
//! It is a copy of that process, made before that reads anything, and has no files, no network and no helper. What it reads of the
//! image, which may be hostile, that process gives it, verified. It sleeps until it is asked.

mod message;

use std::{
    io,
    ops::{ControlFlow, Range},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use verimount_erofs::ErofsTree;
use verimount_sandbox::{Kind, Sandbox};
use verimount_source::{ReadAt, ReadError, Scratch};
use verimount_sync::Mutex;
use verimount_tree::{SingleFile, Tree};
use verimount_verity::Checked;

use self::message::{MAX_BYTES, Message};

/// How long a search takes at most.
const SEARCH: Duration = Duration::from_secs(10);

/// The socket to it; `None` when it has failed.
static NAMER: OnceLock<Mutex<Option<OwnedFd>>> = OnceLock::new();

/// Starts it. This process must have one thread, and no helper.
///
/// # Errors
/// The system's.
pub(crate) fn start() -> io::Result<()> {
    let socket = verimount_helper::fork_apart(|socket| {
        // What the kernel cannot hold back, it cannot hold back for the process that serves either, which says so.
        let _ = Sandbox::new(Kind::Image).enter();
        answer(Arc::new(socket));
    })?;
    // Only the first one is asked.
    let _ = NAMER.set(Mutex::new(Some(socket)));
    Ok(())
}

/// The path of a file that has some of these bytes of an image, the only file of `image`; `None` if it is not known, or cannot be
/// found.
pub(crate) fn find(image: &dyn Tree, range: &Range<u64>) -> Option<PathBuf> {
    // Others wait: one search is made at a time.
    let mut namer = NAMER.get()?.lock();
    let found = ask(namer.as_ref()?, image, range);
    if found.is_err() {
        // Its answers would be those to other questions.
        *namer = None;
    }
    found.ok().flatten()
}

fn ask(socket: &OwnedFd, image: &dyn Tree, range: &Range<u64>) -> io::Result<Option<PathBuf>> {
    let mut scratch = Scratch::default();
    let find = Message::Find {
        range: range.clone(),
        size: image.usage().bytes,
    };
    find.send(socket)?;
    loop {
        match Message::receive_in_time(socket)? {
            Message::Read { offset, len } => {
                let len = (len as usize).min(MAX_BYTES);
                let read = image.read(SingleFile::FILE, offset, len, &mut scratch);
                Message::Bytes(read.ok().map(<[u8]>::to_vec)).send(socket)?;
            }
            Message::Found(path) => return Ok(path),
            Message::Find { .. } | Message::Bytes(_) => {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
}

/// Answers questions until the process that asks has ended.
fn answer(socket: Arc<OwnedFd>) {
    while let Ok(Message::Find { range, size }) = Message::receive(&socket) {
        let image = Given {
            socket: socket.clone(),
            size,
        };
        if Message::Found(search(image, &range)).send(&socket).is_err() {
            return;
        }
    }
}

fn search(image: Given, range: &Range<u64>) -> Option<PathBuf> {
    let give_up = Instant::now() + SEARCH;
    let tree = ErofsTree::open(Checked::unverified(Arc::new(image)), Vec::new()).ok()?;
    let mut found = None;
    // It ends early when it is found, or takes too long.
    let _ = tree.walk_places(&mut |place| {
        found = place.ok().and_then(|place| {
            let overlaps = place.range.start < range.end && range.start < place.range.end;
            overlaps.then(|| Path::new("/").join(place.path))
        });
        if found.is_some() || Instant::now() > give_up {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    found
}

/// An image of which the other process gives what is asked for.
struct Given {
    socket: Arc<OwnedFd>,
    size: u64,
}

impl Given {
    fn ask(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let len = len as u32;
        Message::Read { offset, len }.send(&self.socket)?;
        match Message::receive(&self.socket)? {
            Message::Bytes(Some(bytes)) => Ok(bytes),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

impl ReadAt for Given {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let mut at = offset;
        for piece in buf.chunks_mut(MAX_BYTES) {
            let len = piece.len();
            let given = self.ask(at, len).map_err(ReadError::io(at, len))?;
            if given.len() != len {
                return Err(ReadError::Truncated { offset: at, len });
            }
            piece.copy_from_slice(&given);
            at = at.saturating_add(len as u64);
        }
        Ok(())
    }
}
