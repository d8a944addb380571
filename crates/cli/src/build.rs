mod format_args;
mod scan_args;
mod time;

use std::{
    fs::File,
    io::{Write, stdin, stdout},
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use anyhow::Result;
use clap::Args;
use verimount::{
    BuildOptions, Built, Identity, LossText, build, build_archive, build_layer_store,
    options::OutwardLinks,
};
use verimount_host::printable;

use self::{format_args::FormatArgs, scan_args::ScanArgs};
use crate::{
    Outcome,
    json::{made, write_report},
    message::{counted, say, wrong_usage},
    model_args::SignatureArgs,
    options::TreeArgs,
    progress::watch,
};

/// Make a reproducible image of a directory or tar archive, sealed with a Merkle tree; print its digest
///
/// The same tree always gives the same image, be it in a directory or in an archive with fractions of seconds (tar --format=posix). EROFS keeps everything that Linux knows about a tree. romfs keeps
/// names, contents, hard links and executable bits; notes list everything that the image loses.
#[derive(Args)]
pub(crate) struct Build {
    /// The directory, or a tar archive: a file, a pipe, or - for standard input; plain, or compressed by gzip or zstd. Of a
    /// container image, as docker save makes it, the tree of all its layers. Last, the image to create or replace
    // One list, as options may stand in front of the image.
    #[arg(value_names = ["DIR|TAR", "IMAGE"], required = true, num_args = 1..)]
    paths: Vec<PathBuf>,
    /// Make a store of the layers of all container images in these archives and OCI layouts, from which podman takes those
    /// that it needs (additionallayerstores)
    #[arg(long)]
    layer_store: bool,
    /// Create a plain image without a Merkle tree
    #[arg(long)]
    no_seal: bool,
    /// Replace IMAGE even if it is not an image
    #[arg(long)]
    force: bool,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    scan: ScanArgs,
    #[command(flatten)]
    tree_args: TreeArgs,
    #[command(flatten)]
    model: ModelArgs,
}

/// A model in the directory, and how it is checked.
#[derive(Args)]
struct ModelArgs {
    #[command(flatten)]
    signature: SignatureArgs,
    /// Check all files with the names of the blobs in a cache of Hugging Face that they are links to: the SHA-256, or the
    /// SHA-1 of git, of each
    #[arg(long, requires = "dereference")]
    hugging_face: bool,
}

impl Build {
    pub(crate) fn run(self) -> Result<Outcome> {
        let (image, trees) = self.image_and_trees()?;
        let options = self.options()?;
        let format_name = options.format.name();
        let built = self.build(trees, image, &options)?;
        drop(options);
        for (loss, lost) in built.losses.iter() {
            let format = format_name;
            say(format_args!("note: {}", LossText { format, loss, lost }));
        }
        match built.layers {
            // Links in layers lead into the tree that they make together.
            Some(layers) if self.layer_store => {
                say(format_args!("note: layers in the store: {layers}"));
            }
            layers => {
                if let Some(layers) = layers {
                    let tree = "the image has the tree that they make together";
                    let layers = counted(layers as u64, "layer");
                    say(format_args!(
                        "note: this is a container image of {layers}: {tree}"
                    ));
                }
                say_outward(&built.outward_links);
            }
        }
        if let Some(layout) = built.container_layout {
            say_layout(layout, trees, image);
        }
        for path in &built.left_out {
            say(format_args!("note: left out: {}", printable(path)));
        }
        let (image, mut out) = (printable(image), stdout().lock());
        match built.digest.map(Identity::FileDigest) {
            digest if self.json => write_report(&mut out, made(image, digest.as_ref(), None))?,
            Some(digest) => writeln!(out, "{digest} {image}")?,
            None => {}
        }
        Ok(Outcome::Good)
    }

    fn build(&self, trees: &[PathBuf], image: &Path, options: &BuildOptions) -> Result<Built> {
        let tree = match trees {
            trees if self.layer_store => {
                return Ok(build_layer_store(trees, image, options)?);
            }
            [tree] => tree,
            _ => {
                return Err(wrong_usage(
                    "an image is built of one directory or archive; several make a --layer-store",
                ));
            }
        };
        if tree.as_os_str() != "-" {
            return Ok(build(tree, image, options)?);
        }
        let archive = File::from(stdin().as_fd().try_clone_to_owned()?);
        let name = Path::new("standard input");
        Ok(build_archive(archive, name, image, options)?)
    }

    /// The image to make, and of what.
    fn image_and_trees(&self) -> Result<(&Path, &[PathBuf])> {
        match self.paths.split_last() {
            Some((image, _)) if image.as_os_str() == "-" => Err(wrong_usage(
                "IMAGE must be a file, as an image is not written from front to back; ./- is one named -",
            )),
            Some((image, trees)) if !trees.is_empty() => Ok((image, trees)),
            _ => Err(wrong_usage(
                "the image to create is missing: build DIR|TAR IMAGE",
            )),
        }
    }

    fn options(&self) -> Result<BuildOptions> {
        Ok(BuildOptions {
            format: self.format.options()?,
            scan: self.scan.options()?,
            seal: (!self.no_seal).then(|| self.tree_args.params()),
            model_signature: self.model.signature.read()?,
            hugging_face: self.model.hugging_face,
            replace: self.force,
            watcher: watch()?,
        })
    }
}

/// Says that the image has the files of a container image as they are in a directory, and how it gets the tree of its layers.
fn say_layout(layout: &str, trees: &[PathBuf], image: &Path) {
    let [directory] = trees else { return };
    let (directory, image) = (printable(directory), printable(image));
    let how = if layout == "oci" {
        format!("tar -C {directory} -c . | verimount build - {image}")
    } else {
        format!("skopeo copy {layout}:{directory} docker-archive:FILE, and build FILE")
    };
    say(format_args!(
        "note: {directory} is a container image, of which the image has the files; for the tree of its layers: {how}"
    ));
}

/// Says that links are in the image whose targets are not.
fn say_outward(links: &OutwardLinks) {
    let first = printable(&links.first);
    match links.count {
        0 => {}
        1 => say(format_args!("note: a link leads out of the tree: {first}")),
        count => say(format_args!(
            "note: {count} links lead out of the tree, such as {first}"
        )),
    }
}
