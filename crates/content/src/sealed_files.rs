//! Files with seals, for tests.

use std::{
    fs::{self, File},
    num::NonZeroUsize,
    ops::ControlFlow,
    path::Path,
};

use verimount_verity::{FileDigest, SealLayout, TreeParams, dm_verity, seal};

use crate::RootHash;

/// Writes data with its seal behind it.
pub(crate) fn write_sealed(path: &Path, data: &[u8]) -> FileDigest {
    fs::write(path, data).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    sealed_in(&file, data, SealLayout::Appended)
}

/// Writes the seal of data.
pub(crate) fn write_seal(path: &Path, data: &[u8]) -> FileDigest {
    sealed_in(&File::create(path).unwrap(), data, SealLayout::Sidecar)
}

fn sealed_in(file: &File, data: &[u8], layout: SealLayout) -> FileDigest {
    let (params, threads) = (TreeParams::default(), NonZeroUsize::MIN);
    let go_on = &mut |_| ControlFlow::Continue(());
    let made = seal(&data.to_vec(), file, layout, &params, threads, go_on);
    made.unwrap().file_digest()
}

/// Writes the hash area of dm-verity of data.
pub(crate) fn write_hash_area(path: &Path, data: &[u8]) -> RootHash {
    let (params, threads) = (dm_verity::Params::default(), NonZeroUsize::MIN);
    let (file, layout) = (File::create(path).unwrap(), SealLayout::Sidecar);
    let go_on = &mut |_| ControlFlow::Continue(());
    let made = dm_verity::seal(&data.to_vec(), &file, layout, &params, threads, go_on);
    made.unwrap().root.into()
}
