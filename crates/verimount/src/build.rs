use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use verimount_content::{UNKNOWN, Watch, Watcher, open_file, step};
use verimount_scan::{Links, Losses, Options as ScanOptions, OutwardLinks, SourceTree, scan};
use verimount_source::{FileSource, OutputFile, ReadAt, all_processors, folder_of};
use verimount_verity::{FileDigest, SealLayout, TreeParams, seal};

use crate::{
    Error, ImageFormat, ModelSignature, Step,
    archive_input::{open_archive, scan_tar, seekable},
    build_fault::BuildFault,
    fault::{ContentFault, Fault},
    image_archive::layout_of,
    image_format,
    image_plan::ImagePlan,
    model::ContentChecks,
};

/// How an image is built. By default, a sealed EROFS image, without compression, of all that is in the directory or archive.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// The image's format.
    pub format: ImageFormat,
    /// What of the directory or archive is taken, and what is changed in it. By default, all of it as it is, but the
    /// whiteouts of an archive become those of overlayfs.
    pub scan: ScanOptions,
    /// The Merkle tree that is appended, if any. By default SHA-256 in blocks of 4 KiB.
    pub seal: Option<TreeParams>,
    /// The signature of the model in the directory, whose names and contents must be those that are signed. They are compared
    /// while they are read for the image, once. The image keeps the signature as `model.sig` in its root.
    ///
    /// Paths that the signature ignores are [left out](Built::left_out), and so is the signature's own file. What no signature
    /// covers does not matter: everything belongs to root, all may read it and nobody execute it, it was changed at
    /// the beginning of 1970, and it has no extended attributes.
    pub model_signature: Option<ModelSignature>,
    /// Whether all files of the directory must be links to blobs in a cache of Hugging Face, which are named by
    /// their SHA-256, or by their SHA-1 as an object of git, and must have that digest. Links must be
    /// [followed](crate::options::Links::Followed).
    pub hugging_face: bool,
    /// Whether a file is replaced that is not an image.
    pub replace: bool,
    /// Who watches it.
    pub watcher: Watcher,
}

impl BuildOptions {
    /// How an archive is scanned, of which nothing else is asked than archives allow.
    pub(crate) fn of_archive(&self, name: &Path) -> Result<&ScanOptions, Error> {
        let what = if self.model_signature.is_some() {
            "a model signature is checked"
        } else if self.hugging_face {
            "blobs of Hugging Face are checked"
        } else if self.scan.links == Links::Followed {
            "links are followed"
        } else {
            return Ok(&self.scan);
        };
        Err(BuildFault::NotADirectory(what).at(name))
    }
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self {
            format: ImageFormat::default(),
            scan: ScanOptions::default(),
            seal: Some(TreeParams::default()),
            model_signature: None,
            hugging_face: false,
            replace: false,
            watcher: Watcher::default(),
        }
    }
}

/// An image that was built.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Built {
    /// Its digest, if it is sealed.
    pub digest: Option<FileDigest>,
    /// What it does not store of the directory or archive.
    pub losses: Losses,
    /// The number of layers of the container image that it was built from, if it was one.
    pub layers: Option<usize>,
    /// How the directory that it was built from holds a container image, whose tree the image does not have then: as `oci` or `dir` of
    /// skopeo.
    pub container_layout: Option<&'static str>,
    /// Symbolic links that lead out of the tree.
    pub outward_links: OutwardLinks,
    /// The paths below the directory that were left out because the model signature ignores them, or is there.
    pub left_out: Vec<PathBuf>,
}

/// Builds an image of the tree at `source` at `output`, and replaces an older image there. The tree is that of a
/// directory or, if `source` is a file, of a tar archive, which may be compressed by gzip or zstd. If that is a container
/// image, as docker, podman and skopeo save them, it is the tree that its layers make together.
///
/// The same tree always gives the same image. The image gets its name when it is complete and on
/// disk; until then an older one is there.
///
/// ```
/// use verimount::{BuildOptions, Image, OpenOptions, build};
///
/// # let folder = tempfile::tempdir()?;
/// # std::env::set_current_dir(&folder)?;
/// # std::fs::create_dir("app")?;
/// # std::fs::write("app/hello", "hello\n")?;
/// let built = build("app", "app.img", &BuildOptions::default())?;
/// let digest = built.digest.expect("it is sealed by default");
/// let image = Image::open("app.img", &OpenOptions::new().digest(digest))?;
/// assert_eq!(image.read_to_string("hello")?, "hello\n");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`WouldWiden`](crate::ErrorKind::WouldWiden) and [`WouldLose`](crate::ErrorKind::WouldLose) for losses that are not
/// accepted; [`WouldReplace`](crate::ErrorKind::WouldReplace); [`InvalidInput`](crate::ErrorKind::InvalidInput) for an image
/// inside the directory; [`Unsupported`](crate::ErrorKind::Unsupported) for what the format cannot store;
/// [`WrongModel`](crate::ErrorKind::WrongModel) for a file that is not the one that is signed, or not the blob that it is
/// named as; [`Cancelled`](crate::ErrorKind::Cancelled); those of reading and writing.
pub fn build(
    source: impl AsRef<Path>,
    output: impl AsRef<Path>,
    options: &BuildOptions,
) -> Result<Built, Error> {
    let (source, output) = (source.as_ref(), output.as_ref());
    // What is missing is reported by the scan.
    if fs::metadata(source).is_ok_and(|metadata| !metadata.is_dir()) {
        let archive = open_archive(source).map_err(|error| ContentFault::io(source, error))?;
        return build_archive(archive, source, output, options);
    }
    refuse_inside_tree(source, output)?;
    let scan = |watch: &mut Watch<'_>| {
        let mut progress = step(watch, Step::Scan, UNKNOWN);
        let scan_options = options.scan_options(source);
        let scanned = scan(source, &scan_options, &mut progress);
        scanned.map_err(|error| BuildFault::scan(source, error))
    };
    Ok(Built {
        container_layout: layout_of(source),
        ..build_tree(source, output, options, scan)?
    })
}

