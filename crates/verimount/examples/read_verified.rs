//! Opens an image by its digest, lists it, and reads a file of it.
//!
//! `cargo run -p verimount --example read_verified`

use std::{error::Error, fs, io::stdout, ops::ControlFlow, path::PathBuf};

use verimount::{
    BuildOptions, ImageFormat, OpenOptions, Trust, build, copy_content, open,
    tree::{NodeId, resolve, walk},
};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (directory, image) = (folder.path().join("app"), folder.path().join("app.img"));
    fs::create_dir_all(directory.join("docs"))?;
    fs::write(
        directory.join("docs/README.md"),
        "Every byte of this is verified.\n",
    )?;
    let mut options = BuildOptions::default();
    options.format = ImageFormat::Erofs(Default::default());
    let built = build(&directory, &image, &options, &mut |_| {
        ControlFlow::Continue(())
    })?;

    let trust = Trust::from(built.digest.ok_or("it is sealed by default")?);
    let opened = open(&image, &trust, &OpenOptions::default())?;
    let tree = opened.tree()?;
    walk(&*tree, NodeId::ROOT, PathBuf::new(), |path, attr| {
        println!("{:>10} {path:?}", attr.size);
        Ok::<_, verimount::tree::Error>(())
    })?;
    let readme = resolve(&*tree, "docs/README.md".as_ref())?;
    copy_content(&*tree, readme, &mut stdout())?;
    Ok(())
}
