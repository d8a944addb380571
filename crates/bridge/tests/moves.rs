//! The moves that a policy allows: no move undoes a denial, and moves without effect are not refused.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use arbtest::arbitrary::{self, Unstructured};
use rustix::io::Errno;
use verimount_bridge::{
    Caller,
    policy::{Access, Decision, Facts, Kind, Move, Policy},
};
use verimount_testkit::{cases, several};
use verimount_verity::FileDigest;

fn parse(text: &str) -> Policy {
    Policy::parse(text, Path::new("policy.toml")).unwrap()
}

fn caller(uid: u32) -> Caller {
    Caller {
        uid,
        gid: 100,
        pid: 1,
        request: 0,
    }
}

fn moved<'a>(kind: Kind, from: &'a str, to: &'a str) -> Move<'a> {
    Move {
        kind,
        from: from.as_ref(),
        to: to.as_ref(),
    }
}

/// The rule whose denial a move could undo, or `default`; nothing if the move is harmless.
fn loosened(policy: &str, moved: Move<'_>) -> String {
    match parse(policy).loosened_by(moved, None) {
        None => String::new(),
        Some(None) => "default".to_owned(),
        Some(Some(rule)) => rule.to_string()[..6].to_owned(),
    }
}

const SECRETS: &str = "[[rule]]\naction = \"deny\"\npath = \"secrets/**\"";
const KEYS: &str = "[[rule]]\naction = \"deny\"\npath = \"**/*.key\"";
const SEVERAL: &str =
    "[[rule]]\naction = \"deny\"\npath = [\"**/.ssh/**\", \"**/*.key\", \"etc/*\"]";
const LISTED: &str =
    "default = \"deny\"\n[[rule]]\naction = \"relay\"\npath = [\"pub/**\", \"home/*/pub/**\"]";
/// The first rule allows files that the second one denies elsewhere.
const EXCEPTION: &str = "[[rule]]\naction = \"passthrough\"\npath = \"**/open/*\"\ncaller_uid = 1\n\
     [[rule]]\naction = \"deny\"\naccess = \"write\"";
/// The second rule can never be reached in `pub`.
const SHADOWED: &str = "[[rule]]\naction = \"passthrough\"\npath = \"pub/**\"\n\
     [[rule]]\naction = \"deny\"\npath = \"**/*.key\"";
const VERIFIED: &str = "[[rule]]\naction = \"verified\"\npath = \"models/**\"\n\
     digests = [\"sha256:4eb8e3ff85ad4da7a2e0e6e4e1a9fc1ba2dd24bd0e0aa0b9a3f9e9ca4a4e2d2b\"]";

#[test]
fn a_file_is_not_moved_out_of_what_denies_it() {
    for (policy, from, to, by) in [
        (SECRETS, "secrets/key", "pub/key", "rule 1"),
        (SECRETS, "secrets/key", "secrets/other", ""),
        (SECRETS, "pub/key", "secrets/key", ""),
        (KEYS, "a.key", "a.txt", "rule 1"),
        (KEYS, "a.key", "b/c/d.key", ""),
        (LISTED, "a", "pub/a", "default"),
        (LISTED, "a", "home/me/pub/a", "default"),
        (LISTED, "pub/a", "home/me/pub/a", ""),
        (LISTED, "pub/a", "home/me/a", ""),
        (EXCEPTION, "a", "open/a", "rule 2"),
        (EXCEPTION, "open/a", "a", ""),
        (SHADOWED, "a.key", "pub/a.key", "rule 2"),
        (SHADOWED, "pub/a.key", "pub/a", ""),
        (SHADOWED, "pub/a.key", "a.key", ""),
        (VERIFIED, "models/a", "a", "rule 1"),
        (VERIFIED, "a", "models/a", ""),
        ("default = \"deny\"", "a", "b", ""),
        ("", "a", "b", ""),
    ] {
        let found = loosened(policy, moved(Kind::File, from, to));
        assert_eq!(found, by, "{policy}: {from} to {to}");
    }
}

