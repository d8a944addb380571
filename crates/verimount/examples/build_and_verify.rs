//! Builds an image of a directory, damages it, and finds which file the damage is in.
//!
//! `cargo run -p verimount --example build_and_verify`

use std::{error::Error, fs, ops::ControlFlow, path::Path};

use verimount::{
    BuildOptions, Content, ImageFormat, OpenOptions, Progress, RomfsOptions, VerifyOptions,
    Watcher, build,
};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (directory, image) = (folder.path().join("app"), folder.path().join("app.img"));
    fs::create_dir(&directory)?;
    fs::write(directory.join("first"), [1; 10_000])?;
    fs::write(directory.join("second"), [2; 10_000])?;

    let format = ImageFormat::Romfs(RomfsOptions {
        widen_permissions: true,
        ..RomfsOptions::default()
    });
    let options = BuildOptions {
        format,
        watcher: Watcher::new(print),
        ..BuildOptions::default()
    };
    let built = build(&directory, &image, &options)?;
    let digest = built.digest.ok_or("it is sealed by default")?;

    let (pinned, watched) = (
        OpenOptions::new().digest(digest),
        VerifyOptions {
            watcher: Watcher::new(print),
            ..VerifyOptions::default()
        },
    );
    let content = Content::open(&image, &pinned)?;
    assert!(content.verify(&watched)?.is_good());

    let mut bytes = fs::read(&image)?;
    let at = bytes.windows(9).position(|bytes| bytes == [2; 9]);
    bytes[at.ok_or("the second file is in the image")? + 5000] ^= 1;
    fs::write(&image, bytes)?;

    let report = Content::open(&image, &pinned)?.verify(&watched)?;
    for finding in &report.bad {
        println!(
            "{:?}: {} in {:?}",
            finding.range, finding.reason, finding.files
        );
    }
    assert_eq!(report.bad[0].files, [Path::new("second")]);
    Ok(())
}

fn print(progress: Progress) -> ControlFlow<()> {
    println!(
        "{:?}: {} of {} bytes",
        progress.step, progress.done, progress.total
    );
    ControlFlow::Continue(())
}
