//! The licences of everything that is in what is published.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use anyhow::{Context, Result, ensure};
use verimount_support::{
    command,
    workspace::{cargo, root},
};

use super::{binary, files};

/// How the names of files with licences and notices begin.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// A package of this repository that is compiled, and the compiler's name of the platform.
pub(crate) type Compiled<'a> = (&'a str, &'a str);

/// The text about these packages and all that is compiled into them.
pub(crate) fn of(compiled: &[Compiled<'_>]) -> Result<String> {
    let mut text = String::from(
        "Verimount is licensed under the MIT license or the Apache License 2.0, as you choose.\n\
         It contains the libraries below, each under the license that follows it.\n",
    );
    // Unpacks their sources.
    command::run(cargo("fetch").arg("--locked"))?;
    // Most share the text of a licence.
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for own in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let licence = fs::read_to_string(root().join(own))?;
        owners
            .entry(licence)
            .or_default()
            .push("verimount".to_owned());
    }
    for (library, licence) in libraries(compiled)? {
        text += &format!("\n  {library}: {licence}");
        for file in licence_files(&library)? {
            let licence = fs::read(&file)?;
            let licence = String::from_utf8_lossy(&licence).into_owned();
            owners.entry(licence).or_default().push(library.clone());
        }
    }
    for (licence, libraries) in owners {
        text += &format!(
            "\n\n{}\n{}:\n\n{licence}",
            "-".repeat(80),
            libraries.join(", ")
        );
    }
    Ok(text)
}

/// All dependencies that are compiled into the packages, as NAME-VERSION, with what they say of their licence.
fn libraries(compiled: &[Compiled<'_>]) -> Result<BTreeMap<String, String>> {
    let mut lines = BTreeSet::new();
    for (package, platform) in compiled {
        let mut tree = cargo("tree");
        tree.args(["--locked", "--package", package, "--target", platform])
            .args(["--edges", "normal", "--prefix", "none"])
            .args(["--format", "{p}|{l}"]);
        let printed = command::stdout(&mut tree)?;
        lines.extend(printed.lines().map(str::to_owned));
    }
    let mut libraries = BTreeMap::new();
    for line in &lines {
        let (package, licence) = line.split_once('|').context("no licence")?;
        let licence = licence.trim_end_matches(" (*)");
        let mut words = package.split(' ');
        let (Some(name), Some(version)) = (words.next(), words.next()) else {
            continue;
        };
        if name.starts_with("verimount") {
            continue;
        }
        let version = version.trim_start_matches('v');
        libraries.insert(format!("{name}-{version}"), licence.to_owned());
    }
    ensure!(!libraries.is_empty(), "cargo tree lists no dependencies");
    Ok(libraries)
}

/// Those of a library, in its sources as cargo has unpacked them.
fn licence_files(library: &str) -> Result<Vec<PathBuf>> {
    let registries = files(&binary::cargo_home()?.join("registry/src"))?;
    let mut sources = registries.iter().map(|registry| registry.join(library));
    let sources = sources.find(|sources| sources.is_dir());
    let sources = sources.with_context(|| format!("cargo has no sources of {library}"))?;
    let is_licence = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        let name = name.to_string_lossy().to_uppercase();
        path.is_file() && NAMES.iter().any(|beginning| name.starts_with(beginning))
    };
    Ok(files(&sources)?.into_iter().filter(is_licence).collect())
}
