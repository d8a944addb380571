use crate::raw::cluster_type;

/// What an index tells of a logical cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    /// An extent begins in it.
    Head(Head),
    /// All of it belongs to an extent that began before.
    Following {
        /// How many logical clusters the beginning is behind.
        back: u64,
        /// How many logical clusters further on the next beginning may be: at least 1.
        forward: u64,
        /// How many blocks the extent's data has, if this tells.
        blocks: Option<u64>,
    },
}

/// The beginning of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: HeadKind,
    /// Where in the logical cluster it is, in bytes.
    pub(crate) offset: u64,
    /// The first block of its data.
    pub(crate) block: u64,
}

/// How the data of an extent is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadKind {
    /// As it is.
    Plain,
    /// By the first algorithm of the file.
    First,
    /// By the second one.
    Second,
}

impl HeadKind {
    /// The kind with this type; `None` if no extent begins.
    pub(crate) fn new(cluster_type: u16) -> Option<Self> {
        match cluster_type {
            cluster_type::PLAIN => Some(Self::Plain),
            cluster_type::FIRST => Some(Self::First),
            cluster_type::SECOND => Some(Self::Second),
            _ => None,
        }
    }
}

/// The number of blocks that is in the place of a distance back, if it is one.
pub(crate) fn blocks(distance: u16) -> Option<u64> {
    let has_blocks = distance & cluster_type::BLOCKS != 0;
    has_blocks.then_some(u64::from(distance & !cluster_type::BLOCKS))
}
