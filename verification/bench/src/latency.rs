//! Verified reads from storage with latency, as over a network.

use std::{
    fs::{self, File},
    num::NonZeroUsize,
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use verimount_source::{ReadAt, Scratch};
use verimount_testkit::Slow;
use verimount_verity::{
    SealLayout, Sealed, TreeParams, Trust, VerifiedReader, VerifyOptions, seal,
};

use crate::{
    data,
    lab::Lab,
    report::{Compare, Report},
    rounds::{Contest, Spread},
};

/// The name of the ratio that [`run`] returns.
pub(crate) const REQUIREMENT: &str = "5 ms a request, sequential: time / unverified";

/// The latency of each request.
const DELAY: Duration = Duration::from_millis(5);

/// The size of a read: the kernel's largest request to a mount.
const READ: usize = 1 << 20;

const UNVERIFIED: &str = "unverified";
const AHEAD: &str = "verimount, tree read-ahead on";
const ALONE: &str = "verimount, tree read-ahead off";

/// Reads a file in memory sequentially with this latency; returns the time with verification as a multiple
/// of the time without.
pub(crate) fn run(lab: &Lab, report: &mut Report) -> Result<Spread> {
    let plain = lab.path("slow.bin");
    data::write_file(&plain, lab.sizes.seed_file)?;
    let data: Arc<Vec<u8>> = Arc::new(fs::read(&plain)?);
    let sidecar = lab.path("slow.bin.verity");
    let params = TreeParams::default();
    let to = File::create(&sidecar)?;
    seal(
        &*data,
        &to,
        SealLayout::Sidecar,
        &params,
        NonZeroUsize::MIN,
        &mut |_| ControlFlow::Continue(()),
    )?;
    let sidecar: Arc<Vec<u8>> = Arc::new(fs::read(sidecar)?);

    let slow = |bytes: &Arc<Vec<u8>>| Arc::new(Slow::new(Arc::clone(bytes), DELAY));
    let verified = |tree_readahead| {
        let sealed = Sealed::open_sidecar(slow(&data), slow(&sidecar))?;
        let options = VerifyOptions {
            tree_readahead,
            ..VerifyOptions::default()
        };
        let trust = Trust::Digest(sealed.file_digest());
        let reader = VerifiedReader::new(sealed.accepted_by(&trust)?, options)?;
        seconds_to_read(&reader, &data)
    };
    let samples = Contest::default()
        .variant(UNVERIFIED, || seconds_to_read(&*slow(&data), &data))
        .variant(AHEAD, || verified(VerifyOptions::DEFAULT_TREE_READAHEAD))
        .variant(ALONE, || verified(0))
        .run(lab.rounds)?;
    let bytes = data.len() as u64;
    let title = format!("Sequential reads of {} MiB, 5 ms a request", bytes >> 20);
    report.times(&title, &samples, Compare::Speed { bytes })?;
    samples.ratio(AHEAD, UNVERIFIED)
}

/// The time of reading the whole `source`, whose content must be `expected`.
fn seconds_to_read(source: &dyn ReadAt, expected: &[u8]) -> Result<f64> {
    let mut scratch = Scratch::default();
    let mut waited = Duration::ZERO;
    for (index, expected) in expected.chunks(READ).enumerate() {
        let start = Instant::now();
        let bytes = source.read_borrowed(&mut scratch, (index * READ) as u64, expected.len())?;
        waited += start.elapsed();
        ensure!(bytes == expected, "other bytes were read");
    }
    Ok(waited.as_secs_f64())
}
