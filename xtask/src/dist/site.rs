//! The pages in `docs/` as a site with search.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use verimount_support::{
    cargo_tool::CargoTool,
    command,
    workspace::{root, target},
};

use super::{Commit, VERSION, files};

const MDBOOK: CargoTool = CargoTool {
    program: "mdbook",
    versions: "=0.5.4",
};

/// The folder that the archive has.
const FOLDER: &str = "site";

/// Makes the site in the folder `work`, checks it, and packs it into `output`.
pub(super) fn archive(commit: &Commit, work: &Path, output: &Path) -> Result<()> {
    let site = work.join(FOLDER);
    let mut build = Command::new(MDBOOK.installed(&target()?)?);
    build.arg("build").arg("--dest-dir").arg(&site).arg(root());
    command::run(&mut build)?;
    ensure_links_lead_somewhere(&site)?;
    let archive = output.join(format!("verimount-{VERSION}-site.tar.gz"));
    commit.pack(work, FOLDER, &archive, "gzip -9n")
}

/// The table of contents and the search's results are links that mdBook makes, and its names for headings
/// are not those of GitHub, by which the tests check the sources.
fn ensure_links_lead_somewhere(site: &Path) -> Result<()> {
    let pages = pages(site)?;
    let mut dead = BTreeSet::new();
    for page in &pages {
        let html = fs::read_to_string(page)?;
        let here = page.parent().context("a page lies in no folder")?;
        for link in attributes(&html, "href").chain(attributes(&html, "src")) {
            if link.contains(':') {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => page.clone(),
                _ => here.join(path),
            };
            if !has(&target, heading) {
                dead.insert(format!("{}: {link}", page.display()));
            }
        }
    }
    ensure!(!pages.is_empty(), "the site has no pages");
    ensure!(dead.is_empty(), "dead links:\n{dead:#?}");
    Ok(())
}

/// Whether there is such a file, with such a heading unless that is empty.
fn has(file: &Path, heading: &str) -> bool {
    match fs::read_to_string(file) {
        Ok(html) => heading.is_empty() || attributes(&html, "id").any(|id| id == heading),
        // Fonts and images are no text.
        Err(_) => heading.is_empty() && file.is_file(),
    }
}

/// The values of all attributes of this name.
fn attributes<'a>(html: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!(" {name}=\"");
    let values: Vec<_> = html.split(&begin).skip(1).collect();
    let values = values.into_iter();
    values.filter_map(|rest| Some(rest.split_once('"')?.0))
}

/// The files of HTML below a folder.
fn pages(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for path in files(folder)? {
        if path.is_dir() {
            pages.extend(self::pages(&path)?);
        } else if path.extension().is_some_and(|end| end == "html") {
            pages.push(path);
        }
    }
    Ok(pages)
}
