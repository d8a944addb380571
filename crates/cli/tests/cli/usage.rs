//! Every subcommand explains itself and refuses what it does not know.

use std::collections::BTreeSet;

use crate::{
    args,
    common::{run::verimount, world::World},
};

/// A subcommand with its expected help.
struct Subcommand {
    /// With the name of its parent command.
    name: &'static str,
    /// Required arguments, in order, with valid values.
    required: &'static [(&'static str, &'static str)],
    options: &'static [&'static str],
    /// Options with malformed values.
    malformed: &'static [(&'static str, &'static str)],
}

const TREE: [&str; 3] = ["--hash-alg", "--tree-block-size", "--salt"];
const TRUST: [&str; 7] = [
    "--digest",
    "--key",
    "--unpinned",
    "--unverified",
    "--root-hash",
    "--hash-offset",
    "--data-blocks",
];
const READ: [&str; 10] = [
    "--sidecar",
    "--tree-readahead",
    "--tree-cache",
    "--block-size",
    "--cache",
    "--cache-size",
    "--no-cache",
    "--timeout",
    "--ca",
    "--header-file",
];

const MALFORMED_TREE: [(&str, &str); 9] = [
    ("--hash-alg", "md5"),
    ("--hash-alg", ""),
    ("--tree-block-size", "512"),
    ("--tree-block-size", "128K"),
    ("--tree-block-size", "3000"),
    ("--tree-block-size", "99999999999999999999"),
    ("--salt", "xy"),
    ("--salt", "abc"),
    (
        "--salt",
        "000000000000000000000000000000000000000000000000000000000000000000",
    ),
];

const MALFORMED_READ: [(&str, &str); 17] = [
    ("--timeout", "0"),
    ("--timeout", "1s"),
    ("--cache-size", "1X"),
    ("--root-hash", ""),
    ("--root-hash", "sha256:00"),
    ("--hash-offset", "-1"),
    ("--data-blocks", "much"),
    ("--digest", ""),
    ("--digest", "sha256"),
    ("--digest", "sha256:"),
    ("--digest", "sha256:00"),
    (
        "--digest",
        "md5:3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95",
    ),
    ("--tree-readahead", "-1"),
    ("--tree-cache", "much"),
    ("--tree-cache", "99999999T"),
    ("--block-size", "512"),
    ("--block-size", "2M"),
];

const USE: [&str; 10] = [
    "--data-device",
    "--integrity",
    "--integrity-key-file",
    "--journal-integrity",
    "--journal-integrity-key-file",
    "--mode",
    "--allow-discards",
    "--tag-cache",
    "--tag-read-back",
    "--commit-time",
];

