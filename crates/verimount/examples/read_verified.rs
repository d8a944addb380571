//! Opens an image by its digest, lists it, and reads a file of it.
//!
//! `cargo run -p verimount --example read_verified`

use std::{error::Error, fs};

use verimount::{BuildOptions, Image, OpenOptions, build};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (directory, image) = (folder.path().join("app"), folder.path().join("app.img"));
    fs::create_dir_all(directory.join("docs"))?;
    fs::write(
        directory.join("docs/README.md"),
        "Every byte of this is verified.\n",
    )?;
    let built = build(&directory, &image, &BuildOptions::default())?;

    let digest = built.digest.ok_or("it is sealed by default")?;
    let image = Image::open(image, &OpenOptions::new().digest(digest))?;
    for entry in image.walk("")? {
        let entry = entry?;
        println!("{:>10} {:?}", entry.metadata().len(), entry.path());
    }
    print!("{}", image.read_to_string("docs/README.md")?);
    Ok(())
}
