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

/// The most memory that the automaton of one rule takes before it runs, in bytes: what `globset`
/// allows, too.
const MAX_AUTOMATON: usize = 10 << 20;

/// The most memory that running it takes, in bytes: far more than the two paths of a move need.
const MAX_CACHE: usize = 2 << 20;

/// After how many states the search for a path that does not match is given up.
const MAX_STATES: usize = 256;

/// Which paths at a place match a rule's patterns: of a file its one path, of a directory all paths
/// below it, those that do not exist yet included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// None does.
    Nothing,
    /// All do.
    Everything,
    /// Some may: those that lead from this state to a match.
    From(LazyStateID),
    /// Nobody knows: the patterns are too large.
    Unknown,
}

impl Reach {
    /// Of a file's path, which matches or does not.
    pub(super) fn of_file(matches: bool) -> Self {
        match matches {
            true => Self::Everything,
            false => Self::Nothing,
        }
    }

    /// Whether certainly each path that matches here matches at the other place, too. Both are
    /// places of one move, and of one rule.
    pub(super) fn is_within(self, other: Self) -> bool {
        match (self, other) {
            (Self::Nothing, _) | (_, Self::Everything) => true,
            (Self::From(state), Self::From(other)) => state == other,
            _ => false,
        }
    }
}

/// Tells what patterns match below directories: it reads the directory's path and looks at the
/// state that leads to.
#[derive(Debug)]
pub(super) struct Below(Box<DFA>);

impl Below {
    /// Of patterns as regular expressions, of which any may match.
    pub(super) fn new(patterns: &[&str]) -> Result<Self, Box<BuildError>> {
        let bytes = syntax::Config::new().utf8(false).dot_matches_new_line(true);
        let size = thompson::Config::new()
            .utf8(false)
            .nfa_size_limit(Some(MAX_AUTOMATON));
        // With one cache for each move, equal states have equal numbers: it must never be cleared.
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

    /// What matches below two directories.
    pub(super) fn reaches(&self, from: &Path, to: &Path) -> (Reach, Reach) {
        let mut cache = self.0.create_cache();
        let mut reach = |directory| {
            let reach = self.reach(&mut cache, directory);
            reach.unwrap_or(Reach::Unknown)
        };
        (reach(from), reach(to))
    }

    /// `None` if the cache is too small for it.
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

    /// Whether each path that goes on from a state certainly matches.
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