#[test]
fn a_directory_is_moved_where_nothing_below_it_changes() {
    for (policy, from, to, by) in [
        (SECRETS, "secrets", "pub/s", "rule 1"),
        (SECRETS, "secrets/a", "a", "rule 1"),
        (SECRETS, "secrets/a", "secrets/b/c", ""),
        (SECRETS, "a", "b/c", ""),
        (SECRETS, "a", "secrets", ""),
        (KEYS, "a", "b", ""),
        (KEYS, "a", "b/c/d", ""),
        (KEYS, "b/c/d", "a", ""),
        (KEYS, "a.key", "a", ""),
        (SEVERAL, "a", "b/c", ""),
        (SEVERAL, "a/.ssh", "a/ssh", "rule 1"),
        (SEVERAL, "a/.ssh", "b/.ssh", ""),
        (SEVERAL, "a", ".ssh", ""),
        (SEVERAL, "etc", "conf", "rule 1"),
        (SEVERAL, "etc/a", "conf", ""),
        (LISTED, "a", "b", ""),
        (LISTED, "a", "pub", "default"),
        (LISTED, "home/me", "home/you", ""),
        (LISTED, "work/me", "home/me", "default"),
        (EXCEPTION, "a", "b", ""),
        (EXCEPTION, "a", "open", "rule 2"),
        (SHADOWED, "pub/a", "pub/b", ""),
        (SHADOWED, "a", "pub/a", "rule 2"),
        (VERIFIED, "models/a", "a", "rule 1"),
    ] {
        let found = loosened(policy, moved(Kind::Directory, from, to));
        assert_eq!(found, by, "{policy}: {from} to {to}");
    }
}

/// A directory can be moved only by a user who may write everywhere in it.
#[test]
fn a_directory_that_is_denied_as_a_whole_stays() {
    let written =
        "[[rule]]\naction = \"deny\"\npath = \"conf/**\"\naccess = \"write\"\ncaller_uid = 1";
    let read = "[[rule]]\naction = \"deny\"\npath = \"conf/**\"\naccess = \"read\"";
    for (policy, to, uid, is_denied) in [
        (written, "conf/b", 1, true),
        (written, "conf/b", 2, false),
        (written, "pub/b", 1, false),
        (read, "conf/b", 1, false),
        (KEYS, "b", 1, false),
        (LISTED, "b", 1, true),
        (LISTED, "pub/b", 1, false),
        (LISTED, "home/b", 1, false),
        (SHADOWED, "pub/b", 1, false),
    ] {
        let who = (Access::Write, caller(uid));
        let moved = moved(Kind::Directory, "conf/a", to);
        let denied = parse(policy).denied_all_over(moved, who).is_some();
        assert_eq!(denied, is_denied, "{policy}: to {to} by {uid}");
    }
}

/// An open with these facts for rules.
#[derive(Debug, Clone)]
struct Open {
    access: Access,
    uid: u32,
    size: u64,
    path: PathBuf,
}

impl Facts for Open {
    fn access(&self) -> Access {
        self.access
    }

    fn caller(&self) -> Caller {
        caller(self.uid)
    }

    fn path(&self) -> Result<&Path, Errno> {
        Ok(&self.path)
    }

    fn size(&self) -> Result<u64, Errno> {
        Ok(self.size)
    }

    fn owner(&self) -> Result<(u32, u32), Errno> {
        Ok((0, 0))
    }

    fn content(&self, _: u64, _: &mut [u8]) -> Result<usize, Errno> {
        Ok(0)
    }

    fn xattr(&self, _: &OsStr) -> Result<Option<Vec<u8>>, Errno> {
        Ok(None)
    }

    fn verity_digest(&self) -> Result<Option<FileDigest>, Errno> {
        Ok(None)
    }
}

/// All opens of a file that the rules below can distinguish.
fn opens(path: &Path) -> impl Iterator<Item = Open> {
    let all = [Access::Read, Access::Write]
        .into_iter()
        .flat_map(|access| {
            [1, 2]
                .into_iter()
                .flat_map(move |uid| [0, 5].into_iter().map(move |size| (access, uid, size)))
        });
    let path = path.to_owned();
    all.map(move |(access, uid, size)| Open {
        access,
        uid,
        size,
        path: path.clone(),
    })
}

