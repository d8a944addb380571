//! The policy language: conditions, their order, and messages for mistakes.

use std::{
    cell::RefCell,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use rustix::io::Errno;
use verimount_bridge::{
    Caller,
    policy::{Access, Decision, Facts, Policy},
};
use verimount_verity::FileDigest;

/// The facts of an open, and which of them were requested.
struct Open {
    access: Access,
    caller: Caller,
    path: PathBuf,
    content: Vec<u8>,
    owner: (u32, u32),
    xattrs: Vec<(&'static str, &'static str)>,
    verity_digest: Option<FileDigest>,
    asked: RefCell<Vec<&'static str>>,
    /// The error of reading content.
    broken: Option<Errno>,
}

impl Open {
    fn reading(path: &str) -> Self {
        Self {
            access: Access::Read,
            caller: Caller {
                uid: 1000,
                gid: 100,
                pid: 1,
                request: 0,
            },
            path: path.into(),
            content: b"\x7fELF and more".to_vec(),
            owner: (0, 0),
            xattrs: vec![("user.kind", "model")],
            verity_digest: None,
            asked: RefCell::default(),
            broken: None,
        }
    }

    fn writing(path: &str) -> Self {
        Self {
            access: Access::Write,
            ..Self::reading(path)
        }
    }

    fn note(&self, what: &'static str) {
        self.asked.borrow_mut().push(what);
    }
}

impl Facts for Open {
    fn access(&self) -> Access {
        self.access
    }

    fn caller(&self) -> Caller {
        self.caller
    }

    fn path(&self) -> Result<&Path, Errno> {
        self.note("path");
        Ok(&self.path)
    }

    fn size(&self) -> Result<u64, Errno> {
        self.note("size");
        Ok(self.content.len() as u64)
    }

    fn owner(&self) -> Result<(u32, u32), Errno> {
        self.note("owner");
        Ok(self.owner)
    }

    fn content(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, Errno> {
        self.note("content");
        if let Some(errno) = self.broken {
            return Err(errno);
        }
        let rest = self.content.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(bytes.len());
        bytes[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn xattr(&self, name: &OsStr) -> Result<Option<Vec<u8>>, Errno> {
        self.note("xattr");
        let found = self.xattrs.iter().find(|(other, _)| *other == name);
        Ok(found.map(|(_, value)| value.as_bytes().to_vec()))
    }

    fn verity_digest(&self) -> Result<Option<FileDigest>, Errno> {
        self.note("verity digest");
        Ok(self.verity_digest)
    }
}

fn parse(text: &str) -> Policy {
    Policy::parse(text, Path::new("policy.toml")).unwrap()
}

fn decide(policy: &Policy, open: &Open) -> Decision {
    policy.decide(open, &mut |_| {}).unwrap().0
}

/// Whether a rule with these conditions matches.
fn matches(conditions: &str, open: &Open) -> bool {
    let policy = parse(&format!("[[rule]]\naction = \"deny\"\n{conditions}"));
    decide(&policy, open) == Decision::Deny
}

#[test]
fn the_first_rule_that_matches_decides() {
    let policy = parse(
        r#"
        default = "deny"
        [[rule]]
        action = "audit"
        name = "everything"
        [[rule]]
        action = "relay"
        path = "a/**"
        [[rule]]
        action = "passthrough"
        path = ["a/*", "b/*"]
        "#,
    );
    let decided = |path| {
        let mut audited = Vec::new();
        let mut audit = |rule: &verimount_bridge::policy::RuleName| audited.push(rule.to_string());
        let (decision, _) = policy.decide(&Open::reading(path), &mut audit).unwrap();
        assert_eq!(audited, ["rule 1 (line 3) \"everything\""]);
        decision
    };
    assert_eq!(decided("a/x"), Decision::Relay);
    assert_eq!(decided("b/x"), Decision::Passthrough);
    assert_eq!(decided("c/x"), Decision::Deny);
}

#[test]
fn without_rules_everything_passes_through() {
    for policy in [parse(""), Policy::default()] {
        assert_eq!(decide(&policy, &Open::writing("x")), Decision::Passthrough);
    }
}

#[test]
fn each_condition_holds_for_what_it_says() {
    let open = Open::reading("dir/file.so");
    for holds in [
        "",
        "access = \"read\"",
        "access = \"any\"",
        "caller_uid = 1000",
        "caller_uid = [1, 1000]",
        "caller_gid = 100",
        "path = \"dir/*.so\"",
        "path = \"**/file.{so,a}\"",
        "size = \"..1K\"",
        "size = [\"1M..\", \"13..14\"]",
        "owner_uid = 0",
        "owner_gid = [0]",
        "magic = { hex = \"7f 45 4c 46\" }",
        "magic = { text = \"ELF\", offset = 1 }",
        "magic = [{ text = \"#!\" }, { text = \"more\", offset = 9 }]",
        "xattr = { name = \"user.kind\" }",
        "xattr = { name = \"user.kind\", equals = \"model\" }",
    ] {
        assert!(matches(holds, &open), "{holds}");
    }
    for fails in [
        "access = \"write\"",
        "caller_uid = 0",
        "caller_gid = [1000, 0]",
        "path = \"*.so\"",
        "path = \"file.so\"",
        "size = \"1K..\"",
        "owner_uid = 1000",
        "owner_gid = [1, 2]",
        "magic = { text = \"#!\" }",
        // There are only 13 bytes.
        "magic = { text = \"more!\", offset = 9 }",
        "magic = { text = \"x\", offset = 13 }",
        "magic = { text = \"x\", offset = 4095 }",
        "xattr = { name = \"user.other\" }",
        "xattr = { name = \"user.kind\", equals = \"mode\" }",
        // All must hold.
        "caller_uid = 1000\naccess = \"write\"",
    ] {
        assert!(!matches(fails, &open), "{fails}");
    }
}

#[test]
fn cheap_conditions_are_tried_first() {
    let all = "magic = { text = \"#!\" }\nxattr = { name = \"user.kind\" }\npath = \"dir/*\"\n\
               owner_uid = 0\nsize = \"1..\"\ncaller_uid = 1000\naccess = \"read\"";
    for (open, asked) in [
        (Open::writing("dir/x"), vec![]),
        (Open::reading("x"), vec!["path"]),
        (
            Open::reading("dir/x"),
            vec!["path", "size", "owner", "xattr", "content"],
        ),
    ] {
        assert!(!matches(all, &open));
        assert_eq!(*open.asked.borrow(), asked);
    }
}

/// A rule that cannot be evaluated must not be skipped: it could be the one that denies.
#[test]
fn unreadable_facts_are_errors() {
    let policy = parse("[[rule]]\naction = \"deny\"\nmagic = { text = \"#!\" }");
    let broken = Open {
        broken: Some(Errno::IO),
        ..Open::reading("x")
    };
    assert_eq!(policy.decide(&broken, &mut |_| {}), Err(Errno::IO));
    assert_eq!(policy.explain(&broken), Err(Errno::IO));
}

#[test]
fn an_explanation_has_the_result_of_each_rule() {
    let policy = parse(
        r#"
        [[rule]]
        name = "keys"
        action = "deny"
        path = ["**/*.key", "secret/**"]
        [[rule]]
        action = "audit"
        [[rule]]
        action = "relay"
        size = "1G.."
        "#,
    );
    let explain = |path| policy.explain(&Open::reading(path)).unwrap();
    assert_eq!(
        explain("a/b"),
        "rule 1 (line 2) \"keys\" does not match: \
         requires that path matches \"**/*.key\" or \"secret/**\", but found \"a/b\"\n\
         rule 2 (line 6) logs the open\n\
         rule 3 (line 8) does not match: requires that size is in 1073741824.., but found 13\n\
         passthrough"
    );
    assert_eq!(explain("a/b.key"), "rule 1 (line 2) \"keys\" decides\ndeny");
}

#[test]
fn verified_files_match_by_digest() {
    let listed = format!("sha256:{}", "a1".repeat(32));
    let policy = parse(&format!(
        r#"
        [[rule]]
        action = "verified"
        path = "models/**"
        digests = ["{listed}", "sha512:{}"]
        "#,
        "b2".repeat(64)
    ));
    let unlisted = listed.replace("a1", "b1");
    for (digest, decision, words) in [
        (
            Some(&listed),
            Decision::Passthrough,
            format!("{listed} is listed"),
        ),
        (
            Some(&unlisted),
            Decision::Deny,
            format!("{unlisted} is not listed"),
        ),
        (
            None,
            Decision::Deny,
            "the kernel does not verify the file".to_owned(),
        ),
    ] {
        let open = Open {
            verity_digest: digest.map(|digest| digest.parse().unwrap()),
            ..Open::reading("models/a")
        };
        assert_eq!(decide(&policy, &open), decision);
        assert_eq!(open.asked.take(), ["path", "verity digest"]);
        assert_eq!(
            policy.explain(&open).unwrap(),
            format!("rule 1 (line 2) decides: {words}\n{decision}")
        );
    }
    assert_eq!(
        decide(&policy, &Open::reading("other")),
        Decision::Passthrough
    );
}

#[test]
fn digests_are_for_one_action_alone() {
    let digest = format!("sha256:{}", "a1".repeat(32));
    let text = format!("[[rule]]\naction = \"relay\"\ndigests = \"{digest}\"");
    let error = Policy::parse(&text, Path::new("policy.toml")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "policy.toml:3:11: digests need action = \"verified\""
    );
}

#[test]
fn mistakes_are_pointed_at() {
    for (text, place, said) in [
        (
            "[[rule]]\naction = \"verified\"",
            "2:10",
            "\"verified\" needs digests",
        ),
        (
            "[[rule]]\naction = \"relay\"\ndigests = \"sha256:00\"",
            "3:11",
            "a digest is written sha256:HEX",
        ),
        (
            "[[rule]]\naction = \"verified\"\ndigests = []",
            "3:11",
            "an empty list",
        ),
        (
            "default = \"pass\"",
            "1:11",
            "expected one of `passthrough`, `relay`, `deny`",
        ),
        (
            "default = \"audit\"",
            "1:11",
            "expected one of `passthrough`, `relay`, `deny`",
        ),
        (
            "rules = []",
            "1:1",
            "expected one of `default`, `log_denials`, `rule`",
        ),
        ("[[rule]]\npath = \"x\"", "1:1", "missing field `action`"),
        (
            "[[rule]]\naction = \"allow\"",
            "2:10",
            "`relay`, `deny`, `audit`",
        ),
        (
            "[[rule]]\naction = \"deny\"\nuid = 5",
            "3:1",
            "`caller_uid`",
        ),
        (
            "[[rule]]\naction = \"deny\"\ncaller_uid = -1",
            "3:14",
            "invalid value",
        ),
        (
            "[[rule]]\naction = \"deny\"\ncaller_uid = []",
            "3:14",
            "empty list",
        ),
        (
            "[[rule]]\naction = \"deny\"\ncaller_uid = \"root\"",
            "3:14",
            "invalid type",
        ),
        (
            "[[rule]]\naction = \"deny\"\nsize = [\"1..\", \"5\"]",
            "3:16",
            "\"FROM..TO\"",
        ),
        (
            "[[rule]]\naction = \"deny\"\npath = \"/etc\"",
            "3:8",
            "do not begin with \"/\"",
        ),
        (
            "[[rule]]\naction = \"deny\"\npath = \"[a\"",
            "3:8",
            "allowed are *",
        ),
        (
            "[[rule]]\naction = \"deny\"\nmagic = { hex = \"7\" }",
            "3:9",
            "hexadecimal",
        ),
        (
            "[[rule]]\naction = \"deny\"\nmagic = { text = \"\" }",
            "3:9",
            "not empty",
        ),
        (
            "[[rule]]\naction = \"deny\"\nmagic = { text = \"a\", hex = \"00\" }",
            "3:9",
            "either",
        ),
        (
            "[[rule]]\naction = \"deny\"\nmagic = { text = \"a\", offset = 4096 }",
            "3:9",
            "first 4096 bytes",
        ),
        (
            "[[rule]]\naction = \"deny\"\nxattr = { name = \"kind\" }",
            "3:18",
            "whole name",
        ),
        ("[[rule]]\naction = \"deny\"\n\u{20ac} = 1", "3:1", ""),
        ("[[rule]\n", "1:8", ""),
    ] {
        let error = Policy::parse(text, Path::new("p.toml")).unwrap_err();
        let message = error.to_string();
        let expected = format!("p.toml:{place}: ");
        assert!(message.starts_with(&expected), "{text}\n{message}");
        assert!(message.contains(said), "{text}\n{message}");
    }
}

#[test]
fn there_is_a_bound_on_everything() {
    let too_long = format!("# {}", "x".repeat(1 << 20));
    let too_many = "[[rule]]\naction = \"deny\"\n".repeat(1001);
    let too_deep = format!("default = {}", "[".repeat(100_000));
    let long_path = format!("[[rule]]\naction = \"deny\"\npath = {:?}", "?".repeat(4097));
    for text in [too_long, too_many, too_deep, long_path] {
        Policy::parse(&text, Path::new("p.toml")).unwrap_err();
    }
}

#[test]
fn the_documents_examples_are_policies() {
    let document = include_str!("../../../docs/POLICY.md");
    let examples: Vec<&str> = document
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    let [keys, default, verified, all] = examples[..] else {
        panic!("{examples:?}")
    };
    let decided = |text, open| decide(&parse(text), &open);
    let unverified = Open::reading("models/a");
    assert_eq!(decided(verified, unverified), Decision::Deny);
    let key = Open::reading("home/me/.ssh/id");
    assert_eq!(decided(keys, key), Decision::Deny);
    assert_eq!(decided(keys, Open::reading("home/file")), Decision::Relay);
    assert_eq!(decided(default, Open::reading("x")), Decision::Passthrough);
    assert_eq!(decided(default, Open::writing("x")), Decision::Deny);
    let model = Open {
        content: b"GGUF".to_vec(),
        ..Open::reading("models/a/weights-01.bin")
    };
    assert_eq!(decided(all, model), Decision::Relay);
}
