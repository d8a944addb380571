use std::mem;

use zstd_safe::{CCtx, CParameter, SafeResult, compress_bound, get_error_name};

use super::{
    Filled,
    search::{Search, Trial},
};
use crate::{
    block_size::BlockSize,
    writer::{BuildError, compress::ZstdLevel},
};

/// How many times the size of a cluster a window has: what is compressed to a cluster is hardly longer.
const WINDOW_PER_CLUSTER: u64 = 8;

/// The base-2 logarithms of the smallest window of the algorithm, and of the largest one that the kernel reads.
const WINDOW_BITS: (u32, u32) = (10, 20);

/// How many times the size of a cluster is compressed first, in halves.
const FIRST_GUESS: usize = 5;

/// Zstandard, whose library only compresses whole inputs: how much fits is searched for.
pub(in crate::writer::compress) struct Zstd {
    context: CCtx<'static>,
    block: usize,
    cluster: usize,
    /// How much input probably fits.
    guess: usize,
    /// The best result so far.
    best: Vec<u8>,
    /// The result of another trial.
    trial: Vec<u8>,
}

/// The base-2 logarithm of the window for clusters of this size in bytes.
pub(in crate::writer::compress) fn window_bits(cluster: u64) -> u32 {
    let (least, most) = WINDOW_BITS;
    let window = cluster.saturating_mul(WINDOW_PER_CLUSTER);
    window.ilog2().clamp(least, most)
}

/// The most bytes that the library and its results take.
pub(super) fn memory(level: ZstdLevel, cluster: u64) -> u64 {
    /// What it takes besides tables.
    const OTHERS: u64 = 3 << 20;
    // The tables are no larger than the window allows, and at the lower levels smaller.
    let by_window = 16 << window_bits(cluster);
    let by_level = match level.get() {
        ..=4 => 2 << 20,
        5..=8 => 6 << 20,
        _ => u64::MAX,
    };
    by_level.min(by_window) + OTHERS + 16 * cluster
}

impl Zstd {
    pub(super) fn new(
        level: ZstdLevel,
        cluster: usize,
        block: BlockSize,
    ) -> Result<Self, BuildError> {
        let mut context = CCtx::create();
        for parameter in [
            CParameter::CompressionLevel(level.get().into()),
            CParameter::WindowLog(window_bits(cluster as u64)),
        ] {
            checked(context.set_parameter(parameter))?;
        }
        Ok(Self {
            context,
            block: block.bytes() as usize,
            cluster,
            guess: cluster * FIRST_GUESS / 2,
            best: Vec::new(),
            trial: Vec::new(),
        })
    }

    pub(super) fn restart(&mut self) {
        self.guess = self.cluster * FIRST_GUESS / 2;
    }

    pub(super) fn fill(&mut self, input: &[u8]) -> Result<Option<Filled<'_>>, BuildError> {
        let mut search = Search::new(self.block, self.cluster, input.len());
        let mut next = Some(search.first(self.guess));
        while let Some(taken) = next {
            let len = self.compress(&input[..taken])?;
            next = search.judge(Trial { taken, len });
            if search.is_best(taken) {
                mem::swap(&mut self.best, &mut self.trial);
            }
        }
        let Some(best) = search.best() else {
            return Ok(None);
        };
        self.guess = best.taken;
        Ok(Some(Filled {
            taken: best.taken,
            bytes: &self.best[..best.len],
        }))
    }

    /// Compresses an input; returns the length of the result.
    fn compress(&mut self, input: &[u8]) -> Result<usize, BuildError> {
        let most = compress_bound(input.len());
        if self.trial.len() < most {
            self.trial.resize(most, 0);
        }
        checked(self.context.compress2(&mut self.trial[..], input))
    }
}

fn checked(result: SafeResult) -> Result<usize, BuildError> {
    result
        .map_err(|code| BuildError::Format(format!("compressing: {}", get_error_name(code)).into()))
}
