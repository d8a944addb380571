//! Many mounts of one image behind a cache of the server.

use std::{fs, thread};

use anyhow::{Context, Result, ensure};

use super::{Image, Reading, Way, server::Server};
use crate::{
    data,
    lab::{Lab, User},
    report::{Bar, Report},
    rounds::Spread,
};

pub(super) fn run(lab: &Lab, report: &mut Report, server: &Server) -> Result<()> {
    /// How many times smaller the file is than the large one.
    const PART: u64 = 16;
    let folder = lab.path("shared");
    fs::create_dir(&folder)?;
    let bytes = lab.sizes.file / PART;
    data::write_file(&folder.join("file"), bytes)?;
    let image = Image::make(lab, &folder, "shared")?;
    let object = fs::metadata(super::on_server(lab, &image.name))?.len();
    let way = Way::new("a cache", server, server.cached);
    server.take_answered()?;
    let mount = |_| {
        let sealed = way.sealed(&image);
        sealed.mount(lab, User::Caller, &["--no-cache"])
    };
    let mounts = (0..lab.sizes.shared_mounts).map(mount);
    let mounts = mounts.collect::<Result<Vec<_>>>()?;
    thread::scope(|scope| {
        let files = mounts.iter().map(|mount| mount.path().join("file"));
        let readers: Vec<_> = files
            .map(|file| scope.spawn(move || Reading::of(&file)))
            .collect();
        for reader in readers {
            let reading = reader.join().ok().context("a reader panicked")??;
            ensure!(reading.bytes == bytes, "not everything was read");
        }
        anyhow::Ok(())
    })?;
    drop(mounts);
    let answered = server.take_answered()?;
    let mounts = lab.sizes.shared_mounts;
    let ratio = answered.bytes as f64 / object as f64;
    report.section(&format!("{mounts} mounts of one image behind a cache"));
    report.say(format!(
        "All read {} at the same time through nginx with `slice` and `proxy_cache`. The server behind it \
         answered {} requests with {ratio:.3} times the bytes of the image.",
        data::bytes_label(bytes),
        answered.requests,
    ));
    let text = format!("{mounts} mounts behind a cache: bytes from the server / image");
    report.require(&text, Bar::AtMost(1.05), "x", Spread::exact(ratio));
    Ok(())
}
