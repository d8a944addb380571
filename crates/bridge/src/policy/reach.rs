use std::{collections::HashSet, os::unix::ffi::OsStrExt, path::Path};

use regex_automata::{
    Anchored, MatchKind,
    hybrid::{
        BuildError, LazyStateID,
        dfa::{Cache, DFA},
    },
    nfa::thompson,
    util::{alphabet::Unit, start, syntax},
};

/// Memory limit of the automaton of one rule before it runs, in bytes, as in `globset`.
const MAX_AUTOMATON: usize = 10 << 20;

/// Memory limit of running it, in bytes: far more than the two paths of a move need.
const MAX_CACHE: usize = 2 << 20;

/// The most states that are searched for a path that does not match.
const MAX_STATES: usize = 256;

/// Which paths match a rule's patterns: for a file, its own path; for a directory, all possible
/// paths below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// None match.
    Nothing,
    /// All match.
    Everything,
    /// Those that lead from this state to a match.
    From(LazyStateID),
    /// Unknown: the patterns are too large.
    Unknown,
}

impl Reach {
    /// The reach for a file whose path matches or not.
    pub(super) fn of_file(matches: bool) -> Self {
        if matches {
            Self::Everything
        } else {
            Self::Nothing
        }
    }

    /// Whether certainly every path that matches here also matches at the other end of the move.
    /// Both must be from one move and one rule.
    pub(super) fn is_within(self, other: Self) -> bool {
        match (self, other) {
            (Self::Nothing, _) | (_, Self::Everything) => true,
            (Self::From(state), Self::From(other)) => state == other,
            _ => false,
        }
    }
}

/// Finds out what patterns match below a directory: runs an automaton over the directory's path,
/// and examines the resulting state.
#[derive(Debug)]
pub(super) struct Below(Box<DFA>);

impl Below {
    /// Takes regular expressions, any of which may match.
    pub(super) fn new(patterns: &[&str]) -> Result<Self, Box<BuildError>> {
        let bytes = syntax::Config::new().utf8(false).dot_matches_new_line(true);
        let size = thompson::Config::new()
            .utf8(false)
            .nfa_size_limit(Some(MAX_AUTOMATON));
        // A move uses one cache, which must never be cleared, so that equal states have equal ids.
        let run = DFA::config()
            .match_kind(MatchKind::All)
            .cache_capacity(MAX_CACHE)
            .skip_cache_capacity_check(true)
            .minimum_cache_clear_count(Some(0));
        DFA::builder()
            .syntax(bytes)
            .thompson(size)
            .configure(run)
            .build_many(patterns)
            .map(|automaton| Self(Box::new(automaton)))
            .map_err(Box::new)
    }

    /// The paths that match below two directories.
    pub(super) fn reaches(&self, from: &Path, to: &Path) -> (Reach, Reach) {
        let mut cache = self.0.create_cache();
        let mut reach = |directory| {
            let reach = self.reach(&mut cache, directory);
            reach.unwrap_or(Reach::Unknown)
        };
        (reach(from), reach(to))
    }

    /// `None` if the cache is too small.
    fn reach(&self, cache: &mut Cache, directory: &Path) -> Option<Reach> {
        let start = start::Config::new().anchored(Anchored::Yes);
        let mut state = self.0.start_state(cache, &start).ok()?;
        for byte in directory.as_os_str().as_bytes().iter().chain(b"/") {
            state = self.0.next_state(cache, state, *byte).ok()?;
        }
        Some(match state {
            dead if dead.is_dead() => Reach::Nothing,
            _ if self.matches_all_from(cache, state)? => Reach::Everything,
            _ => Reach::From(state),
        })
    }

    /// Whether certainly every continuation from a state matches.
    fn matches_all_from(&self, cache: &mut Cache, state: LazyStateID) -> Option<bool> {
        let classes = self.0.byte_classes();
        let mut seen = HashSet::from([state]);
        let mut unseen = vec![state];
        while let Some(state) = unseen.pop() {
            let at_end = self.0.next_eoi_state(cache, state).ok()?;
            if !at_end.is_match() || seen.len() > MAX_STATES {
                return Some(false);
            }
            for byte in classes.representatives(..).filter_map(Unit::as_u8) {
                let next = self.0.next_state(cache, state, byte).ok()?;
                if seen.insert(next) {
                    unseen.push(next);
                }
            }
        }
        Some(true)
    }
}
