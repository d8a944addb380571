//! Builds an image of a directory, damages it, and finds which file the damage is in.
//!
//! `cargo run -p verimount --example build_and_verify`

use std::{error::Error, fs, ops::ControlFlow};

use verimount::{BuildOptions, ImageFormat, OpenOptions, RomfsOptions, Trust, build, open, verify};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (directory, image) = (folder.path().join("app"), folder.path().join("app.img"));
    fs::create_dir(&directory)?;
    fs::write(directory.join("first"), [1; 10_000])?;
    fs::write(directory.join("second"), [2; 10_000])?;

    let mut print = |progress: verimount::Progress| {
        println!(
            "{:?}: {} of {} bytes",
            progress.step, progress.done, progress.total
        );
        ControlFlow::Continue(())
    };
    let mut options = BuildOptions::default();
    options.format = ImageFormat::Romfs(RomfsOptions {
        widen_permissions: true,
        ..RomfsOptions::default()
    });
    let built = build(&directory, &image, &options, &mut print)?;
    let trust = Trust::from(built.digest.ok_or("it is sealed by default")?);

    let opened = open(&image, &trust, &OpenOptions::default())?;
    assert!(verify(&opened, &mut print)?.is_good());

    let mut bytes = fs::read(&image)?;
    let at = bytes.windows(9).position(|bytes| bytes == [2; 9]);
    bytes[at.ok_or("the second file is in the image")? + 5000] ^= 1;
    fs::write(&image, bytes)?;

    let opened = open(&image, &trust, &OpenOptions::default())?;
    let report = verify(&opened, &mut print)?;
    for finding in &report.bad {
        println!(
            "{:?}: {} in {:?}",
            finding.range, finding.reason, finding.files
        );
    }
    assert_eq!(report.bad[0].files, [std::path::Path::new("second")]);
    Ok(())
}
