use verimount_tree::Timestamp;

use crate::Exclude;

/// What of a tree is taken, and what is changed in it. By default, all of it as it is.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What is left out.
    pub exclude: Exclude,
    /// The modification times.
    pub times: Times,
    /// Owner and group of everything, in the place of those in the tree.
    pub owner: Option<Owner>,
    /// The extended attributes.
    pub attributes: AttributeChoice,
}

/// Modification times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Times {
    /// Those of the tree.
    #[default]
    Kept,
    /// This one for everything.
    All(Timestamp),
    /// Those of the tree, and this one for what is later, as `SOURCE_DATE_EPOCH` asks for.
    AtMost(Timestamp),
}

/// Owner and group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Which extended attributes are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AttributeChoice {
    /// All that the caller can see, access control lists and file capabilities included.
    #[default]
    All,
    /// Those whose names begin with `user.`.
    User,
    /// None.
    None,
}

impl Times {
    /// The time that is taken for one of the tree.
    pub(crate) fn apply(self, time: Timestamp) -> Timestamp {
        match self {
            Self::Kept => time,
            Self::All(all) => all,
            Self::AtMost(latest) => time.min(latest),
        }
    }
}

impl AttributeChoice {
    /// Whether an attribute of this name is taken.
    pub(crate) fn includes(self, name: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::User => name.starts_with(b"user."),
            Self::None => false,
        }
    }
}
