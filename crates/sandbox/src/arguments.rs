use libc::c_int;
use seccompiler::{
    BackendError, SeccompCmpArgLen as Width, SeccompCmpOp as Compare, SeccompCondition, SeccompRule,
};

/// What a system call can reach by its arguments, which whoever lists it has to decide.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arguments {
    /// Nothing but numbers, memory and descriptors of this process: they may be any.
    Free,
    /// What is not this process's own, but for these cases: the call is made in any of them, and in no other.
    Only(&'static [Case]),
    /// What is not this process's own, by what the filter does not see: it is made with any arguments.
    Left(Left),
}

/// Conditions that all hold.
pub(crate) type Case = &'static [Condition];

/// What the filter leaves. `docs/threat-model/sandbox.md` has the table, with what else holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Left {
    /// Files are opened, made, renamed and removed, by their paths or handles. Landlock holds these.
    Opened,
    /// Files are looked at, not into.
    LookedAt,
    /// Attributes of files are read and set by their paths.
    Attributes,
    /// Files are locked.
    Locked,
    /// A thread acts as another user.
    Users,
    /// Capabilities are those of a process whose id is in memory.
    Capabilities,
    /// Messages go to addresses that are in memory.
    Addresses,
    /// Calls are made by entries of a ring.
    Rings,
}

/// What an argument must be. The first is 0. Of a number the kernel takes the lower 32 bits, and so does the filter.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Condition {
    /// Any of these numbers.
    Is(u8, &'static [c_int]),
    /// A number from 0 to this one.
    UpTo(u8, c_int),
    /// Any of these, of the bits in the mask.
    Bits(u8, c_int, &'static [c_int]),
    /// The id of this process.
    OwnId(u8),
    /// Neither that nor 0, which stands for the thread itself.
    OtherId(u8),
    /// No address.
    Null(u8),
}

impl Arguments {
    /// The rules of which any must hold; `None` if none must. `own` is the id of this process.
    pub(crate) fn rules(self, own: u32) -> Result<Option<Vec<SeccompRule>>, BackendError> {
        let Self::Only(cases) = self else {
            return Ok(None);
        };
        let mut rules = Vec::new();
        for case in cases {
            for conditions in combined(case, own)? {
                rules.push(SeccompRule::new(conditions)?);
            }
        }
        Ok(Some(rules))
    }
}

/// All ways in which all conditions of a case hold: one of each.
fn combined(case: Case, own: u32) -> Result<Vec<Vec<SeccompCondition>>, BackendError> {
    let mut ways = vec![Vec::new()];
    for condition in case {
        let alternatives = condition.alternatives(own)?;
        let extended = ways.iter().flat_map(|way: &Vec<_>| {
            let with = |alternative: &Vec<_>| [way.clone(), alternative.clone()].concat();
            alternatives.iter().map(with)
        });
        ways = extended.collect();
    }
    Ok(ways)
}

impl Condition {
    /// The ways in which it holds: in each, all that is compared must be so.
    fn alternatives(self, own: u32) -> Result<Vec<Vec<SeccompCondition>>, BackendError> {
        let own = u64::from(own);
        let any = |values: &[c_int], compare: Compare| {
            let each = values.iter().map(|value| bits(*value));
            each.map(|value| vec![(compare.clone(), value)]).collect()
        };
        let (argument, width, ways): (_, _, Vec<Vec<_>>) = match self {
            Self::Is(argument, values) => (argument, Width::Dword, any(values, Compare::Eq)),
            Self::UpTo(argument, most) => (argument, Width::Dword, any(&[most], Compare::Le)),
            Self::Bits(argument, mask, values) => {
                let compare = Compare::MaskedEq(bits(mask));
                (argument, Width::Dword, any(values, compare))
            }
            Self::OwnId(argument) => (argument, Width::Dword, vec![vec![(Compare::Eq, own)]]),
            Self::OtherId(argument) => {
                let neither = vec![(Compare::Ne, 0), (Compare::Ne, own)];
                (argument, Width::Dword, vec![neither])
            }
            Self::Null(argument) => (argument, Width::Qword, any(&[0], Compare::Eq)),
        };
        let condition =
            |(compare, value)| SeccompCondition::new(argument, width.clone(), compare, value);
        let ways = ways.into_iter();
        ways.map(|way| way.into_iter().map(condition).collect())
            .collect()
    }
}

/// The bits of a number of 32 bits.
fn bits(number: c_int) -> u64 {
    number.cast_unsigned().into()
}
