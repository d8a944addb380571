//! The statement of in-toto that a model signature signs.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use verimount_names::printable;

use crate::{
    Error, Expected, Manifest, Subject,
    bundle::not_a_bundle,
    digest::{Algorithm, Digest},
    expected::Shard,
};

const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";

const PREDICATE_TYPE: &str = "https://model_signing/signature/v1.0";

/// The path of a model that is one file.
const ONLY_FILE: &str = ".";

/// What says how the rest is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTypes {
    #[serde(rename = "_type")]
    statement_type: String,
    predicate_type: String,
}

/// The other fields that count. There are more.
#[derive(Deserialize)]
struct RawStatement {
    subject: Vec<RawSubject>,
    predicate: RawPredicate,
}

#[derive(Deserialize)]
struct RawSubject {
    name: String,
    digest: RawDigests,
}

#[derive(Deserialize)]
struct RawDigests {
    sha256: String,
}

#[derive(Deserialize)]
struct RawPredicate {
    serialization: RawSerialization,
    #[serde(default)]
    resources: Vec<RawResource>,
}

#[derive(Deserialize)]
struct RawSerialization {
    method: String,
    hash_type: String,
    #[serde(default)]
    ignore_paths: Vec<String>,
}

#[derive(Deserialize)]
struct RawResource {
    name: String,
    algorithm: String,
    digest: String,
}

/// How a model is divided into what has a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Files,
    Shards,
}

/// Reads a statement.
pub(crate) fn read(text: &[u8]) -> Result<Manifest, Error> {
    let types: RawTypes = serde_json::from_slice(text).map_err(not_a_bundle)?;
    for (what, found, known) in [
        ("statement", &types.statement_type, STATEMENT_TYPE),
        ("predicate", &types.predicate_type, PREDICATE_TYPE),
    ] {
        if found != known {
            return Err(Error::Unsupported(format!("the {what} {found:?}")));
        }
    }
    let RawStatement { subject, predicate } = serde_json::from_slice(text).map_err(not_a_bundle)?;
    let [subject] = &subject[..] else {
        return Err(inconsistent("it is not of one subject"));
    };
    let how = &predicate.serialization;
    let method = match &*how.method {
        "files" => Method::Files,
        "shards" => Method::Shards,
        other => return Err(Error::Unsupported(format!("the method {other:?}"))),
    };
    let algorithm = Algorithm::signed(&how.hash_type)
        .ok_or_else(|| Error::Unsupported(format!("the hash function {:?}", how.hash_type)))?;
    let digests = digests(&predicate, method, algorithm)?;
    check_subject(subject, &digests)?;
    let resources = predicate.resources.iter().map(|resource| &*resource.name);
    let resources = resources.zip(digests);
    let files = match method {
        Method::Files => whole_files(resources)?,
        Method::Shards => sharded_files(resources)?,
    };
    Ok(Manifest::new(
        subject.name.clone(),
        subject_of(files)?,
        how.ignore_paths
            .iter()
            .filter_map(|path| ignored(path))
            .collect(),
    ))
}

/// The digests of all resources.
fn digests(
    predicate: &RawPredicate,
    method: Method,
    algorithm: Algorithm,
) -> Result<Vec<Digest>, Error> {
    let hash = &*predicate.serialization.hash_type;
    let is_of_method = |name: &str| match (method, name.strip_prefix(hash)) {
        (Method::Files, Some(rest)) => rest.is_empty(),
        (Method::Shards, Some(rest)) => {
            let size = rest.strip_prefix("-sharded-");
            size.and_then(number).is_some()
        }
        (_, None) => false,
    };
    let digests = predicate.resources.iter().map(|resource| {
        let digest = Digest::parse(algorithm, &resource.digest);
        digest
            .filter(|_| is_of_method(&resource.algorithm))
            .ok_or_else(|| {
                let name = printable(&resource.name);
                inconsistent(format!("{name} has no digest of {hash}"))
            })
    });
    digests.collect()
}

/// The digest of the whole must be that of all digests, in their order.
fn check_subject(subject: &RawSubject, digests: &[Digest]) -> Result<(), Error> {
    let mut hash = Sha256::new();
    digests
        .iter()
        .for_each(|digest| hash.update(digest.bytes()));
    let said = Digest::parse(Algorithm::Sha256, &subject.digest.sha256);
    if said.is_some_and(|said| said.bytes() == hash.finalize().as_slice()) {
        Ok(())
    } else {
        Err(inconsistent(
            "the digest of its subject is not that of its files",
        ))
    }
}

