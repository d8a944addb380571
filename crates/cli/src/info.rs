mod report;

use std::{
    io::{Write, stdout},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use verimount::image::describe;
use verimount_integrity::{Error as VolumeError, SECTOR, Superblock};
use verimount_names::printable;
use verimount_source::ReadAt;
use verimount_verity::{Error as VerityError, dm_verity::HashArea};

use self::report::{ImageInfo, Report, Seal, What};
use crate::{
    Outcome,
    opened::{look_for_seal, open_source, sidecar_path},
    options::parse_size,
    volume::VolumeInfo,
};

/// Show what a file is: a sealed file or image, with its digest, or a volume
///
/// Only the descriptor or superblock is read, and nothing is verified: anyone who can change the
/// file can change this information, too.
#[derive(Args)]
pub(crate) struct Info {
    /// The file or block device
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// File with the Merkle tree, if it is not at the end of the file or in FILE.verity
    #[arg(long, value_name = "PATH")]
    sidecar: Option<PathBuf>,
    /// Offset of the dm-verity superblock: in the file of --sidecar if given, else in the file
    /// itself
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    hash_offset: Option<u64>,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

impl Info {
    pub(crate) fn run(self) -> Result<Outcome> {
        let source: Arc<dyn ReadAt> = Arc::new(open_source(&self.file)?);
        let report = Report::new(self.shown(), source.size(), self.find(&source)?);
        let mut out = stdout().lock();
        Outcome::Good.reported(match self.json {
            true => writeln!(out, "{}", serde_json::to_string_pretty(&report)?),
            false => report.print(&mut out),
        })
    }

    fn shown(&self) -> String {
        printable(&self.file).to_string()
    }

    fn find(&self, source: &Arc<dyn ReadAt>) -> Result<What> {
        if let Some(volume) = self.volume(source)? {
            return Ok(What::Volume(volume));
        }
        if let Some(seal) = self.dm_verity(source)? {
            return self.sealed(seal, source);
        }
        let open = |sidecar: &Path| Ok(Arc::new(open_source(sidecar)?) as Arc<dyn ReadAt>);
        match look_for_seal(&self.file, source.clone(), self.sidecar.as_deref(), open) {
            Ok(Some(sealed)) => {
                let seal = Seal::of_fs_verity(&sealed, self.beside());
                let seal = seal.with_context(|| self.shown())?;
                self.sealed(seal, sealed.data_unverified())
            }
            Ok(None) => match self.image(source)? {
                Some(image) => Ok(What::Image(image, None)),
                None => bail!(
                    "{} has no seal, at its end or beside it, and is neither an image nor a volume",
                    self.shown()
                ),
            },
            Err(error) => Err(match self.sealed_file() {
                Some(sealed) => error.context(format!(
                    "{} may be the seal of {1}: run the command with {1}",
                    self.shown(),
                    printable(&sealed)
                )),
                None => error,
            }),
        }
    }

    fn sealed(&self, seal: Seal, data: &Arc<dyn ReadAt>) -> Result<What> {
        Ok(match self.image(data)? {
            Some(image) => What::Image(image, Some(seal)),
            None => What::File(seal),
        })
    }

    /// The image at the beginning of this data, if there is one.
    fn image(&self, data: &Arc<dyn ReadAt>) -> Result<Option<ImageInfo>> {
        let description = describe(data.clone()).with_context(|| self.shown())?;
        Ok(description.as_ref().map(ImageInfo::new))
    }

    fn volume(&self, source: &Arc<dyn ReadAt>) -> Result<Option<VolumeInfo>> {
        let superblock = match Superblock::read(source, 0) {
            Err(VolumeError::NotIntegrity | VolumeError::TooSmall { .. }) => return Ok(None),
            other => other.with_context(|| self.shown())?,
        };
        let disk = superblock.provided_data_sectors().saturating_mul(SECTOR);
        let is_alone = superblock.interleave().is_some();
        ensure!(
            !is_alone || disk < source.size(),
            "{} is a truncated volume: it has {} bytes, and a disk of {disk}",
            self.shown(),
            source.size()
        );
        Ok(Some(VolumeInfo::new(self.shown(), &superblock)))
    }

    /// The dm-verity hash area given by the options, or in the file's sidecar.
    fn dm_verity(&self, source: &Arc<dyn ReadAt>) -> Result<Option<Seal>> {
        let (area, place) = match (self.beside(), self.hash_offset) {
            (None, None) => return Ok(None),
            (None, Some(offset)) => (HashArea::open_appended(source.clone(), offset), None),
            (Some(sidecar), offset) => {
                let hashes = Arc::new(open_source(&sidecar)?);
                let area = HashArea::open_beside(source.clone(), hashes, offset.unwrap_or(0));
                (area, Some(sidecar))
            }
        };
        let shown = || printable(place.as_ref().unwrap_or(&self.file)).to_string();
        match area {
            Err(VerityError::NoSuperblock) if self.hash_offset.is_none() => Ok(None),
            area => {
                let seal = area.and_then(|area| Seal::of_dm_verity(&area, place.clone()));
                seal.map(Some).with_context(shown)
            }
        }
    }

    /// The sidecar given by `--sidecar`; else `FILE.verity` if it exists, unless `--hash-offset`
    /// refers to the file itself.
    fn beside(&self) -> Option<PathBuf> {
        let there = || Some(sidecar_path(&self.file)).filter(|path| path.exists());
        self.sidecar.clone().or_else(|| match self.hash_offset {
            Some(_) => None,
            None => there(),
        })
    }

    /// The file whose sidecar has this name.
    fn sealed_file(&self) -> Option<PathBuf> {
        let is_sidecar = self.file.extension()? == "verity";
        let sealed = self.file.with_extension("");
        (is_sidecar && sealed.is_file()).then_some(sealed)
    }
}
