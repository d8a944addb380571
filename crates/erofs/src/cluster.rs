//! Compressed clusters: reading and decompressing them, and keeping those that were used last.

use std::sync::Arc;

use quick_cache::Weighter;
use verimount_source::{AlignedBuf, Kept, Scratch, keep};
use verimount_sync::Mutex;

use crate::{
    Error,
    decode::Algorithm,
    error::Defect,
    image::Image,
    numbers::{to_u64, to_usize},
    piece::Place,
    space::Address,
};

/// How many bytes of decompressed clusters are kept: several of the largest.
const KEPT_BYTES: u64 = 64 << 20;

/// How large a cluster is expected to be, in bytes.
const USUAL_LEN: u64 = 64 << 10;

/// Compressed data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Cluster {
    pub(crate) place: Place,
    /// Its length in bytes: at most 1 MiB.
    pub(crate) stored: u64,
    /// How many bytes are decompressed from it: at most 12 MiB. It may hold more, which other files use.
    pub(crate) len: u64,
    pub(crate) algorithm: Algorithm,
}

/// Decompressed clusters that were used last, and memory for compressed ones.
pub(crate) struct Clusters {
    kept: Kept<Cluster, Arc<AlignedBuf>, ByLength>,
    /// No more are made than clusters are decompressed at a time.
    idle: Mutex<Vec<Scratch>>,
}

#[derive(Debug, Clone)]
struct ByLength;

impl Weighter<Cluster, Arc<AlignedBuf>> for ByLength {
    fn weight(&self, _: &Cluster, bytes: &Arc<AlignedBuf>) -> u64 {
        to_u64(bytes.as_slice().len().saturating_add(AlignedBuf::ALIGNMENT))
    }
}

impl Default for Clusters {
    fn default() -> Self {
        Self {
            kept: keep(KEPT_BYTES, USUAL_LEN, ByLength),
            idle: Mutex::default(),
        }
    }
}

impl Image {
    /// The decompressed bytes of a cluster, which are kept for whoever reads the rest of them.
    pub(crate) fn decompressed(&self, cluster: &Cluster) -> Result<Arc<AlignedBuf>, Error> {
        self.clusters.kept.get_or_insert_with(cluster, || {
            let mut bytes = AlignedBuf::default();
            self.decompress(cluster, bytes.grown(to_usize(cluster.len)))?;
            Ok(Arc::new(bytes))
        })
    }

    /// Decompresses a cluster into `buf`, which is as long as its content.
    pub(crate) fn decompress(&self, cluster: &Cluster, buf: &mut [u8]) -> Result<(), Error> {
        self.work.add_cluster();
        let len = to_usize(cluster.stored);
        let decoded = match cluster.place {
            Place::Metadata(address) => self.decode(cluster, &self.bytes(address, len)?, buf),
            Place::Device { device, at } => {
                let mut scratch = self.clusters.idle.lock().pop().unwrap_or_default();
                let source = self.devices.get(device)?;
                let bytes = source.read_borrowed(&mut scratch, at, len)?;
                let decoded = self.decode(cluster, bytes, buf);
                self.clusters.idle.lock().push(scratch);
                decoded
            }
        };
        let at = match cluster.place {
            Place::Metadata(address) => address,
            Place::Device { at, .. } => Address::in_image(at),
        };
        decoded.ok_or(Defect::ClusterData.at(at).into())
    }

    fn decode(&self, cluster: &Cluster, bytes: &[u8], buf: &mut [u8]) -> Option<()> {
        let ends_with_block = self.superblock.has_zero_padding();
        let bytes = if ends_with_block || cluster.algorithm != Algorithm::Lz4 {
            // What does not fill the blocks is at their end.
            let start = bytes.iter().position(|byte| *byte != 0);
            bytes
                .get(start.unwrap_or(bytes.len())..)
                .unwrap_or_default()
        } else {
            bytes
        };
        cluster.algorithm.decode(bytes, buf)
    }
}
