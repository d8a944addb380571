use std::{path::Path, sync::Arc};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use verimount_names::printable;
use verimount_source::ReadAt;
use verimount_verity::{VerifiedReader, dm_verity::HashArea, parse_hex};

use crate::{
    opened::{in_blocks, open_source, refused, sidecar_path},
    options::{ReadArgs, parse_size},
};

/// The options for files with a dm-verity tree.
#[derive(Args)]
#[group(skip)]
pub(crate) struct DmVerityArgs {
    /// Accept only this root hash of the dm-verity tree (hexadecimal)
    #[arg(long, value_name = "HEX", value_parser = parse_root_hash, group = "trust")]
    root_hash: Option<RootHash>,
    /// Offset of the dm-verity superblock: in the file of --sidecar if given, else in the file
    /// itself
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "root_hash")]
    hash_offset: Option<u64>,
    /// Required number of data blocks, which the root hash does not cover
    #[arg(long, value_name = "N", requires = "root_hash")]
    data_blocks: Option<u64>,
}

/// A root hash of any algorithm. Only the superblock names the algorithm.
#[derive(Clone)]
pub(crate) struct RootHash(Vec<u8>);

fn parse_root_hash(text: &str) -> Result<RootHash, String> {
    match parse_hex(text) {
        Some(bytes) if !bytes.is_empty() => Ok(RootHash(bytes)),
        _ => Err("a root hash consists of hexadecimal digits".to_owned()),
    }
}

impl DmVerityArgs {
    /// The required root hash, if given.
    pub(crate) fn root_hash(&self) -> Option<&RootHash> {
        self.root_hash.as_ref()
    }

    /// Opens a verifying reader for the data in `source`, whose path is `path`.
    pub(crate) fn open(
        &self,
        root_hash: &RootHash,
        path: &Path,
        source: Arc<dyn ReadAt>,
        read: &ReadArgs,
    ) -> Result<VerifiedReader> {
        let shown = || printable(path).to_string();
        let area = self.find_hash_area(path, source, read)?;
        let actual = area.geometry().data_blocks();
        if let Some(expected) = self.data_blocks {
            ensure!(
                actual == expected,
                "{}: its hash area is for {actual} data blocks, not {expected}",
                shown()
            );
        }
        area.verified(&root_hash.0, read.verify_options())
            .map_err(|error| refused(path, error))
    }

    /// Finds the hash area: in the file itself if only `--hash-offset` was given, else in the file
    /// of `--sidecar` or in `FILE.verity`.
    fn find_hash_area(
        &self,
        path: &Path,
        source: Arc<dyn ReadAt>,
        read: &ReadArgs,
    ) -> Result<HashArea> {
        let (holder, area) = match (&read.sidecar, self.hash_offset) {
            (None, Some(offset)) => (path.to_owned(), HashArea::open_appended(source, offset)),
            (sidecar, offset) => {
                let sidecar = sidecar.clone().unwrap_or_else(|| sidecar_path(path));
                if !sidecar.exists() {
                    bail!(
                        "{} does not exist: give the location of the hash area with --sidecar or --hash-offset",
                        printable(&sidecar)
                    );
                }
                let hashes = in_blocks(open_source(&sidecar)?, read);
                let area = HashArea::open_beside(source, hashes, offset.unwrap_or(0));
                (sidecar, area)
            }
        };
        area.with_context(|| printable(&holder).to_string())
    }
}