/// The options of [`USE`], and more.
const fn with_use<const ALL: usize, const MORE: usize>(
    more: [&'static str; MORE],
) -> [&'static str; ALL] {
    assert!(ALL == USE.len() + MORE);
    let mut all = [""; ALL];
    let mut place = 0;
    while place < ALL {
        all[place] = match place < USE.len() {
            true => USE[place],
            false => more[place - USE.len()],
        };
        place += 1;
    }
    all
}

const SUBCOMMANDS: [Subcommand; 28] = [
    Subcommand {
        name: "build",
        required: &[("DIR|TAR", "."), ("IMAGE", "image")],
        options: &[
            "--block-size",
            "--volume-name",
            "--no-seal",
            "--force",
            "--widen-permissions",
            "--strict",
            "--format",
            "--compress",
            "--cluster",
            "--exclude",
            "--mtime",
            "--owner",
            "--all-root",
            "--xattrs",
            "--whiteouts",
            TREE[0],
            TREE[1],
            TREE[2],
        ],
        malformed: &[
            ("--block-size", "256"),
            ("--block-size", "128K"),
            ("--block-size", "6000"),
            ("--volume-name", TOO_LONG_A_NAME),
            ("--strict", "colour"),
            ("--format", "squashfs"),
            ("--compress", "gzip"),
            ("--compress", "lz4,13"),
            ("--cluster", "2M"),
            ("--cluster", "6000"),
            ("--exclude", "[a"),
            ("--mtime", "today"),
            ("--owner", "root"),
            ("--xattrs", "some"),
            ("--whiteouts", "aufs"),
        ],
    },
    Subcommand {
        name: "seal",
        required: &[("FILE", "file")],
        options: &[
            "--append",
            "--force",
            "--format",
            "--data-block-size",
            TREE[0],
            TREE[1],
            TREE[2],
        ],
        malformed: &[
            ("--format", "dm-integrity"),
            ("--data-block-size", "256"),
            ("--data-block-size", "128K"),
            ("--tree-block-size", "512"),
        ],
    },
    Subcommand {
        name: "digest",
        required: &[("FILE", "file")],
        options: &["--compact", TREE[0], TREE[1], TREE[2]],
        malformed: &MALFORMED_TREE,
    },
    Subcommand {
        name: "info",
        required: &[("FILE", "file")],
        options: &[
            "--sidecar",
            "--hash-offset",
            "--json",
            "--plain-http",
            "--timeout",
            "--ca",
            "--header-file",
        ],
        malformed: &[("--hash-offset", "-1")],
    },
    Subcommand {
        name: "keygen",
        required: &[("PUBLIC", "public"), ("SECRET", "secret")],
        options: &["--no-password", "--password-file"],
        malformed: &[],
    },
    Subcommand {
        name: "sign",
        required: &[("FILE", "file"), ("--key", "--key=key")],
        options: &[
            "--password-file",
            READ[0],
            READ[1],
            READ[2],
            READ[3],
            READ[4],
            READ[5],
            READ[6],
            READ[7],
            READ[8],
            READ[9],
        ],
        malformed: &[("--block-size", "2M")],
    },
    Subcommand {
        name: "verify",
        required: &[("FILE", "file")],
        options: &[
            "--json",
            "--device",
            "--plain-http",
            TRUST[0],
            TRUST[1],
            TRUST[2],
            TRUST[3],
            TRUST[4],
            TRUST[5],
            TRUST[6],
            READ[0],
            READ[1],
            READ[2],
            READ[3],
            READ[4],
            READ[5],
            READ[6],
            READ[7],
            READ[8],
            READ[9],
        ],
        malformed: &MALFORMED_READ,
    },
    Subcommand {
        name: "ls",
        required: &[("IMAGE", "image")],
        options: &[
            "--long",
            "--json",
            "--device",
            "--plain-http",
            TRUST[0],
            TRUST[1],
            TRUST[2],
            TRUST[3],
            TRUST[4],
            TRUST[5],
            TRUST[6],
            READ[0],
            READ[1],
            READ[2],
            READ[3],
            READ[4],
            READ[5],
            READ[6],
            READ[7],
            READ[8],
            READ[9],
        ],
        malformed: &MALFORMED_READ,
    },
    Subcommand {
        name: "cat",
        required: &[("IMAGE", "image"), ("PATH", "path")],
        options: &[
            "--device",
            "--plain-http",
            TRUST[0],
            TRUST[1],
            TRUST[2],
            TRUST[3],
            TRUST[4],
            TRUST[5],
            TRUST[6],
            READ[0],
            READ[1],
            READ[2],
            READ[3],
            READ[4],
            READ[5],
            READ[6],
            READ[7],
            READ[8],
            READ[9],
        ],
        malformed: &MALFORMED_READ,
    },
    Subcommand {
        name: "extract",
        required: &[("IMAGE", "image"), ("DIR", "directory")],
        options: &[
            "--strict",
            "--max-size",
            "--device",
            "--plain-http",
            TRUST[0],
            TRUST[1],
            TRUST[2],
            TRUST[3],
            TRUST[4],
            TRUST[5],
            TRUST[6],
            READ[0],
            READ[1],
            READ[2],
            READ[3],
            READ[4],
            READ[5],
            READ[6],
            READ[7],
            READ[8],
            READ[9],
        ],
        malformed: &MALFORMED_READ,
    },
    Subcommand {
        name: "push",
        required: &[("FILE", "file"), ("IMAGE", "oci://host/image:tag")],
        options: &[
            "--sidecar",
            "--plain-http",
            "--timeout",
            "--ca",
            "--header-file",
        ],
        malformed: &[("--sidecar", "oci://host")],
    },
    Subcommand {
        name: "pull",
        required: &[("IMAGE", "oci://host/image:tag"), ("FILE", "file")],
        options: &[
            "--plain-http",
            "--timeout",
            "--ca",
            "--header-file",
            TRUST[0],
            TRUST[1],
            TRUST[2],
            TRUST[3],
            TRUST[4],
            TRUST[5],
            TRUST[6],
        ],
        malformed: &[("--digest", "sha256:00")],
    },
    Subcommand {
        name: "mount",
        required: &[("SOURCE", "source"), ("DIR", "directory")],
        options: &[
            "--as-file",
            "--device",
            "--plain-http",
            "--prefetch",
            "--uid",
            "--gid",
            "--umask",
            "--suid",
            "--dev",
            "--allow-other",
            "--awake",
            "--noexec",
            "--threads",
            "--foreground",
            "--log",
            "--quiet",
            "-o",
            TRUST[0],
            TRUST[1],
            TRUST[2],
            TRUST[3],
            TRUST[4],
            TRUST[5],
            TRUST[6],
            READ[0],
            READ[1],
            READ[2],
            READ[3],
            READ[4],
            READ[5],
            READ[6],
            READ[7],
            READ[8],
            READ[9],
        ],
        malformed: &[
            ("--threads", "0"),
            ("--threads", "many"),
            ("--digest", "sha256:00"),
            ("--uid", "nobody"),
            ("--gid", "-1"),
            ("--umask", "8"),
            ("--prefetch", "some"),
        ],
    },
    Subcommand {
        name: "cache info",
        required: &[],
        options: &["--cache", "--cache-size", "--json"],
        malformed: &[("--cache-size", "1X")],
    },
    Subcommand {
        name: "cache clear",
        required: &[],
        options: &["--cache", "--cache-size"],
        malformed: &[("--cache-size", "1X")],
    },
    Subcommand {
        name: "cache verify",
        required: &[],
        options: &["--cache", "--cache-size"],
        malformed: &[("--cache-size", "1X")],
    },
    Subcommand {
        name: "bridge",
        required: &[("SOURCE", "source"), ("DIR", "directory")],
        options: &[
            "--policy",
            "--explain",
            "--write",
            "--passthrough",
            "--cache",
            "--read-only",
            "--allow-other",
            "--no-xattr",
            "--awake",
            "--noexec",
            "--threads",
            "--foreground",
            "--log",
            "--quiet",
            "-o",
        ],
        malformed: &[
            ("--passthrough", "perhaps"),
            ("--cache", "no"),
            ("--threads", "0"),
        ],
    },
    Subcommand {
        name: "volume format",
        required: &[("VOLUME", "volume")],
        options: &[
            USE[0],
            USE[1],
            USE[2],
            USE[3],
            USE[4],
            USE[5],
            "--size",
            "--disk-size",
            "--force",
            "--sector-size",
            "--tag-size",
            "--interleave-sectors",
            "--journal-size",
            "--integrity-legacy-padding",
            "--integrity-legacy-hmac",
        ],
        malformed: &[
            ("--size", "0"),
            ("--size", "1X"),
            ("--integrity", "md5"),
            ("--sector-size", "8K"),
            ("--tag-size", "0"),
            ("--tag-size", "65537"),
            ("--interleave-sectors", "12"),
            ("--journal-size", "much"),
            ("--mode", "fast"),
        ],
    },
    Subcommand {
        name: "volume info",
        required: &[("VOLUME", "volume")],
        options: &["--json"],
        malformed: &[],
    },
    Subcommand {
        name: "volume check",
        required: &[("VOLUME", "volume")],
        options: &[
            USE[0], USE[1], USE[2], USE[3], USE[4], USE[6], "--accept", "--json",
        ],
        malformed: &[
            ("--integrity", ""),
            ("--accept", "8"),
            ("--accept", "8..8"),
            ("--accept", "-8..8"),
        ],
    },
    Subcommand {
        name: "volume grow",
        required: &[("VOLUME", "volume")],
        options: &[
            USE[0],
            USE[1],
            USE[2],
            USE[3],
            USE[4],
            "--size",
            "--disk-size",
        ],
        malformed: &[("--integrity", ""), ("--size", "x"), ("--disk-size", "x")],
    },
    Subcommand {
        name: "volume mount",
        required: &[("VOLUME", "volume"), ("DIR", "directory")],
        options: &with_use::<18, _>([
            "--allow-other",
            "--awake",
            "--noexec",
            "--threads",
            "--foreground",
            "--log",
            "--quiet",
            "-o",
        ]),
        malformed: &[
            ("--mode", "fast"),
            ("--threads", "0"),
            ("--tag-cache", "x"),
            ("--commit-time", "0"),
        ],
    },
    Subcommand {
        name: "volume serve",
        required: &[("VOLUME", "volume"), ("--socket", "--socket=socket")],
        options: &with_use::<17, _>([
            "--socket-mode",
            "--socket-group",
            "--awake",
            "--threads",
            "--foreground",
            "--log",
            "--quiet",
        ]),
        malformed: &[
            ("--mode", "fast"),
            ("--socket-mode", "rw"),
            ("--socket-mode", "1777"),
            ("--socket-group", "no such group"),
            ("--threads", "0"),
            ("--commit-time", "-1"),
        ],
    },
    Subcommand {
        name: "umount",
        required: &[("DIR|SOCKET", "directory")],
        options: &["--lazy"],
        malformed: &[],
    },
    Subcommand {
        name: "status",
        required: &[("DIR|SOCKET", "directory")],
        options: &["--json", "--prometheus"],
        malformed: &[],
    },
    Subcommand {
        name: "list",
        required: &[],
        options: &["--json"],
        malformed: &[],
    },
    Subcommand {
        name: "completions",
        required: &[("SHELL", "bash")],
        options: &[],
        malformed: &[],
    },
    Subcommand {
        name: "man",
        required: &[("DIR", "directory")],
        options: &[],
        malformed: &[],
    },
];

/// EROFS has room for 16 bytes, romfs for 128.
const TOO_LONG_A_NAME: &str = "\
    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\
    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef+";

/// Checks all of them, and names the one that fails.
fn each(check: impl Fn(&Subcommand)) {
    for subcommand in &SUBCOMMANDS {
        eprintln!("{}", subcommand.name);
        check(subcommand);
    }
}

impl Subcommand {
    /// The subcommand with the first `count` of its required arguments.
    fn with_required(&self, count: usize) -> Vec<&'static str> {
        let required = self.required[..count].iter().map(|(_, value)| *value);
        self.name.split(' ').chain(required).collect()
    }

    fn complete(&self) -> Vec<&'static str> {
        self.with_required(self.required.len())
    }
}

