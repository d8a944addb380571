//! Planning and writing an image of any format.

use std::{fs::File, path::Path, sync::Arc};

use verimount_scan::{InodeId, Loss, Losses, Observer, SourceTree};
use verimount_source::{Progress, all_processors};

use crate::{Error, ImageFormat, RomfsOptions, build_fault::BuildFault};

/// The layout of an image that is to be written.
pub(crate) enum ImagePlan {
    Romfs(verimount_romfs::Plan),
    Erofs(verimount_erofs::Plan),
}

impl ImagePlan {
    /// Plans the image of the tree at `directory`, and refuses losses that are not accepted.
    pub(crate) fn new(
        tree: SourceTree,
        format: &ImageFormat,
        directory: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<Self, Error> {
        match format {
            ImageFormat::Romfs(options) => {
                let plan = verimount_romfs::plan(tree, &options.image);
                let plan = plan.map_err(|error| BuildFault::build(directory, error))?;
                check(options, format.name(), directory, plan.losses())?;
                Ok(Self::Romfs(plan))
            }
            ImageFormat::Erofs(options) => verimount_erofs::plan(tree, options, progress)
                .map(Self::Erofs)
                .map_err(|error| BuildFault::build(directory, error)),
        }
    }

    /// Size of the image in bytes, if nothing in it is compressed.
    pub(crate) fn image_size(&self) -> u64 {
        match self {
            Self::Romfs(plan) => plan.image_size(),
            Self::Erofs(plan) => plan.image_size(),
        }
    }

    /// The tree.
    pub(crate) fn tree(&self) -> &SourceTree {
        match self {
            Self::Romfs(plan) => plan.tree(),
            Self::Erofs(plan) => plan.tree(),
        }
    }

    /// The file whose content is stored for this one: another one, if that has the same.
    pub(crate) fn stored_as(&self, file: InodeId) -> InodeId {
        match self {
            Self::Romfs(_) => file,
            Self::Erofs(plan) => plan.stored_as(file),
        }
    }

    /// Has `observer` shown all contents that are stored, each once, while they are written.
    pub(crate) fn observe(&mut self, observer: Arc<dyn Observer>) {
        match self {
            Self::Romfs(plan) => plan.observe(observer),
            Self::Erofs(plan) => plan.observe(observer),
        }
    }

    /// Writes the image, which will be at `output`.
    pub(crate) fn write_to(
        &self,
        mut file: &File,
        output: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<(), Error> {
        let written = match self {
            Self::Romfs(plan) => plan.write_to(&mut file, progress),
            Self::Erofs(plan) => plan.write_to(&mut file, all_processors(), progress),
        };
        written.map_err(|error| BuildFault::build(output, error))
    }

    /// What the image does not store of the tree.
    pub(crate) fn into_losses(self) -> Losses {
        match self {
            Self::Romfs(plan) => plan.into_losses(),
            Self::Erofs(plan) => plan.tree().losses().clone(),
        }
    }
}

/// Fails if the image of a tree would have a refused loss.
fn check(
    options: &RomfsOptions,
    format: &'static str,
    directory: &Path,
    losses: &Losses,
) -> Result<(), Error> {
    let widened = losses.get(Loss::Privacy);
    if let Some(lost) = widened.filter(|_| !options.widen_permissions) {
        return Err(BuildFault::WouldWiden(lost.clone()).at(directory));
    }
    let mut losses = losses.iter();
    match losses.find(|(loss, _)| options.refused_losses.contains(*loss)) {
        Some((loss, lost)) => {
            let lost = lost.clone();
            Err(BuildFault::WouldLose { format, loss, lost }.at(directory))
        }
        None => Ok(()),
    }
}
