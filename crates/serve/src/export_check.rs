//! Checking the volume of an export through the process that has it: the messages, and both sides.

use std::{
    cell::RefCell,
    io::{self, Read},
    num::NonZeroUsize,
    ops::{ControlFlow, Range},
    path::Path,
    thread::available_parallelism,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use verimount_integrity::{BadRange, BadReason, Error as VolumeError, SECTOR, Volume};
use verimount_names::one_line;
use verimount_nbd::{
    Tell,
    client::{Reply, Until, read_reply},
};

use crate::{
    AskError,
    ask::{choose, connected},
    export_options::{CHECK, MAX_EVENT},
};

/// How long to wait for an event before the caller is asked whether to go on.
const TICK: Duration = Duration::from_millis(200);

/// What a check tells, one after the other: how it begins, and then what it finds and how far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CheckEvent {
    /// It begins.
    Begun {
        /// The size of the disk in bytes.
        size: u64,
        /// The first sector whose tag is to be recalculated after a crash: from there on, not all
        /// blocks are checked.
        unchecked_from: Option<u64>,
    },
    /// A range does not match its tags or cannot be read. Ranges come in their order.
    Bad {
        /// The sectors of 512 bytes; whole blocks.
        sectors: Range<u64>,
        /// What is wrong with the first block.
        reason: String,
        /// Whether that block's tag says that it was discarded.
        is_discarded: bool,
    },
    /// So many more bytes are done.
    Done {
        /// The number of bytes.
        bytes: u64,
    },
    /// Nothing is checked. It is the last event.
    Refused {
        /// Why.
        reason: String,
    },
    /// One that only a newer program knows.
    #[serde(other)]
    Unknown,
}

impl From<&BadRange> for CheckEvent {
    fn from(bad: &BadRange) -> Self {
        Self::Bad {
            sectors: bad.sectors.clone(),
            reason: bad.reason.to_string(),
            is_discarded: matches!(&bad.reason, BadReason::Mismatch(block) if block.is_discarded()),
        }
    }
}

/// Checks `volume`, and tells each event with `tell`, until that fails.
pub(crate) fn run(volume: &Volume, tell: &mut Tell<'_>) -> io::Result<()> {
    let teller = RefCell::new(Teller { tell, told: Ok(()) });
    let say = |event: &CheckEvent| teller.borrow_mut().say(event);
    say(&CheckEvent::Begun {
        size: volume.size(),
        unchecked_from: volume.recalculation_sector(),
    });
    let checked = volume.check(
        threads(),
        &mut |bad| say(&CheckEvent::from(&bad)),
        &mut |bytes| {
            say(&CheckEvent::Done { bytes });
            teller.borrow().go_on()
        },
    );
    if let Err(error @ VolumeError::Unverified) = &checked {
        let reason = error.to_string();
        teller.borrow_mut().say(&CheckEvent::Refused { reason });
        return teller.into_inner().told;
    }
    let told = teller.into_inner().told;
    told.and_then(|()| checked.map_err(io::Error::other))
}

/// Tells events, until that fails.
struct Teller<'a> {
    tell: &'a mut Tell<'a>,
    told: io::Result<()>,
}

impl Teller<'_> {
    fn say(&mut self, event: &CheckEvent) {
        if self.told.is_ok() {
            let message = serde_json::to_vec(event).map_err(io::Error::from);
            self.told = message.and_then(|message| {
                if message.len() > MAX_EVENT as usize {
                    Err(io::ErrorKind::InvalidInput.into())
                } else {
                    (self.tell)(&message)
                }
            });
        }
    }

    fn go_on(&self) -> ControlFlow<()> {
        if self.told.is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }
}

/// Half of the processors, so that clients have the others.
fn threads() -> NonZeroUsize {
    let all = available_parallelism().map_or(1, NonZeroUsize::get);
    NonZeroUsize::new(all / 2).unwrap_or(NonZeroUsize::MIN)
}

/// Has the process that serves the export at `socket` check its volume, while clients use it, and
/// passes each event to `heard`, and `None` if there was none for a moment. The first event is
/// [`CheckEvent::Begun`]; ranges are inside its size, and do not overlap. The process has `time` to
/// begin; the check may take any time, until `heard` cancels it.
///
/// # Errors
/// Any [`AskError`].
pub fn check_export(socket: &Path, time: Duration, heard: &mut Heard<'_>) -> Result<(), AskError> {
    let stream = connected(socket)?;
    choose(&mut Until::new(&stream, time), CHECK)?;
    stream.set_write_timeout(None)?;
    stream.set_read_timeout(Some(TICK))?;
    listen(&stream, heard)
}

/// Passes on events until the last one.
fn listen(server: impl Read, heard: &mut Heard<'_>) -> Result<(), AskError> {
    let mut order = Order::default();
    let mut server = Patient { server, heard };
    loop {
        let reply = read_reply(&mut server, CHECK, MAX_EVENT);
        let event = match reply.map_err(|error| AskError::of(error, AskError::Ended))? {
            Reply::Told(event) => serde_json::from_slice(&event).map_err(|_| AskError::NotOurs)?,
            Reply::Done => return Ok(()),
            Reply::Busy => return Err(AskError::Checking),
            Reply::Other => return Err(AskError::NotOurs),
        };
        if let CheckEvent::Refused { reason } = event {
            return Err(AskError::Unchecked(one_line(&reason).to_string()));
        }
        if !order.accepts(&event) {
            return Err(AskError::NotOurs);
        }
        if (server.heard)(Some(event)).is_break() {
            return Err(AskError::Cancelled);
        }
    }
}

/// Gets each event, and `None` if there was none for a moment; breaks to cancel the check.
type Heard<'a> = dyn FnMut(Option<CheckEvent>) -> ControlFlow<()> + 'a;