/// The subcommands that a command's help lists, with what comes before them.
fn listed(before: &[&str]) -> BTreeSet<String> {
    let help = verimount([before, &["--help"]].concat());
    let help = help.succeeds_quietly().text();
    let (_, listed) = help.split_once("Commands:\n").unwrap();
    let (listed, _) = listed.split_once("\n\n").unwrap();
    // The lines that go on with an explanation are indented more.
    let lines = listed.lines().filter_map(|line| line.strip_prefix("  "));
    let names = lines.filter_map(|line| line.split(' ').next());
    names
        .filter(|name| !["", "help"].contains(name))
        .map(|name| [before, &[name]].concat().join(" "))
        .collect()
}

/// So that a new subcommand is tested, too.
#[test]
fn all_subcommands_are_listed_here() {
    let mut all = listed(&[]);
    for group in ["cache", "volume"] {
        assert!(all.remove(group));
        all.extend(listed(&[group]));
    }
    let here = SUBCOMMANDS.iter().map(|subcommand| subcommand.name);
    assert_eq!(all, here.map(str::to_owned).collect());
}

#[test]
fn help_mentions_every_argument() {
    each(|subcommand| {
        let name: Vec<_> = subcommand.name.split(' ').collect();
        let help = [
            verimount([&name[..], &["--help"]].concat()),
            verimount([&name[..], &["-h"]].concat()),
            verimount([&["help"], &name[..]].concat()),
        ];
        for help in help {
            let text = help.succeeds_quietly().text();
            assert!(text.contains(&format!("Usage: verimount {}", subcommand.name)));
            for (argument, _) in subcommand.required {
                assert!(text.contains(argument), "no {argument} in {text}");
            }
            for option in subcommand.options {
                assert!(text.contains(option), "no {option} in {text}");
            }
        }
    });
}

