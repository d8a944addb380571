//! That nothing is compiled twice: a library that two commands ask to have different features, and all that uses it; and that who
//! only reads compiles little.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use anyhow::{Result, ensure};
use verimount_support::{command, workspace::cargo};

/// What Cargo is asked to compile in one profile: the packages, and with which dependencies. It chooses features for each of
/// these by itself.
const SELECTIONS: [(&str, &[&str]); 4] = [
    ("cargo build", &["--edges", "normal,no-proc-macro"]),
    ("cargo test", &["--edges", "normal,dev,no-proc-macro"]),
    (
        "cargo build --workspace",
        &["--workspace", "--edges", "normal,no-proc-macro"],
    ),
    (
        "cargo test --workspace",
        &["--workspace", "--edges", "normal,dev,no-proc-macro"],
    ),
];

/// The most libraries that a program needs which only reads, `verimount` included.
const MOST_TO_READ: usize = 60;

/// The features of `verimount`, and none.
const OF_LIBRARY: [&str; 5] = ["", "build", "clouds", "remote", "sign"];

/// Libraries, each with its features in each selection.
#[derive(Default)]
struct Libraries(BTreeMap<String, BTreeMap<String, BTreeSet<&'static str>>>);

/// A command of Cargo for `verimount`, for each of its features alone and for none.
pub(crate) fn alone(command: &'static str) -> impl Iterator<Item = Command> {
    OF_LIBRARY.iter().map(move |feature| {
        let mut cargo = cargo(command);
        cargo.args([
            "--package",
            "verimount",
            "--locked",
            "--no-default-features",
        ]);
        cargo.args(["--features", feature]);
        cargo
    })
}

/// Ensures that each library has the same features whatever is compiled in this workspace.
pub(crate) fn check() -> Result<()> {
    let mut libraries = Libraries::default();
    for (name, selection) in SELECTIONS {
        let mut tree = cargo("tree");
        tree.args(["--locked", "--prefix", "none", "--format", "{p}\t{f}"]);
        libraries.add(name, &command::stdout(tree.args(selection))?);
    }
    let twice = libraries.compiled_twice();
    ensure!(
        twice.is_empty(),
        "compiled more than once, because their features differ (see [workspace.dependencies]):\n{twice}"
    );
    let mut tree = cargo("tree");
    tree.args([
        "--locked",
        "--package",
        "verimount",
        "--no-default-features",
    ]);
    let tree = command::stdout(tree.args(["--edges", "normal", "--prefix", "none"]))?;
    let to_read: BTreeSet<_> = tree
        .lines()
        .map(|line| line.trim_end_matches(" (*)"))
        .collect();
    ensure!(
        to_read.len() <= MOST_TO_READ,
        "{} libraries are needed to read, more than {MOST_TO_READ}",
        to_read.len()
    );
    Ok(())
}

impl Libraries {
    /// Adds what `cargo tree` prints for a selection.
    fn add(&mut self, selection: &'static str, tree: &str) {
        for line in tree.lines() {
            // What was printed before has a mark.
            let line = line.strip_suffix(" (*)").unwrap_or(line);
            let Some((package, features)) = line.split_once('\t') else {
                continue;
            };
            let with = self.0.entry(package.to_owned()).or_default();
            let selections = with.entry(features.to_owned()).or_default();
            selections.insert(selection);
        }
    }

    /// A line for each that has different features, and one for each of its sets of features.
    fn compiled_twice(&self) -> String {
        let twice = self.0.iter().filter(|(_, with)| with.len() > 1);
        let lines = twice.map(|(package, with)| {
            let sets = with.iter().map(|(features, selections)| {
                let selections: Vec<_> = selections.iter().copied().collect();
                format!("    by {}: {features}\n", selections.join(", "))
            });
            format!("  {package}\n{}", sets.collect::<String>())
        });
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_with_two_sets_of_features_is_named() {
        let mut libraries = Libraries::default();
        libraries.add(
            "one",
            "own v1 (/at)\ta\nlibc v0.2\tdefault,std\nboth v1\t\n\nboth v1\t (*)\n",
        );
        libraries.add(
            "two",
            "both v1\t\nlibc v0.2\tdefault,extra_traits,std (*)\n",
        );
        assert_eq!(
            libraries.compiled_twice(),
            "  libc v0.2\n    by two: default,extra_traits,std\n    by one: default,std\n"
        );
    }
}
