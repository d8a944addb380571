//! The licences of everything that is in the binary.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use verimount_support::{
    command,
    workspace::{cargo, root},
};

use super::{binary, files};

/// How the names of files with licences and notices begin.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// The text for the file `copyright`. `vendored` has the sources of all dependencies.
pub(super) fn of_all(vendored: &Path) -> Result<String> {
    let mut text = String::from(
        "Verimount is licensed under the MIT license or the Apache License 2.0, as you choose.\n\
         The program contains the libraries below, each under the license that follows it.\n",
    );
    // Most share the text of a licence.
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for own in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let licence = fs::read_to_string(root().join(own))?;
        owners
            .entry(licence)
            .or_default()
            .push("verimount".to_owned());
    }
    for (library, licence) in libraries()? {
        text += &format!("\n  {library}: {licence}");
        for file in licence_files(&vendored.join(&library))? {
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

/// All dependencies that are compiled into the program, as NAME-VERSION, with what they say of their licence.
fn libraries() -> Result<BTreeMap<String, String>> {
    let mut tree = cargo("tree");
    tree.args(["--locked", "--package", "verimount-cli", "--target"])
        .arg(binary::platform())
        .args([
            "--edges", "normal", "--prefix", "none", "--format", "{p}|{l}",
        ]);
    let mut libraries = BTreeMap::new();
    for line in command::stdout(&mut tree)?.lines() {
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

fn licence_files(library: &Path) -> Result<Vec<PathBuf>> {
    let is_licence = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        let name = name.to_string_lossy().to_uppercase();
        path.is_file() && NAMES.iter().any(|beginning| name.starts_with(beginning))
    };
    Ok(files(library)?.into_iter().filter(is_licence).collect())
}
