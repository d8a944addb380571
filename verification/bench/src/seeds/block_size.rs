//! romfs in larger blocks (2020): `md5sum` of an image and of the file in it, and `find`.

use std::{fs, path::Path, process::Command};

use anyhow::Result;

use crate::{
    data,
    handicap::{self, Handicap},
    lab::{Format, Lab, User, ensure_same_file, seconds},
    mounts::{Mount, Sealed},
    report::{Report, figure, with_range},
    rounds::{Contest, Samples},
    table::Table,
};

const TITLE: &str = "Table 3: block size of romfs";

/// The file in the image.
const FILE: &str = "file.bin";

const RAW: &str = "raw image";

/// The largest requests to the storage.
const BLOCK_SIZES: [&str; 3] = ["1K", "4K", "auto"];

/// Seconds in 2020, on an i.MX6 with eMMC and on an i7 with an SSD.
type In2020 = [(&'static str, [&'static str; 2]); 4];

const MD5SUM_IN_2020: In2020 = [
    (RAW, ["5", "1.3"]),
    ("1K", ["60", "3.3"]),
    ("4K", ["22", "1.9"]),
    ("auto", ["", ""]),
];

const FIND_IN_2020: In2020 = [
    (RAW, ["", ""]),
    ("1K", ["9.5", "1.4"]),
    ("4K", ["9", "1.2"]),
    ("auto", ["", ""]),
];

/// `cat` was not measured then. It is measured now, as MD5 takes longer than the rest of a cold read.
const CAT_IN_2020: In2020 = [
    (RAW, ["", ""]),
    ("1K", ["", ""]),
    ("4K", ["", ""]),
    ("auto", ["", ""]),
];

pub(super) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    if !lab.is_root() {
        report.leave_out(TITLE, Lab::NEEDS_ROOT);
        return Ok(());
    }
    let folder = lab.path("table-3");
    fs::create_dir(&folder)?;
    let plain = folder.join(FILE);
    data::write_file(&plain, lab.sizes.seed_file)?;
    let image = image(lab, &folder)?;
    read(lab, report, &plain, &image, "md5sum", MD5SUM_IN_2020)?;
    read(lab, report, &plain, &image, "cat", CAT_IN_2020)?;
    find(lab, report)
}

/// Measures `program` with the image, and with the file `plain` in the mounted image.
fn read(
    lab: &Lab,
    report: &mut Report,
    plain: &Path,
    image: &Sealed,
    program: &str,
    in_2020: In2020,
) -> Result<()> {
    let bytes = lab.sizes.seed_file;
    let raw = || {
        lab.make_cold(bytes)?;
        seconds(Command::new(program).arg(&image.source))
    };
    let mounted = |block_size| {
        let mount = mount(lab, image, block_size)?;
        let file = mount.path().join(FILE);
        lab.make_cold(bytes)?;
        let seconds = seconds(Command::new(program).arg(&file))?;
        ensure_same_file(User::Caller, plain, &file)?;
        Ok(seconds)
    };
    let samples = Contest::default()
        .variant(RAW, raw)
        .variants(BLOCK_SIZES.map(|size| (size, size)), mounted)
        .run_in(lab)?;
    let title = format!("{TITLE}, `{program}` of {} MiB, cold", bytes >> 20);
    say(report, &title, &samples, in_2020)
}

fn find(lab: &Lab, report: &mut Report) -> Result<()> {
    let tree = lab.path("table-3-tree");
    let bytes = data::write_tree(&tree, &lab.sizes)?;
    let image = image(lab, &tree)?;
    let mounted = |block_size| {
        let mount = mount(lab, &image, block_size)?;
        lab.make_cold(0)?;
        seconds(
            Command::new("find")
                .arg(mount.path())
                .args(["-printf", "%s\\n"]),
        )
    };
    let samples = Contest::default()
        .variants(BLOCK_SIZES.map(|size| (size, size)), mounted)
        .run_in(lab)?;
    let (files, size) = (lab.sizes.files(), bytes / 1_000_000);
    let title = format!("{TITLE}, `find` over {files} files of {size} MB, cold");
    say(report, &title, &samples, FIND_IN_2020)
}

/// Mounts an image whose storage is read in blocks of this size.
fn mount(lab: &Lab, image: &Sealed, block_size: &str) -> Result<Mount> {
    let bytes = match block_size {
        "1K" => 1 << 10,
        "4K" => 4 << 10,
        _ => return image.mount(lab, User::Caller, &[]),
    };
    handicap::image(lab, image, Handicap::BlockSize(bytes.try_into()?))
}

/// Builds a romfs image of `folder` beside it.
fn image(lab: &Lab, folder: &Path) -> Result<Sealed> {
    lab.image(Format::Romfs, folder, folder.with_extension("img"))
}

fn say(report: &mut Report, title: &str, samples: &Samples, in_2020: In2020) -> Result<()> {
    let mut table = Table::new([
        "blocks",
        "2020 i.MX6 s",
        "2020 i7 s",
        "here s",
        "speed / 1K",
    ]);
    for (name, [imx6, i7]) in in_2020 {
        let Ok(spread) = samples.spread(name) else {
            continue;
        };
        let ratio = with_range(samples.ratio("1K", name)?);
        table.row([name, imx6, i7, &figure(spread.median), &ratio]);
    }
    report.table(title, table, "s", samples)
}