/// What help shows is all there is.
#[test]
fn help_mentions_nothing_that_is_not_listed_here() {
    each(|subcommand| {
        let mut arguments = subcommand.with_required(0);
        arguments.push("-h");
        let help = verimount(arguments);
        let shown = help
            .text()
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix('-'))
            .filter_map(|line| {
                line.split(' ')
                    .find(|word| word.starts_with('-'))
                    .or(Some(line))
            })
            .map(|word| {
                let name = word.trim_start_matches('-');
                let name = name.split([' ', '[']).next().unwrap();
                // Some have only a short name.
                let dashes = if word.starts_with('-') { "--" } else { "-" };
                format!("{dashes}{name}")
            });
        for option in shown {
            let known = subcommand.options.contains(&option.as_str())
                || subcommand.required.iter().any(|(name, _)| *name == option)
                || option == "--help";
            assert!(known, "{option}");
        }
    });
}

#[test]
fn unknown_options_are_refused() {
    each(|subcommand| {
        for unknown in ["--no-such-option", "-Z"] {
            let mut arguments = subcommand.complete();
            arguments.push(unknown);
            let ended = verimount(arguments);
            ended.is_wrong_usage();
            assert!(ended.stderr.contains(unknown), "{ended:?}");
        }
    });
}

#[test]
fn missing_arguments_are_named() {
    each(|subcommand| {
        for count in 0..subcommand.required.len() {
            let ended = verimount(subcommand.with_required(count));
            ended.is_wrong_usage();
            let (missing, _) = subcommand.required[count];
            assert!(ended.stderr.contains(missing), "{ended:?}");
        }
    });
}