/// A server that may take any time, while the caller is asked whether to go on.
struct Patient<'a, 'h, S> {
    server: S,
    heard: &'a mut Heard<'h>,
}

impl<S: Read> Read for Patient<'_, '_, S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.server.read(buf) {
                Err(error) if is_pause(&error) => {
                    if (self.heard)(None).is_break() {
                        return Err(io::Error::other(AskError::Cancelled));
                    }
                }
                other => return other,
            }
        }
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// Checks the order of events, as the other process is not trusted.
#[derive(Debug, Default)]
struct Order {
    /// The number of sectors, after the beginning.
    end: Option<u64>,
    /// The first sector without a result.
    next: u64,
}

impl Order {
    fn accepts(&mut self, event: &CheckEvent) -> bool {
        match (event, self.end) {
            (CheckEvent::Begun { size, .. }, None) => {
                self.end = Some(size / SECTOR);
                true
            }
            (CheckEvent::Bad { sectors, .. }, Some(end)) => {
                let is_next = self.next <= sectors.start && sectors.start < sectors.end;
                self.next = sectors.end;
                is_next && sectors.end <= end
            }
            (CheckEvent::Done { .. } | CheckEvent::Unknown, Some(_)) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::tests::{ACK, ERR_POLICY, ERR_UNSUP, reply};

    fn begun() -> CheckEvent {
        CheckEvent::Begun {
            size: 8 * SECTOR,
            unchecked_from: Some(3),
        }
    }

    fn bad(sectors: Range<u64>) -> CheckEvent {
        CheckEvent::Bad {
            sectors,
            reason: "no match".to_owned(),
            is_discarded: true,
        }
    }

    #[test]
    fn events_are_read_as_they_were_written() {
        for event in [begun(), bad(1..2), CheckEvent::Done { bytes: u64::MAX }] {
            let json = serde_json::to_vec(&event).unwrap();
            assert_eq!(serde_json::from_slice::<CheckEvent>(&json).unwrap(), event);
        }
        let newer = r#"{"event": "pondered", "about": 7}"#;
        let event = serde_json::from_str::<CheckEvent>(newer).unwrap();
        assert_eq!(event, CheckEvent::Unknown);
    }

    #[test]
    fn only_events_in_their_order_are_accepted() {
        let is_accepted = |events: &[CheckEvent]| {
            let mut order = Order::default();
            events.iter().all(|event| order.accepts(event))
        };
        assert!(is_accepted(&[begun(), bad(0..2), bad(2..8)]));
        for wrong in [
            &[bad(0..1)][..],
            &[CheckEvent::Done { bytes: 0 }],
            &[begun(), begun()],
            &[begun(), bad(1..1)],
            #[expect(clippy::reversed_empty_ranges, reason = "a process could say it")]
            &[begun(), bad(2..1)],
            &[begun(), bad(7..9)],
            &[begun(), bad(2..4), bad(3..5)],
        ] {
            assert!(!is_accepted(wrong), "{wrong:?}");
        }
    }

    fn listen_to(sent: &[u8]) -> (Vec<CheckEvent>, Result<(), AskError>) {
        let mut events = Vec::new();
        let listened = listen(sent, &mut |event| {
            events.extend(event);
            ControlFlow::Continue(())
        });
        (events, listened)
    }

    fn sent(event: &CheckEvent) -> Vec<u8> {
        reply(CHECK, CHECK, &serde_json::to_vec(event).unwrap())
    }

    #[test]
    fn events_come_as_they_were_sent_until_the_last() {
        let events = [begun(), bad(0..2)];
        let sent = [sent(&events[0]), sent(&events[1]), reply(CHECK, ACK, b"")].concat();
        let (heard, listened) = listen_to(&sent);
        listened.unwrap();
        assert_eq!(heard, events);
        for len in 0..sent.len() {
            let (_, listened) = listen_to(&sent[..len]);
            assert!(matches!(listened, Err(AskError::Ended)), "{listened:?}");
        }
    }

    #[test]
    fn what_is_no_event_is_not_taken_for_one() {
        for wrong in [
            reply(CHECK, CHECK, b"no event"),
            reply(CHECK, CHECK, &[b' '; MAX_EVENT as usize + 1]),
            sent(&bad(0..2)),
            reply(CHECK, ERR_UNSUP, b""),
        ] {
            let (heard, listened) = listen_to(&wrong);
            assert!(heard.is_empty());
            assert!(matches!(listened, Err(AskError::NotOurs)), "{listened:?}");
        }
        let (_, busy) = listen_to(&reply(CHECK, ERR_POLICY, b""));
        assert!(matches!(busy, Err(AskError::Checking)), "{busy:?}");
        let reason = "all of it\nis zero".to_owned();
        match listen_to(&sent(&CheckEvent::Refused { reason })).1 {
            Err(AskError::Unchecked(reason)) => assert!(!reason.contains('\n')),
            other => panic!("{other:?}"),
        }
    }

    /// A server that needs a moment before each byte.
    struct Slow<'a>(&'a [u8], bool);

    impl Read for Slow<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                Err(io::ErrorKind::WouldBlock.into())
            } else {
                self.0.read(&mut buf[..1])
            }
        }
    }

    #[test]
    fn the_caller_can_cancel() {
        let sent = sent(&begun());
        for last in 0..=sent.len() {
            let mut heard = 0;
            let listened = listen(Slow(&sent, false), &mut |event| {
                assert_eq!(event.is_some(), heard == sent.len());
                heard += 1;
                if heard > last {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            assert!(matches!(listened, Err(AskError::Cancelled)), "{listened:?}");
            assert_eq!(heard, last + 1);
        }
    }
}