fn denies(policy: &Policy, open: &Open) -> bool {
    policy.decide(open, &mut |_| {}).unwrap().0 == Decision::Deny
}

fn any_pattern(u: &mut Unstructured<'_>) -> arbitrary::Result<String> {
    const PARTS: [&str; 15] = [
        "a", "b", "c", "*", "**", "?", "[ab]", "[!a]", "{a,b}", "{a,b/c}", "*b", "{*,**/c}",
        "[+-9]", "a?b", "\\a",
    ];
    any_parts(u, &PARTS)
}

fn any_path(u: &mut Unstructured<'_>) -> arbitrary::Result<String> {
    any_parts(u, &["a", "b", "c", "ab", "aab", "\n", "\u{e9}"])
}

/// Up to three of these with slashes between.
fn any_parts(u: &mut Unstructured<'_>, from: &[&str]) -> arbitrary::Result<String> {
    let parts = several(u, 1..=3, |u| u.choose(from).copied())?;
    Ok(parts.join("/"))
}

fn any_rule(u: &mut Unstructured<'_>) -> arbitrary::Result<String> {
    let action = u.choose(&["deny", "deny", "relay", "passthrough", "audit"])?;
    let other = u.choose(&[
        "",
        "access = \"write\"",
        "access = \"read\"",
        "caller_uid = 1",
        "size = \"3..\"",
    ])?;
    let path = match &several(u, 0..=2, any_pattern)?[..] {
        [] => String::new(),
        paths => format!("path = {paths:?}"),
    };
    Ok(format!(
        "[[rule]]\naction = \"{action}\"\n{other}\n{path}\n"
    ))
}

fn any_policy(u: &mut Unstructured<'_>) -> arbitrary::Result<Policy> {
    let default = u.choose(&["", "default = \"deny\"\n"])?;
    let rules = several(u, 0..=3, any_rule)?.concat();
    Ok(parse(&format!("{default}{rules}")))
}

/// If one path denies an open, the other does so as well, unless the move is refused; the same holds for
/// each file in a directory.
#[test]
fn no_move_undoes_a_denial() {
    cases(2000, 64, |u| {
        let (from, to, below) = (any_path(u)?, any_path(u)?, any_path(u)?);
        let policy = any_policy(u)?;
        let files = [&from, &to].map(|directory| format!("{directory}/{below}"));
        let [from_file, to_file] = &files;
        let file = moved(Kind::File, from_file, to_file);
        let directory = moved(Kind::Directory, &from, &to);
        let file_is_kept = policy.loosened_by(file, None).is_none();
        if policy.loosened_by(directory, None).is_none() {
            assert!(file_is_kept, "a file in the directory");
        }
        for open in opens(from_file.as_ref()) {
            let moved = Open {
                path: to_file.into(),
                ..open.clone()
            };
            let who = (open.access, open.caller());
            let may_loosen = policy.loosened_by(file, Some(who)).is_some();
            if denies(&policy, &open) && !denies(&policy, &moved) {
                assert!(!file_is_kept && may_loosen, "{open:?}");
            }
            if policy.denied_all_over(directory, who).is_some() {
                assert!(denies(&policy, &moved), "{moved:?}");
            }
        }
        Ok(())
    });
}

/// A move that affects no rule is allowed.
#[test]
fn moves_without_effect_are_not_refused() {
    cases(2000, 64, |u| {
        let (from, other) = (any_path(u)?, any_path(u)?);
        let policy = any_policy(u)?;
        for kind in [Kind::File, Kind::Directory] {
            let stays = moved(kind, &from, &from);
            assert!(policy.loosened_by(stays, None).is_none());
        }
        if !policy.can_deny() {
            let goes = moved(Kind::Directory, &from, &other);
            assert!(policy.loosened_by(goes, None).is_none());
        }
        Ok(())
    });
}
