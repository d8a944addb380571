//! The documentation, help, manual pages and completions tell of the same subcommands and options, and what a
//! subcommand does not know or cannot use, it names.

use verimount_support::workspace::root;

use crate::{documents::pages, prelude::*};

/// A subcommand, as its help shows it.
struct Subcommand {
    /// With the name of its group.
    name: Vec<String>,
    /// The help for `-h`.
    help: String,
}

impl Subcommand {
    fn new(name: &[&str]) -> Self {
        let help = verimount([name, &["-h"]].concat());
        Self {
            name: name.iter().map(|part| (*part).to_owned()).collect(),
            help: help.succeeds_quietly().text().to_owned(),
        }
    }

    fn with<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        let name = self.name.iter().map(String::as_str);
        name.chain(arguments.iter().copied()).collect()
    }

    /// Its options, short and long.
    fn options(&self) -> BTreeSet<&str> {
        let lines = self.help.lines().map(str::trim_start);
        let shown = lines.filter(|line| line.starts_with('-'));
        // What it is for is further to the right.
        let shown = shown.filter_map(|line| line.split("  ").next());
        shown.flat_map(options_in).collect()
    }

    /// What must be given, as its usage shows it.
    fn required(&self) -> BTreeSet<&str> {
        let usage = self.help.split_once("Usage: verimount ").unwrap().1;
        let usage = usage.lines().next().unwrap();
        let words = usage.split(' ').filter(|word| word.starts_with('<'));
        words.map(|word| word.trim_end_matches("...")).collect()
    }
}

fn options_in(text: &str) -> impl Iterator<Item = &str> {
    let ends = |c: char| !c.is_ascii_alphanumeric() && c != '-';
    text.split(ends)
        .filter(|word| word.len() > 1 && word.starts_with('-') && !word.ends_with('-'))
}

/// The names that a command's help lists.
fn listed(before: &[&str]) -> Vec<String> {
    let help = verimount([before, &["-h"]].concat());
    let help = help.succeeds_quietly().text();
    let (_, listed) = help.split_once("Commands:\n").unwrap();
    let (listed, _) = listed.split_once("\n\n").unwrap();
    // The lines that go on with an explanation are indented more.
    let lines = listed.lines().filter_map(|line| line.strip_prefix("  "));
    let names = lines.filter_map(|line| line.split(' ').next());
    let names = names.filter(|name| !["", "help"].contains(name));
    names.map(str::to_owned).collect()
}

/// All subcommands.
fn all() -> Vec<Subcommand> {
    let mut all = Vec::new();
    for name in listed(&[]) {
        match &*name {
            "cache" | "volume" => all.extend(listed(&[&name]).iter().map(|sub| {
                let name = [&*name, sub];
                Subcommand::new(&name)
            })),
            _ => all.push(Subcommand::new(&[&name])),
        }
    }
    assert!(all.len() >= 28, "{}", all.len());
    all
}

#[test]
fn help_manual_pages_and_completions_agree() {
    let world = World::new();
    let pages = world.path("pages");
    verimount(args!["man", &pages]).succeeds_quietly();
    let shells = ["bash", "zsh", "fish", "elvish", "powershell"];
    let scripts = shells.map(|shell| {
        let script = verimount(["completions", shell]);
        script.succeeds_quietly().text().to_owned()
    });
    for subcommand in all() {
        let (name, options) = (&subcommand.name, subcommand.options());
        assert!(options.contains("--help"), "{name:?}: {options:?}");
        let long = verimount(subcommand.with(&["--help"]));
        let long = long.succeeds_quietly().text();
        let names = name.iter().map(String::as_str);
        let help = verimount(["help"].into_iter().chain(names));
        assert_eq!(help.succeeds_quietly().text(), long);
        assert!(long.contains(&format!("Usage: verimount {}", name.join(" "))));
        let page = pages.join(format!("verimount-{}.1", name.join("-")));
        let page = fs::read_to_string(page).unwrap().replace('\\', "");
        for option in &options {
            for text in [long, &page] {
                assert!(text.contains(option), "{name:?}: no {option} in {text}");
            }
            let bare = option.trim_start_matches('-');
            let script = scripts.iter().find(|script| !script.contains(bare));
            assert!(script.is_none(), "{name:?}: {option} is not completed");
        }
    }
}

/// The command lines in a document, with what is optional in them.
fn documented(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let starts = text.match_indices("verimount ").filter(|(at, _)| {
        let before = &text[..*at];
        ["\n", "\n$ ", "`", "\n# ", "sudo "]
            .iter()
            .any(|start| before.ends_with(start))
    });
    let lines = starts.map(|(at, start)| {
        let line = &text[at + start.len()..];
        let end = line.find(['`', '\n', '#', '&', ';']).unwrap_or(line.len());
        line[..end].trim().to_owned()
    });
    // Not sentences, nor arguments of `mount`.
    let lines = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
    lines.collect()
}