#[test]
fn surplus_arguments_are_refused() {
    each(|subcommand| {
        let takes_more = ["digest", "ls", "cat"].contains(&subcommand.name);
        if !takes_more {
            let mut arguments = subcommand.complete();
            arguments.push("surplus");
            verimount(arguments).is_wrong_usage();
        }
    });
}

#[test]
fn malformed_values_are_refused() {
    each(|subcommand| {
        for (option, value) in subcommand.malformed {
            let mut arguments = subcommand.complete();
            let assignment = format!("{option}={value}");
            arguments.push(&assignment);
            let ended = verimount(&arguments);
            ended.is_wrong_usage();
            assert!(ended.stderr.contains(option), "{ended:?}");
        }
    });
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
        assert!(ended.stderr.contains(words), "{ended:?}");
    }
}

#[test]
fn only_one_reason_to_trust_can_be_given() {
    const DIGEST: &str =
        "--digest=sha256:3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95";
    let reasons = [
        DIGEST,
        "--root-hash=00",
        "--key=key",
        "--unpinned",
        "--unverified",
    ];
    for subcommand in SUBCOMMANDS
        .iter()
        .filter(|each| each.options.contains(&"--unpinned"))
    {
        for (number, first) in reasons.iter().enumerate() {
            for second in &reasons[number + 1..] {
                let mut arguments = subcommand.complete();
                arguments.extend([first, second]);
                verimount(arguments).is_wrong_usage();
            }
        }
    }
}

#[test]
fn without_a_subcommand() {
    let none: [&str; 0] = [];
    let ended = verimount(none);
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert!(
        ended.stderr.contains("Usage: verimount <COMMAND>"),
        "{ended:?}"
    );
    for unknown in ["no-such-subcommand", "", "-x", "moun"] {
        verimount([unknown]).is_wrong_usage();
    }
    let version = verimount(["--version"]);
    assert_eq!(
        version.succeeds_quietly().text(),
        concat!("verimount ", env!("CARGO_PKG_VERSION"), "\n")
    );
}
