use crate::{
    Error,
    cluster::Cluster,
    decode::Algorithm,
    error::Defect,
    image::Image,
    piece::{Piece, Place, Stored},
    space::Address,
};

/// The most bytes of an extent: no program that makes images makes longer ones, and the kernel reads none.
pub(crate) const MAX_EXTENT: u64 = 12 << 20;

/// The most bytes of a compressed cluster.
const MAX_CLUSTER: u64 = 1 << 20;

/// A part of a file that is compressed as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// Where it begins in the file.
    pub(crate) start: u64,
    /// Where it ends, behind `start`.
    pub(crate) end: u64,
    pub(crate) data: Data,
}

/// The data of an extent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Data {
    Hole,
    /// In the packed inode, from this offset on.
    Fragment(u64),
    /// In a cluster of this length in bytes.
    Cluster {
        at: Location,
        len: u64,
        coding: Coding,
    },
}

/// Where a cluster is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Location {
    /// This byte of the image, or of one of its devices.
    Image(u64),
    /// Among metadata.
    Metadata(Address),
}

/// How a cluster holds the data.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Coding {
    /// As it is.
    Shifted,
    /// As it is, each byte as far behind the beginning of a block as it is in the file.
    Interlaced,
    Compressed(Algorithm),
}

impl Extent {
    /// Whether its data is in the packed inode.
    pub(crate) fn is_fragment(&self) -> bool {
        matches!(self.data, Data::Fragment(_))
    }

    /// The part from byte `offset` of the file on. The extent is from the map at `map`.
    pub(crate) fn piece(&self, image: &Image, map: Address, offset: u64) -> Result<Piece, Error> {
        let corrupt = |defect: Defect| Error::from(defect.at(map));
        let skip = offset.checked_sub(self.start).filter(|_| offset < self.end);
        let skip = skip.ok_or(corrupt(Defect::ClusterMap))?;
        let mut len = self.end.saturating_sub(offset);
        let stored = match self.data {
            Data::Hole => Stored::Hole,
            Data::Fragment(at) => {
                let at = at.checked_add(skip);
                Stored::Fragment(at.ok_or(corrupt(Defect::Address))?)
            }
            Data::Cluster {
                at,
                len: stored,
                coding,
            } => {
                if !(1..=MAX_CLUSTER).contains(&stored) {
                    return Err(corrupt(Defect::ClusterLen));
                }
                let place = at.place(image, stored)?;
                let plain = |from: u64| {
                    let place = place.plus(from).ok_or(corrupt(Defect::Address))?;
                    Ok::<_, Error>(Stored::Plain(place))
                };
                match coding {
                    Coding::Compressed(algorithm) => Stored::Compressed {
                        cluster: self.cluster(algorithm, place, stored).map_err(corrupt)?,
                        skip,
                    },
                    _ if self.len() > stored => return Err(corrupt(Defect::ClusterLen)),
                    Coding::Shifted => plain(skip)?,
                    Coding::Interlaced => {
                        // What is in front of the end of the file's block is at the end of the cluster.
                        let block = image.superblock.block_size;
                        let inside = block.offset_in_block(self.start);
                        let first = block.bytes().saturating_sub(inside);
                        if skip < first {
                            len = len.min(first.saturating_sub(skip));
                            let from = stored.checked_sub(first);
                            plain(
                                from.ok_or(corrupt(Defect::ClusterLen))?
                                    .saturating_add(skip),
                            )?
                        } else {
                            plain(skip.saturating_sub(first))?
                        }
                    }
                }
            }
        };
        Ok(Piece { stored, len })
    }

    fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    fn cluster(&self, algorithm: Algorithm, place: Place, stored: u64) -> Result<Cluster, Defect> {
        if self.len() <= MAX_EXTENT {
            Ok(Cluster {
                place,
                stored,
                len: self.len(),
                algorithm,
            })
        } else {
            Err(Defect::ClusterLen)
        }
    }
}

impl Location {
    /// Where `len` bytes are. Among metadata they must not cross the end of a block.
    fn place(self, image: &Image, len: u64) -> Result<Place, Error> {
        match self {
            Self::Image(at) => image.devices.locate(0, at),
            Self::Metadata(at) => {
                let block = image.superblock.block_size;
                let end = block.offset_in_block(at.at).saturating_add(len);
                if end <= block.bytes() {
                    Ok(Place::Metadata(at))
                } else {
                    Err(Defect::InlineTail.at(at).into())
                }
            }
        }
    }
}
