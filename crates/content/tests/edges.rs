//! Which modules of this crate know which, and which crates it knows.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use syn::{Item, UseTree, Visibility};
use verimount_names::printable;

/// The modules from those that know least to the one that opens. Only those of one line may know each other. So nothing that is
/// read knows a place: `at_need` gets what opens it from `lazy`.
const ORDER: &[&[&str]] = &[
    &[
        "error",
        "error_kind",
        "far",
        "fault",
        "layers_error",
        "location",
        "origin",
        "pin",
        "progress",
        "trust",
    ],
    // Of tests.
    &["sealed_files"],
    &["opening"],
    &["at_need"],
    &["options"],
    &["place"],
    &["layer_note"],
    &["seal_search"],
    &["accepted"],
    &["beheaded"],
    &["like"],
    &["history"],
    &["lazy"],
    &["mirrors"],
    &["open"],
];

/// Transports, formats of images and volumes, and what serves them.
const UNKNOWN: [&str; 9] = [
    "bridge",
    "erofs",
    "fuse",
    "integrity",
    "mount",
    "nbd",
    "romfs",
    "sandbox",
    "serve",
];

#[test]
fn no_module_knows_one_above_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let homes = homes(&source.join("lib.rs"));
    let rank = |module: &str| {
        let line = ORDER.iter().position(|line| line.contains(&module));
        line.unwrap_or_else(|| panic!("{module} has no place in the order"))
    };
    let mut known = 0;
    for file in sources(&source) {
        let inside = file.strip_prefix(&source).unwrap().with_extension("");
        let module = inside.iter().next().unwrap().to_str().unwrap();
        for other in used(&file) {
            let other = homes.get(&other).unwrap_or(&other);
            known += 1;
            assert!(
                rank(other) <= rank(module),
                "{}: {module} is below {other}, and knows it",
                printable(&file)
            );
        }
    }
    assert!(known > 100, "it finds only {known} uses");
}

#[test]
fn it_knows_no_transport_and_no_format() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut known = BTreeSet::new();
    let mut to_read = vec!["content".to_owned()];
    while let Some(name) = to_read.pop() {
        let manifest = fs::read_to_string(crates.join(&name).join("Cargo.toml")).unwrap();
        let Some((_, dependencies)) = manifest.split_once("\n[dependencies]\n") else {
            continue;
        };
        let dependencies = dependencies.split("\n[").next().unwrap().lines();
        let ours = dependencies.filter_map(|line| line.strip_prefix("verimount-"));
        for other in ours.map(|line| line.split(['.', ' ']).next().unwrap()) {
            if known.insert(other.to_owned()) {
                to_read.push(other.to_owned());
            }
        }
    }
    assert!(known.contains("verity") && known.contains("remote"));
    let wrong: Vec<_> = UNKNOWN
        .iter()
        .filter(|name| known.contains(**name))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// The modules that items at the crate's root are from, by the items' names.
fn homes(lib: &Path) -> BTreeMap<String, String> {
    let mut homes = BTreeMap::new();
    for item in parsed(lib) {
        if let Item::Use(item) = item
            && matches!(item.vis, Visibility::Public(_))
        {
            for path in paths(&item.tree) {
                homes.insert(path.last().unwrap().clone(), path[0].clone());
            }
        }
    }
    homes
}

/// What a file uses of the crate: the first names behind `crate`, outside of its tests.
fn used(file: &Path) -> Vec<String> {
    let uses = parsed(file).into_iter().filter_map(|item| match item {
        Item::Use(item) => Some(paths(&item.tree)),
        _ => None,
    });
    let in_crate = uses.flatten().filter(|path| path[0] == "crate");
    in_crate.map(|path| path[1].clone()).collect()
}

fn paths(tree: &UseTree) -> Vec<Vec<String>> {
    match tree {
        UseTree::Path(path) => {
            let mut rest = paths(&path.tree);
            rest.iter_mut()
                .for_each(|names| names.insert(0, path.ident.to_string()));
            rest
        }
        UseTree::Name(name) => vec![vec![name.ident.to_string()]],
        UseTree::Rename(rename) => vec![vec![rename.ident.to_string()]],
        UseTree::Group(group) => group.items.iter().flat_map(paths).collect(),
        UseTree::Glob(_) => vec![vec!["*".to_owned()]],
    }
}

fn parsed(file: &Path) -> Vec<Item> {
    let text = fs::read_to_string(file).unwrap();
    syn::parse_file(&text).unwrap().items
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let files = paths.flat_map(|path| {
        if path.is_dir() {
            sources(&path)
        } else {
            vec![path]
        }
    });
    files.filter(|file| !file.ends_with("lib.rs")).collect()
}
