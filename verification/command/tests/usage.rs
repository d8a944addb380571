//! Every subcommand explains itself and refuses what it does not know.

mod subcommands;

use std::collections::BTreeSet;

use self::subcommands::{ALL, Subcommand};
use crate::{
    args,
    common::{run::verimount, world::World},
};

/// Checks all of them, and names the one that fails.
fn each(check: impl Fn(&Subcommand)) {
    for subcommand in &ALL {
        eprintln!("{}", subcommand.name);
        check(subcommand);
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
    let here = ALL.iter().map(|subcommand| subcommand.name);
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
            for option in subcommand.options() {
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
            let known = subcommand.options().any(|known| known == option)
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
fn trust_without_a_pin_excludes_all_pins() {
    const DIGEST: &str =
        "--digest=sha256:3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95";
    const PINS: [&str; 3] = [DIGEST, "--root-hash=00", "--key=key"];
    let excluding = [
        ("--unpinned", "--unverified"),
        ("--unverified", "--unpinned"),
    ];
    let read = ALL
        .iter()
        .filter(|each| each.options().any(|option| option == "--unpinned"));
    for subcommand in read {
        for (without_pin, other) in excluding {
            for excluded in PINS.into_iter().chain([other]) {
                let mut arguments = subcommand.complete();
                arguments.extend([without_pin, excluded]);
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