#[test]
fn what_the_documentation_says_is_there() {
    let all = all();
    let mut mentioned = BTreeSet::new();
    let mut options = 0;
    let readmes = ["README.md", "crates/cli/README.md"].map(|path| root().join(path));
    let docs = root().join("docs");
    // Those of formats are about bytes.
    let pages = pages(&docs)
        .into_iter()
        .filter(|page| !page.starts_with(docs.join("formats")));
    for document in readmes.into_iter().chain(pages) {
        for line in documented(&document) {
            let words: Vec<_> = line
                .split([' ', ','])
                .filter(|word| !word.is_empty())
                .collect();
            // `ls|cat|extract`, `cache info|clear|verify`, and `keygen, sign`.
            let (group, names) = match words[0] {
                group @ ("cache" | "volume") => (Some(group), words.get(1).copied()),
                names => (None, Some(names)),
            };
            let mut names: Vec<_> = names.unwrap_or_default().split('|').collect();
            if line.starts_with("keygen, ") || line.starts_with("completions, ") {
                names.push(words[1]);
            }
            for name in names {
                let name: Vec<_> = group.into_iter().chain([name]).collect();
                let found = all.iter().find(|subcommand| subcommand.name == name);
                let found = found.unwrap_or_else(|| panic!("{document:?}: {line}"));
                let unquoted = line.split('"').step_by(2);
                for option in unquoted.flat_map(options_in) {
                    let known = found.options().contains(option);
                    assert!(known, "{document:?}: {option} in {line}");
                    options += 1;
                }
                mentioned.insert(name.join(" "));
            }
        }
    }
    let names = all.iter().map(|subcommand| subcommand.name.join(" "));
    assert_eq!(mentioned, names.collect());
    assert!(options > 30, "{options}");
}

#[test]
fn what_is_unknown_or_missing_is_named() {
    for subcommand in all() {
        for unknown in ["--no-such-option", "-Z"] {
            let ended = verimount(subcommand.with(&[unknown]));
            ended.is_wrong_usage();
            ended.notes(unknown);
        }
        let required = subcommand.required();
        if !required.is_empty() {
            let ended = verimount(subcommand.with(&[]));
            ended.is_wrong_usage();
            for missing in required {
                assert!(ended.stderr.contains(missing), "{missing}: {ended:?}");
            }
        }
    }
    verimount(["build", ".", "image", "surplus"]).is_wrong_usage();
}

/// EROFS has room for 16 bytes, romfs for 128.
const TOO_LONG_A_NAME: &str = "\
    --volume-name=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\
    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef+";

/// Options with values that are none.
const MALFORMED: &[(&str, &[&str])] = &[
    (
        "build . image",
        &[
            "--block-size=256",
            "--block-size=128K",
            "--block-size=6000",
            TOO_LONG_A_NAME,
            "--strict=colour",
            "--format=squashfs",
            "--compress=gzip",
            "--compress=lz4,13",
            "--cluster=2M",
            "--cluster=6000",
            "--exclude=[a",
            "--mtime=today",
            "--owner=root",
            "--xattrs=some",
            "--whiteouts=aufs",
        ],
    ),
    (
        "seal file",
        &[
            "--format=dm-integrity",
            "--data-block-size=256",
            "--data-block-size=128K",
            "--tree-block-size=512",
        ],
    ),
    (
        "digest file",
        &[
            "--hash-alg=md5",
            "--hash-alg=",
            "--tree-block-size=512",
            "--tree-block-size=128K",
            "--tree-block-size=3000",
            "--tree-block-size=99999999999999999999",
            "--salt=xy",
            "--salt=abc",
            "--salt=000000000000000000000000000000000000000000000000000000000000000000",
        ],
    ),
    ("info file", &["--hash-offset=-1"]),
    ("sign file --key=key", &["--block-size=2M"]),
    (
        "verify file",
        &[
            "--timeout=0",
            "--timeout=1s",
            "--cache-size=1X",
            "--root-hash=",
            "--root-hash=sha256:00",
            "--hash-offset=-1",
            "--data-blocks=much",
            "--digest=",
            "--digest=sha256",
            "--digest=sha256:",
            "--digest=sha256:00",
            "--digest=md5:3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95",
            "--tree-cache=much",
            "--tree-cache=99999999T",
        ],
    ),
    ("push file oci://host/image:tag", &["--sidecar=oci://host"]),
    ("pull oci://host/image:tag file", &["--digest=sha256:00"]),
    (
        "mount source directory",
        &[
            "--threads=0",
            "--threads=many",
            "--digest=sha256:00",
            "--uid=nobody",
            "--gid=-1",
            "--umask=8",
            "--prefetch=some",
        ],
    ),
    ("cache info", &["--cache-size=1X"]),
    (
        "bridge source directory",
        &["--passthrough=perhaps", "--cache=no", "--threads=0"],
    ),
    (
        "volume format volume",
        &[
            "--size=0",
            "--size=1X",
            "--integrity=md5",
            "--sector-size=8K",
            "--tag-size=0",
            "--tag-size=65537",
            "--interleave-sectors=12",
            "--journal-size=much",
            "--mode=fast",
        ],
    ),
    (
        "volume check volume",
        &[
            "--integrity=",
            "--accept=8",
            "--accept=8..8",
            "--accept=-8..8",
        ],
    ),
    ("volume grow volume", &["--size=x", "--disk-size=x"]),
    (
        "volume mount volume directory",
        &["--tag-cache=x", "--commit-time=0"],
    ),
    (
        "volume serve volume --socket=socket",
        &[
            "--socket-mode=rw",
            "--socket-mode=1777",
            "--socket-group=no such group",
            "--commit-time=-1",
        ],
    ),
];

