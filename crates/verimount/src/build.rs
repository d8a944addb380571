use std::{fs::File, path::Path, sync::Arc};

use verimount_romfs::{
    BlockSize, Error as RomfsError, Loss, Losses, Options, Plan, VolumeName, plan,
};
use verimount_scan::{Options as ScanOptions, scan};
use verimount_source::{FileSource, ReadAt};
use verimount_verity::{FileDigest, SealLayout, TreeParams, seal};

use crate::{
    Error, RefusedLosses, Step, Watch,
    error::Precious,
    image,
    location::open_file,
    output_file::{OutputFile, folder_of},
    processors::all_processors,
    progress::step,
};

/// How an image is built.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BuildOptions {
    /// The volume's name, up to 128 bytes.
    pub volume_name: VolumeName,
    /// Alignment of the data of files of at least this size, and of the image's end.
    pub block_size: BlockSize,
    /// The Merkle tree that is appended, if any. By default SHA-256 in blocks of 4 KiB.
    pub seal: Option<TreeParams>,
    /// Replace a file that is not an image.
    pub replace: bool,
    /// Also store files that not everybody may read. In the image, everybody may read them.
    pub widen_permissions: bool,
    /// Which other losses make the build fail.
    pub refused_losses: RefusedLosses,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self {
            volume_name: VolumeName::default(),
            block_size: BlockSize::default(),
            seal: Some(TreeParams::default()),
            replace: false,
            widen_permissions: false,
            refused_losses: RefusedLosses::default(),
        }
    }
}

/// An image that was built.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Built {
    /// Its digest, if it is sealed.
    pub digest: Option<FileDigest>,
    /// What it does not store of the directory.
    pub losses: Losses,
}

/// Builds an image of `directory` at `output`, and replaces an older image there.
///
/// The same tree always gives the same image. The image gets its name when it is complete and on
/// disk; until then an older one is there.
///
/// # Errors
/// [`Error::WouldWiden`] and [`Error::Loses`] for losses that are not accepted, [`Error::WouldReplace`],
/// [`Error::InsideTree`], [`Error::Cancelled`] if `watch` ends it; [`Error::Build`] and [`Error::Io`].
pub fn build(
    directory: &Path,
    output: &Path,
    options: &BuildOptions,
    watch: &mut Watch<'_>,
) -> Result<Built, Error> {
    refuse_inside_tree(directory, output)?;
    if !options.replace {
        refuse_to_replace(output)?;
    }
    let plan = scan(directory, &ScanOptions::default())
        .map_err(RomfsError::from)
        .and_then(|tree| plan(tree, &options.of_image()));
    let plan = plan.map_err(Error::Build)?;
    options.check(directory, plan.losses())?;
    let io = |error| Error::io(output, error);
    let new = OutputFile::replacing(output).map_err(io)?;
    write(&plan, output, new.file(), watch)?;
    let digest = match &options.seal {
        Some(params) => Some(append_tree(output, new.file(), params, watch)?),
        None => None,
    };
    new.commit().map_err(io)?;
    Ok(Built {
        digest,
        losses: plan.into_losses(),
    })
}

/// An image inside the tree would become part of the next image.
fn refuse_inside_tree(directory: &Path, output: &Path) -> Result<(), Error> {
    // A missing path is reported when it is opened later.
    let folder = folder_of(output).canonicalize();
    if let (Ok(tree), Ok(folder)) = (directory.canonicalize(), folder)
        && folder.starts_with(&tree)
    {
        return Err(Error::InsideTree { at: output.into() });
    }
    Ok(())
}

/// Refuses to replace a file that is neither an image nor empty, which is probably a mistake.
fn refuse_to_replace(output: &Path) -> Result<(), Error> {
    if !output.is_file() {
        return Ok(());
    }
    let older = Arc::new(open_file(output)?);
    match image::open(older.clone()) {
        Ok(None) if older.size() != 0 => Err(Error::WouldReplace {
            at: output.into(),
            what: Precious::NotAnImage,
        }),
        _ => Ok(()),
    }
}

fn write(plan: &Plan, output: &Path, mut file: &File, watch: &mut Watch<'_>) -> Result<(), Error> {
    let mut progress = step(watch, Step::Build, plan.image_size());
    plan.write_to(&mut file, &mut progress)
        .map_err(|error| match error {
            RomfsError::Cancelled => Error::Cancelled { at: output.into() },
            other => Error::Build(other),
        })
}

fn append_tree(
    output: &Path,
    file: &File,
    params: &TreeParams,
    watch: &mut Watch<'_>,
) -> Result<FileDigest, Error> {
    let source = file.try_clone().and_then(FileSource::new);
    let source = source.map_err(|error| Error::io(output, error))?;
    let mut progress = step(watch, Step::Seal, source.size());
    let layout = SealLayout::Appended;
    seal(
        &source,
        file,
        layout,
        params,
        all_processors(),
        &mut progress,
    )
    .map(|descriptor| descriptor.file_digest())
    .map_err(|error| Error::seal(output, error))
}

impl BuildOptions {
    fn of_image(&self) -> Options {
        Options {
            volume_name: self.volume_name.clone(),
            block_size: self.block_size,
        }
    }

    /// Fails if the image of a tree would have a refused loss.
    fn check(&self, directory: &Path, losses: &Losses) -> Result<(), Error> {
        let at = || directory.into();
        if let Some(lost) = losses
            .get(Loss::Privacy)
            .filter(|_| !self.widen_permissions)
        {
            let lost = lost.clone();
            return Err(Error::WouldWiden { at: at(), lost });
        }
        let mut losses = losses.iter();
        match losses.find(|(loss, _)| self.refused_losses.contains(*loss)) {
            Some((loss, lost)) => Err(Error::Loses {
                at: at(),
                loss,
                lost: lost.clone(),
            }),
            None => Ok(()),
        }
    }
}
