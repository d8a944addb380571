use crate::{cluster::Cluster, space::Address};

/// A part of a file's content that is stored in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) stored: Stored,
    /// Its length in bytes, not 0.
    pub(crate) len: u64,
}

/// How a part of a file's content is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    /// Not at all: it is zeros.
    Hole,
    /// As it is.
    Plain(Place),
    /// In the content of the packed inode, at this offset.
    Fragment(u64),
    /// Compressed, with others in front of it.
    Compressed {
        cluster: Cluster,
        /// How many bytes of the decompressed cluster are in front of it.
        skip: u64,
    },
}

/// Where bytes are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// On a device.
    Device {
        /// 0 for the image itself.
        device: u16,
        /// Offset in bytes.
        at: u64,
    },
    /// Among metadata.
    Metadata(Address),
}

impl Place {
    /// `len` bytes further on; `None` if no offset is that large.
    pub(crate) fn plus(self, len: u64) -> Option<Self> {
        match self {
            Self::Device { device, at } => Some(Self::Device {
                device,
                at: at.checked_add(len)?,
            }),
            Self::Metadata(address) => address.plus(len).map(Self::Metadata),
        }
    }
}

impl Piece {
    /// This piece and the one that follows it in the file as one; `None` if they are not read at once.
    pub(crate) fn joined(self, next: Self) -> Option<Self> {
        let adjoins = match (self.stored, next.stored) {
            (Stored::Hole, Stored::Hole) => true,
            (Stored::Plain(place @ Place::Device { .. }), Stored::Plain(next)) => {
                place.plus(self.len) == Some(next)
            }
            _ => false,
        };
        let len = self.len.checked_add(next.len).filter(|_| adjoins)?;
        Some(Self { len, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(device: u16, at: u64, len: u64) -> Piece {
        let stored = Stored::Plain(Place::Device { device, at });
        Piece { stored, len }
    }

    #[test]
    fn what_is_read_at_once_is_joined() {
        let joined = plain(1, 10, 5).joined(plain(1, 15, 6));
        assert_eq!(joined, Some(plain(1, 10, 11)));
        assert_eq!(plain(1, 10, 5).joined(plain(1, 16, 6)), None);
        assert_eq!(plain(1, 10, 5).joined(plain(2, 15, 6)), None);
        let hole = |len| Piece {
            stored: Stored::Hole,
            len,
        };
        assert_eq!(hole(3).joined(hole(4)), Some(hole(7)));
        assert_eq!(hole(3).joined(plain(0, 3, 1)), None);
        assert_eq!(hole(u64::MAX).joined(hole(1)), None);
    }
}