type Files = BTreeMap<PathBuf, Expected>;

fn whole_files<'r>(resources: impl Iterator<Item = (&'r str, Digest)>) -> Result<Files, Error> {
    let mut files = Files::new();
    for (name, digest) in resources {
        if files.insert(path(name)?, Expected::whole(digest)).is_some() {
            return Err(inconsistent(format!("{} is there twice", printable(name))));
        }
    }
    Ok(files)
}

fn sharded_files<'r>(resources: impl Iterator<Item = (&'r str, Digest)>) -> Result<Files, Error> {
    let mut files: BTreeMap<PathBuf, Vec<(u64, Shard)>> = BTreeMap::new();
    for (name, digest) in resources {
        let (file, start, end) =
            shard(name).ok_or_else(|| inconsistent(format!("{} is no shard", printable(name))))?;
        let shards = files.entry(path(file)?).or_default();
        shards.push((start, Shard { end, digest }));
    }
    let files = files.into_iter().map(|(path, mut shards)| {
        shards.sort_by_key(|(start, _)| *start);
        let shown = printable(&path).to_string();
        match Expected::shards(shards) {
            Some(expected) => Ok((path, expected)),
            None => Err(inconsistent(format!(
                "the shards of {shown} do not follow each other"
            ))),
        }
    });
    files.collect()
}

/// Takes the name of a shard apart: the file, and where in it the shard begins and ends.
fn shard(name: &str) -> Option<(&str, u64, u64)> {
    let (rest, end) = name.rsplit_once(':')?;
    let (file, start) = rest.rsplit_once(':')?;
    Some((file, number(start)?, number(end)?))
}

/// A number in the only way in which it is written: without a sign, or zeros before it.
fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// The path of a file below the model, in the only way in which it is written.
fn path(name: &str) -> Result<PathBuf, Error> {
    let is_plain =
        name.split('/').all(|part| !matches!(part, "" | "." | "..")) && !name.contains('\0');
    if is_plain || name == ONLY_FILE {
        Ok(name.into())
    } else {
        Err(inconsistent(format!(
            "{} is not a path below the model",
            printable(name)
        )))
    }
}

fn subject_of(mut files: Files) -> Result<Subject, Error> {
    match files.remove(&PathBuf::from(ONLY_FILE)) {
        None => Ok(Subject::Directory(files)),
        Some(file) if files.is_empty() => Ok(Subject::File(file)),
        Some(_) => Err(inconsistent("it is of a file and of a directory")),
    }
}

/// A path below the model that is not signed; `None` if it is none below the model.
fn ignored(path: &str) -> Option<PathBuf> {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    let path: PathBuf = if path.starts_with('/') || parts.clone().any(|part| part == "..") {
        return None;
    } else {
        parts.collect()
    };
    (!path.as_os_str().is_empty()).then_some(path)
}