/// Builds an image at `output`, as [`build`] does, from a tar archive that is open for reading: a file, or a pipe or
/// socket. `name` is what errors call it.
///
/// # Errors
/// As [`build`].
pub fn build_archive(
    archive: File,
    name: impl AsRef<Path>,
    output: impl AsRef<Path>,
    options: &BuildOptions,
) -> Result<Built, Error> {
    let (name, output) = (name.as_ref(), output.as_ref());
    let scan_options = options.of_archive(name)?;
    let mut layers = None;
    let scan = |watch: &mut Watch<'_>| {
        let archive = seekable(archive, name, output, watch)?;
        let (tree, found) = scan_tar(archive, name, output, scan_options, watch)?;
        layers = found;
        Ok(tree)
    };
    let built = build_tree(name, output, options, scan)?;
    Ok(Built { layers, ..built })
}

/// Builds an image of the tree that `scan` finds at `source`.
pub(crate) fn build_tree(
    source: &Path,
    output: &Path,
    options: &BuildOptions,
    scan: impl FnOnce(&mut Watch<'_>) -> Result<SourceTree, Error>,
) -> Result<Built, Error> {
    let watch = &mut options.watcher.watch();
    if !options.replace {
        refuse_to_replace(output)?;
    }
    let tree = scan(watch)?;
    let outward_links = OutwardLinks::of(&tree);
    let mut left_out = tree.left_out().to_vec();
    left_out.sort_unstable();
    let expected = options.expected(&tree)?;
    let mut progress = step(watch, Step::Compare, UNKNOWN);
    let mut plan = ImagePlan::new(tree, &options.format, source, &mut progress)?;
    drop(progress);
    let io = |error| ContentFault::io(output, error);
    let new = OutputFile::replacing(output).map_err(io)?;
    let mut progress = step(watch, Step::Build, plan.image_size());
    match ContentChecks::begin(expected, &mut plan)? {
        None => plan.write_to(new.file(), output, &mut progress)?,
        Some(checks) => checks.watch(plan.tree(), &mut progress, |progress| {
            plan.write_to(new.file(), output, progress)
        })?,
    }
    drop(progress);
    let digest = match &options.seal {
        Some(params) => Some(append_tree(output, new.file(), params, watch)?),
        None => None,
    };
    new.commit().map_err(io)?;
    Ok(Built {
        digest,
        losses: plan.into_losses(),
        layers: None,
        container_layout: None,
        outward_links,
        left_out,
    })
}

/// An image inside the tree would become part of the next image.
fn refuse_inside_tree(directory: &Path, output: &Path) -> Result<(), Error> {
    // A missing path is reported when it is opened later.
    let folder = folder_of(output).canonicalize();
    if let (Ok(tree), Ok(folder)) = (directory.canonicalize(), folder)
        && folder.starts_with(&tree)
    {
        return Err(BuildFault::InsideTree.at(output));
    }
    Ok(())
}

/// Refuses to replace a file that is neither an image nor empty, which is probably a mistake.
fn refuse_to_replace(output: &Path) -> Result<(), Error> {
    if !output.is_file() {
        return Ok(());
    }
    let older = open_file(output)?;
    match image_format::describe(&older) {
        Ok(None) if older.size() != 0 => Err(Fault::WouldReplace("not an image").at(output)),
        _ => Ok(()),
    }
}

fn append_tree(
    output: &Path,
    file: &File,
    params: &TreeParams,
    watch: &mut Watch<'_>,
) -> Result<FileDigest, Error> {
    let source = file.try_clone().and_then(FileSource::new);
    let source = source.map_err(|error| ContentFault::io(output, error))?;
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
    .map_err(|error| ContentFault::seal(output, error))
}
