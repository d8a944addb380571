use std::time::{Duration, SystemTime};

use quick_cache::sync::Cache;
use verimount_fuse::{Attr, NodeId, Time};

/// How many files are remembered. All others count as changed.
const MAX_FILES: usize = 1 << 16;

/// The longest tick of the system's clock. Two changes within a tick can have the same times.
const TICK: Duration = Duration::from_millis(10);

/// The longest tick where the times of files have a resolution of one or two seconds.
const COARSE_TICK: Duration = Duration::from_secs(2).saturating_add(TICK);

/// Stamps of files at the time when the kernel began to cache their pages, to find out whether their
/// content may have changed since.
pub(crate) struct LastSeen(Cache<NodeId, Seen>);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    stamp: Stamp,
    /// Whether the kernel has certainly dropped older pages.
    is_settled: bool,
}

/// The attributes that differ after a change of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    size: u64,
    mtime: Time,
    ctime: Time,
}

impl Stamp {
    pub(crate) fn new(attr: &Attr) -> Self {
        Self {
            size: attr.size,
            mtime: attr.mtime,
            ctime: attr.ctime,
        }
    }
}

/// What the kernel is to do with the cached pages of a file that is being opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// They are valid: keep them.
    Keep,
    /// They may be stale: drop them. Pages cached from now on may be stale at the next open as well.
    Drop,
    /// They may be stale: drop them. Pages cached from now on are valid while the file has this stamp.
    /// [`LastSeen::dropped`] must be called once the old ones are dropped. The kernel does not report
    /// that, but any later request for the open file implies it.
    DropBefore(Stamp),
}

impl Default for LastSeen {
    fn default() -> Self {
        Self(Cache::new(MAX_FILES))
    }
}

impl LastSeen {
    /// Decides about the cached pages of a file that had this stamp at `asked` or later.
    /// `can_change_unnoticed` returns whether content could change without a new stamp.
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
        if is_within_tick(stamp.ctime, asked) || can_change_unnoticed() {
            self.forget(node);
            return Pages::Drop;
        }
        let is_settled = false;
        self.0.insert(node, Seen { stamp, is_settled });
        Pages::DropBefore(stamp)
    }

    /// Notes that the kernel has dropped the pages, as [`Pages::DropBefore`] requested.
    pub(crate) fn dropped(&self, node: NodeId, stamp: Stamp) {
        let seen = |is_settled| Seen { stamp, is_settled };
        if self.0.get(&node) == Some(seen(false)) {
            self.0.insert(node, seen(true));
        }
    }

    /// Notes that a file will change without its cached pages.
    pub(crate) fn forget(&self, node: NodeId) {
        self.0.remove(&node);
    }
}

/// Whether a change at `now` could get the same `time`.
fn is_within_tick(time: Time, now: SystemTime) -> bool {
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
    const CHANGED: Time = Time {
        seconds: 1_000_000,
        nanoseconds: 999_999_999,
    };

    fn looks(size: u64) -> Stamp {
        Stamp {
            size,
            mtime: CHANGED,
            ctime: CHANGED,
        }
    }

    /// The time `nanoseconds` after the change.
    fn after(nanoseconds: u64) -> SystemTime {
        let changed = Duration::new(CHANGED.seconds as u64, CHANGED.nanoseconds);
        SystemTime::UNIX_EPOCH + changed + Duration::from_nanos(nanoseconds)
    }

    /// The decision for a file that cannot be changed unnoticed.
    fn pages(seen: &LastSeen, look: Stamp, asked: SystemTime) -> Pages {
        seen.pages(NODE, look, asked, || false)
    }

    #[test]
    fn pages_are_kept_once_older_ones_are_dropped() {
        let (seen, look, now) = (LastSeen::default(), looks(1), after(1 << 30));
        // The kernel may not have dropped them for the first open when the second comes.
        for _ in 0..2 {
            assert_eq!(pages(&seen, look, now), Pages::DropBefore(look));
        }
        seen.dropped(NODE, look);
        assert_eq!(pages(&seen, look, now), Pages::Keep);
        seen.forget(NODE);
        assert_eq!(pages(&seen, look, now), Pages::DropBefore(look));
    }

    #[test]
    fn a_drop_before_a_change_does_not_count() {
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
    fn pages_of_a_file_that_has_just_changed_are_not_kept() {
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
    fn whole_seconds_count_as_a_coarse_clock() {
        let seen = LastSeen::default();
        let changed = Time {
            nanoseconds: 0,
            ..CHANGED
        };
        let look = Stamp {
            ctime: changed,
            ..looks(1)
        };
        // `after` counts from `CHANGED`, which is almost a second later than `changed`.
        assert_eq!(pages(&seen, look, after(1_000_000_000)), Pages::Drop);
        let later = after(2_000_000_000);
        assert_eq!(pages(&seen, look, later), Pages::DropBefore(look));
    }

    #[test]
    fn pages_of_a_file_that_can_change_unnoticed_are_not_kept() {
        let (seen, look, now) = (LastSeen::default(), looks(1), after(1 << 30));
        assert_eq!(pages(&seen, look, now), Pages::DropBefore(look));
        for _ in 0..2 {
            assert_eq!(seen.pages(NODE, look, now, || true), Pages::Drop);
            // For the first open, whose stamp is forgotten.
            seen.dropped(NODE, look);
        }
        pages(&seen, look, now);
        seen.dropped(NODE, look);
        // When these pages began to be cached, nobody could change the file unnoticed. A writer who came
        // later has changed the times.
        assert_eq!(seen.pages(NODE, look, now, || true), Pages::Keep);
    }
}