fn inconsistent(reason: impl ToString) -> Error {
    Error::Inconsistent(reason.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A statement of these resources with one digest for all, in which something is changed.
    fn statement(
        method: &str,
        names: &[&str],
        change: impl FnOnce(&mut Value),
    ) -> Result<Manifest, Error> {
        read(statement_text(method, names, change).as_bytes())
    }

    fn statement_text(method: &str, names: &[&str], change: impl FnOnce(&mut Value)) -> String {
        let algorithm = match method {
            "shards" => "sha256-sharded-10",
            _ => "sha256",
        };
        let (digest, mut all) = ("ab".repeat(32), Sha256::new());
        names.iter().for_each(|_| all.update([0xab; 32]));
        let all: String = all
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let resource =
            |name: &&str| json!({"name": name, "algorithm": algorithm, "digest": digest});
        let resources: Vec<_> = names.iter().map(resource).collect();
        let mut statement = json!({
            "_type": STATEMENT_TYPE,
            "predicateType": PREDICATE_TYPE,
            "subject": [{"name": "model", "digest": {"sha256": all}}],
            "predicate": {
                "serialization": {"method": method, "hash_type": "sha256"},
                "resources": resources,
            },
        });
        change(&mut statement);
        statement.to_string()
    }

    fn is_inconsistent(method: &str, names: &[&str]) -> bool {
        matches!(
            statement(method, names, |_| {}),
            Err(Error::Inconsistent(_))
        )
    }

    #[test]
    fn names_are_plain_paths() {
        assert_eq!(
            statement("files", &["a", "b/c: d"], |_| {})
                .unwrap()
                .count(),
            2
        );
        for names in [
            &["/a"][..],
            &["a/"],
            &["a//b"],
            &["./a"],
            &["a/../b"],
            &[".."],
            &[""],
            &["a\0"],
            &["a", "a"],
            &[".", "a"],
        ] {
            assert!(is_inconsistent("files", names), "{names:?}");
        }
    }

    #[test]
    fn shards_make_whole_files() {
        let names = ["a:b:10:15", "a:b:0:10", "c:0:1"];
        assert_eq!(statement("shards", &names, |_| {}).unwrap().count(), 2);
        for names in [
            &["a"][..],
            &["a:0"],
            &["a:0:"],
            &["a:0:x"],
            &["a:-1:1"],
            &["a:+0:1"],
            &["a:0:+1"],
            &["a:00:1"],
            &["a:0:01"],
            &["a:1:2"],
            &["a:0:1", "a:0:1"],
            &["a:0:1", "a:2:3"],
            &[":0:1"],
        ] {
            assert!(is_inconsistent("shards", names), "{names:?}");
        }
    }

    #[test]
    fn statements_are_complete_and_agree_with_themselves() {
        for (pointer, value) in [
            ("/subject/0/digest/sha256", json!("ab".repeat(32))),
            ("/subject", json!([])),
            ("/predicate/resources/0/digest", json!("ab")),
            (
                "/predicate/resources/0/algorithm",
                json!("sha256-sharded-10"),
            ),
            ("/predicate/resources/0/algorithm", json!("blake2b")),
            ("/predicate/resources/0/name", Value::Null),
            ("/predicate/serialization/method", json!("tensors")),
            ("/predicate/serialization/hash_type", json!("md5")),
            ("/predicate/serialization/ignore_paths", json!([1])),
            (
                "/predicateType",
                json!("https://model_signing/Digests/v0.1"),
            ),
            ("/_type", json!("https://in-toto.io/Statement/v2")),
            ("/predicate", Value::Null),
            ("/predicate", json!([])),
        ] {
            let changed = statement("files", &["a"], |statement| {
                match statement.pointer_mut(pointer) {
                    Some(place) => *place = value.clone(),
                    None => statement["predicate"]["serialization"]["ignore_paths"] = value.clone(),
                }
            });
            assert!(changed.is_err(), "{pointer}: {value}");
        }
    }

    /// What is in a predicate of another type is not looked at, and a name that is there twice is not chosen from.
    #[test]
    fn statements_are_read_as_what_they_are() {
        let other = |predicate: Value| {
            let changed = statement("files", &["a"], |statement| {
                statement["predicateType"] = json!("https://slsa.dev/provenance/v1");
                statement["predicate"] = predicate;
            });
            assert!(matches!(changed, Err(Error::Unsupported(_))), "{changed:?}");
        };
        other(json!({"buildDefinition": {}}));
        other(json!("text"));
        let twice = |name: &str, again: &str| {
            let text = statement_text("files", &["a"], |_| {});
            let name = format!("\"{name}\":");
            let twice = text.replacen(&name, &format!("{name}{again},{name}"), 1);
            assert_ne!(text, twice);
            let read = read(twice.as_bytes());
            assert!(matches!(read, Err(Error::NotABundle(_))), "{read:?}");
        };
        twice("_type", "\"\"");
        twice("predicate", "{}");
        twice("resources", "[]");
        twice("method", "\"shards\"");
    }

    #[test]
    fn ignored_paths_are_below_the_model() {
        for (path, expected) in [
            (".git/", Some(".git")),
            ("./a//b", Some("a/b")),
            (".", None),
            ("", None),
            ("/a", None),
            ("../a", None),
        ] {
            assert_eq!(ignored(path), expected.map(PathBuf::from), "{path}");
        }
    }
}