#[test]
fn malformed_values_are_refused() {
    for (subcommand, options) in MALFORMED {
        for option in *options {
            let words = subcommand.split(' ').chain([*option]);
            let ended = verimount(words);
            ended.is_wrong_usage();
            let (name, _) = option.split_once('=').unwrap();
            ended.notes(name);
        }
    }
    verimount(["completions", "no-such-shell"]).is_wrong_usage();
}

/// Valid one by one, but not together.
#[test]
fn options_that_contradict_each_other_are_wrong_usage() {
    let world = World::new();
    let image = world.sealed_image("image");
    let mnt = world.directory("mnt");
    for (arguments, words) in [
        (args!["mount", &image, &mnt], "--digest"),
        (
            args!["seal", &image, "--data-block-size", "1K"],
            "--tree-block-size",
        ),
        (args!["verify", &image, "--unverified"], "--unverified"),
    ] {
        let ended = world.unchanged_by(|| verimount(arguments));
        ended.is_wrong_usage();
        ended.notes(words);
    }
}

#[test]
fn trust_without_a_pin_excludes_all_pins() {
    const DIGEST: &str =
        "--digest=sha256:3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95";
    let pins = [DIGEST, "--root-hash=00", "--key=key"];
    for subcommand in ["verify a", "ls a", "cat a b", "extract a b", "mount a b"] {
        for (without_pin, other) in [
            ("--unpinned", "--unverified"),
            ("--unverified", "--unpinned"),
        ] {
            for excluded in pins.into_iter().chain([other]) {
                let words = subcommand.split(' ').chain([without_pin, excluded]);
                verimount(words).is_wrong_usage();
            }
        }
    }
}

#[test]
fn without_a_subcommand() {
    let none: [&str; 0] = [];
    let ended = verimount(none);
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    ended.notes("Usage: verimount <COMMAND>");
    for unknown in ["no-such-subcommand", "", "-x", "moun"] {
        verimount([unknown]).is_wrong_usage();
    }
    let version = verimount(["--version"]);
    assert_eq!(
        version.succeeds_quietly().text(),
        concat!("verimount ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn an_unknown_option_names_the_commands_that_have_it() {
    let unknown = verimount(["mount", "--mode", "x", "image", "mnt"]);
    unknown.is_wrong_usage();
    let tip = "tip: '--mode' is an option of 'verimount volume format', 'verimount volume mount'";
    assert!(unknown.stderr.contains(tip), "{unknown:?}");
    // It is similar, but the help does not show it.
    assert!(!unknown.stderr.contains("--nodev"), "{unknown:?}");
    let misspelt = verimount(["mount", "--miror", "x", "image", "mnt"]);
    misspelt.is_wrong_usage();
    assert!(misspelt.stderr.contains("'--mirror'"), "{misspelt:?}");
}

/// No file has a seal of each kind that is checked.
#[test]
fn a_root_hash_contradicts_pins_of_other_seals() {
    let [root_hash, digest] =
        ["--root-hash=", "--digest=sha256:"].map(|pin| pin.to_owned() + &"0".repeat(64));
    for other in [&*digest, "--key=key"] {
        verimount(["mount", "image", "mnt", &root_hash, other]).is_wrong_usage();
    }
}

/// Options that would have no effect.
#[test]
fn what_restricts_contradicts_what_accepts_everything() {
    let digest = format!("--digest=sha256:{}", "0".repeat(64));
    for options in [
        ["--unpinned", "--hash-offset=5"],
        ["--unpinned", "--data-blocks=5"],
        ["--unverified", "--hash-offset=5"],
        ["--unverified", "--repair"],
        [&digest, "--hash-offset=5"],
        ["--key=key", "--data-blocks=5"],
    ] {
        verimount([&["mount", "image", "mnt"], &options[..]].concat()).is_wrong_usage();
    }
}
