//! A file as it is at one of several places, which is opened when it is first read.

use std::{io, sync::Arc, thread, time::Duration};

use verimount_source::{ReadAt, ReadError};
use verimount_sync::{Condvar, Mutex};

use crate::{Error, place::Place};

/// Opens a file at a place.
pub(super) type OpenFile = fn(&Place) -> Result<Arc<dyn ReadAt>, Error>;

/// How long who has no less patience waits for a file to be opened: longer than that may take.
const LONGEST: Duration = Duration::from_secs(1 << 20);

/// A copy of a file.
pub(super) struct FileCopy(Arc<Shared>);

struct Shared {
    place: Arc<Place>,
    open: OpenFile,
    size: u64,
    state: Mutex<State>,
    opening_ended: Condvar,
}

#[derive(Default)]
struct State {
    opened: Option<Arc<dyn ReadAt>>,
    /// Whether a thread opens it, for all who wait.
    is_under_way: bool,
    /// How the last one failed.
    failure: Option<io::Error>,
}

impl FileCopy {
    pub(super) fn new(place: Arc<Place>, open: OpenFile, size: u64) -> Self {
        Self(Arc::new(Shared {
            place,
            open,
            size,
            state: Mutex::default(),
            opening_ended: Condvar::new(),
        }))
    }

    /// What is open, or becomes so as long as `patience`. Opening goes on after that. A failure is not kept.
    fn opened_within(&self, patience: Duration) -> io::Result<Arc<dyn ReadAt>> {
        let mut state = self.0.state.lock();
        if let Some(opened) = &state.opened {
            return Ok(opened.clone());
        }
        if !state.is_under_way {
            let shared = self.0.clone();
            let thread = thread::Builder::new().name("open".to_owned());
            thread.spawn(move || shared.open_for_all())?;
            *state = State {
                is_under_way: true,
                ..State::default()
            };
        }
        let is_under_way = |state: &mut State| state.is_under_way;
        let ended = &self.0.opening_ended;
        let state = ended.wait_timeout_while(state, patience, is_under_way);
        match (&state.opened, &state.failure) {
            (Some(opened), _) => Ok(opened.clone()),
            (None, Some(failure)) => Err(io::Error::new(failure.kind(), failure.to_string())),
            (None, None) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn read(&self, buf: &mut [u8], offset: u64, patience: Duration) -> Result<(), ReadError> {
        let file = self.opened_within(patience);
        let file = file.map_err(ReadError::io(offset, buf.len()))?;
        file.read_within(buf, offset, patience)
    }
}

impl Shared {
    fn find(&self) -> io::Result<Arc<dyn ReadAt>> {
        let file = (self.open)(&self.place).map_err(io::Error::other)?;
        match file.size() == self.size {
            true => Ok(file),
            false => {
                let reason = format!("it has {} bytes, not {}", file.size(), self.size);
                Err(io::Error::other(reason))
            }
        }
    }

    fn open_for_all(&self) {
        let found = self.find();
        let mut state = self.state.lock();
        state.is_under_way = false;
        match found {
            Ok(file) => state.opened = Some(file),
            Err(error) => state.failure = Some(error),
        }
        drop(state);
        self.opening_ended.notify_all();
    }
}

impl ReadAt for FileCopy {
    fn size(&self) -> u64 {
        self.0.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.read(buf, offset, LONGEST)
    }

    fn read_within(
        &self,
        buf: &mut [u8],
        offset: u64,
        patience: Duration,
    ) -> Result<(), ReadError> {
        self.read(buf, offset, patience)
    }

    fn will_need(&self, offset: u64, len: u64) {
        if let Some(file) = &self.0.state.lock().opened {
            file.will_need(offset, len);
        }
    }
}
