use std::time::{Duration, SystemTime};

use quick_cache::sync::Cache;
use verimount_bridge::{Attr, NodeId, Timestamp};

/// How many files are remembered. What has been forgotten counts as changed.
const MAX_FILES: usize = 1 << 16;

/// What is changed twice within a tick of the system's clock may have the same times before and
/// after. Ticks are 10 ms at most.
const TICK: Duration = Duration::from_millis(10);

/// The same for a file system that notes whole seconds only, or each second one.
const COARSE_TICK: Duration = Duration::from_secs(2).saturating_add(TICK);

/// What files looked like when pages of theirs began to be cached, to tell whether their content
/// may have changed since.
pub(crate) struct LastSeen(Cache<NodeId, Seen>);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    stamp: Stamp,
    /// Whether older pages are certainly gone.
    is_settled: bool,
}

/// What tells a file from what it was before a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    size: u64,
    modified: Timestamp,
    changed: Timestamp,
}

impl Stamp {
    pub(crate) fn new(attr: &Attr) -> Self {
        Self {
            size: attr.size,
            modified: attr.modified,
            changed: attr.changed,
        }
    }
}

/// What the kernel is to do with pages that it may have of a file that is being opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// They still hold.
    Keep,
    /// They may not hold, nor may those that are read from now on when the next one opens it.
    Drop,
    /// They may not hold, but those that are read from now on do while the file looks like this.
    /// [`LastSeen::dropped`] is to be called when they are gone: the kernel does not tell, but
    /// whatever it asks of the open file comes after.
    DropBefore(Stamp),
}

impl Default for LastSeen {
    fn default() -> Self {
        Self(Cache::new(MAX_FILES))
    }
}

impl LastSeen {
    /// What is to be done with the pages of a file that looked like this no earlier than at `asked`.
    /// `can_change_unnoticed` says whether it could then be changed without looking different.
    pub(crate) fn pages(
        &self,
        node: NodeId,
        stamp: Stamp,
        asked: SystemTime,
        can_change_unnoticed: impl FnOnce() -> bool,
    ) -> Pages {
        let settled = Seen {
            stamp,
            is_settled: true,
        };
        if self.0.get(&node) == Some(settled) {
            return Pages::Keep;
        }
        if is_within_tick(stamp.changed, asked) || can_change_unnoticed() {
            self.forget(node);
            return Pages::Drop;
        }
        let is_settled = false;
        self.0.insert(node, Seen { stamp, is_settled });
        Pages::DropBefore(stamp)
    }

    /// Notes that an open has had pages dropped, as [`Pages::DropBefore`] said.
    pub(crate) fn dropped(&self, node: NodeId, stamp: Stamp) {
        let seen = |is_settled| Seen { stamp, is_settled };
        if self.0.get(&node) == Some(seen(false)) {
            self.0.insert(node, seen(true));
        }
    }

    /// Notes that a file will change without the kernel's pages.
    pub(crate) fn forget(&self, node: NodeId) {
        self.0.remove(&node);
    }
}

/// Whether a change at `now` might get this `time`, too.
fn is_within_tick(time: Timestamp, now: SystemTime) -> bool {
    let Ok(now) = now.duration_since(SystemTime::UNIX_EPOCH) else {
        return true;
    };
    let seconds = u64::try_from(time.seconds).unwrap_or_default();
    let time = Duration::new(seconds, time.nanoseconds);
    let tick = match time.subsec_nanos() {
        0 => COARSE_TICK,
        _ => TICK,
    };
    now.saturating_sub(time) <= tick
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(7);
    const CHANGED: Timestamp = Timestamp {
        seconds: 1_000_000,
        nanoseconds: 999_999_999,
    };

    fn looks(size: u64) -> Stamp {
        Stamp {
            size,
            modified: CHANGED,
            changed: CHANGED,
        }
    }

    /// A time so long after the change.
    fn after(nanoseconds: u64) -> SystemTime {
        let changed = Duration::new(CHANGED.seconds as u64, CHANGED.nanoseconds);
        SystemTime::UNIX_EPOCH + changed + Duration::from_nanos(nanoseconds)
    }

    /// What is to be done with the pages of a file that nobody can change unnoticed.
    fn pages(seen: &LastSeen, look: Stamp, asked: SystemTime) -> Pages {
        seen.pages(NODE, look, asked, || false)
    }

    #[test]
    fn pages_hold_once_older_ones_are_gone() {
        let (seen, look, now) = (LastSeen::default(), looks(1), after(1 << 30));
        // The first open may not have dropped them yet when the second comes.
        for _ in 0..2 {
            assert_eq!(pages(&seen, look, now), Pages::DropBefore(look));
        }
        seen.dropped(NODE, look);
        assert_eq!(pages(&seen, look, now), Pages::Keep);
        seen.forget(NODE);
        assert_eq!(pages(&seen, look, now), Pages::DropBefore(look));
    }

    #[test]
    fn what_was_dropped_before_a_change_does_not_count() {
        let (seen, now) = (LastSeen::default(), after(1 << 30));
        let (before, changed) = (looks(1), looks(2));
        pages(&seen, before, now);
        pages(&seen, changed, now);
        seen.dropped(NODE, before);
        assert_eq!(pages(&seen, changed, now), Pages::DropBefore(changed));
        seen.dropped(NODE, changed);
        assert_eq!(pages(&seen, changed, now), Pages::Keep);
    }

    #[test]
    fn what_has_just_changed_may_change_again_unseen() {
        let (seen, look) = (LastSeen::default(), looks(1));
        let tick = TICK.as_nanos() as u64;
        assert_eq!(pages(&seen, look, after(tick)), Pages::Drop);
        seen.dropped(NODE, look);
        let later = after(tick + 1);
        assert_eq!(pages(&seen, look, later), Pages::DropBefore(look));
        seen.dropped(NODE, look);
        assert_eq!(pages(&seen, look, later), Pages::Keep);
    }

    #[test]
    fn a_coarse_clock_ticks_slowly() {
        let seen = LastSeen::default();
        let changed = Timestamp {
            nanoseconds: 0,
            ..CHANGED
        };
        let look = Stamp {
            changed,
            ..looks(1)
        };
        // From `changed` on it is a second and a nanosecond more.
        assert_eq!(pages(&seen, look, after(1_000_000_000)), Pages::Drop);
        let later = after(2_000_000_000);
        assert_eq!(pages(&seen, look, later), Pages::DropBefore(look));
    }

    #[test]
    fn what_can_change_unnoticed_is_never_kept() {
        let (seen, look, now) = (LastSeen::default(), looks(1), after(1 << 30));
        assert_eq!(pages(&seen, look, now), Pages::DropBefore(look));
        for _ in 0..2 {
            assert_eq!(seen.pages(NODE, look, now, || true), Pages::Drop);
            // An open of before.
            seen.dropped(NODE, look);
        }
        pages(&seen, look, now);
        seen.dropped(NODE, look);
        // Nobody could when these began to be cached: whoever came later has changed the times.
        assert_eq!(seen.pages(NODE, look, now, || true), Pages::Keep);
    }
}
