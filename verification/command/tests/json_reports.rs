//! Reports as JSON: the same fields mean the same in all of them.

use crate::prelude::*;

fn report(ended: &Ended) -> Value {
    let report: Value = ended.succeeds().json();
    assert_eq!(report["version"], 1, "{report}");
    report
}

#[test]
fn all_reports_name_the_content_alike() {
    let world = World::new();
    let tree = world.directory("tree");
    world.write("tree/file", "content");
    let image = world.path("image");
    let built = report(&verimount(args!["build --json", &tree, &image]));
    let digest = built["digest"].as_str().unwrap().to_owned();
    assert_eq!(built["file"], image.to_str().unwrap());
    let file = world.write("file", "content");
    let sealed = report(&verimount(args!["seal --json", &file]));
    assert!(sealed["digest"].is_string() && sealed["root_hash"].is_null());
    let info = report(&verimount(args!["info --json", &image]));
    let verified = report(&verimount(args![
        "verify --json",
        &image,
        "--digest",
        &digest
    ]));
    assert_eq!([&info["digest"], &verified["digest"]], [&digest, &digest]);
    assert_eq!(info["digest"], info["seal"]["digest"]);
    let plain = world.path("plain");
    let built = report(&verimount(args!["build --json --no-seal", &tree, &plain]));
    assert!(built["digest"].is_null());
}

#[test]
fn all_reports_name_the_root_hash_alike() {
    let world = World::new();
    let file = world.write("file", vec![7; 8192]);
    let sealed = report(&verimount(args![
        "seal --json --append --format dm-verity",
        &file
    ]));
    assert_eq!(sealed["hash_offset"], 8192);
    let info = args!["info --json", &file, "--hash-offset", "8192"];
    let info = report(&verimount(info));
    assert!(info["root_hash"].is_string() && info["digest"].is_null());
    assert_eq!(info["root_hash"], sealed["root_hash"]);
}

/// `cat` takes a path as it is, and `ls` prints it so for programs.
#[test]
fn paths_go_from_one_command_to_the_next_as_they_are() {
    let world = World::new();
    let tree = world.directory("tree");
    for (name, content) in [("a\nb", "one"), ("back\\slash", "two"), ("c", "three")] {
        world.write(&format!("tree/{name}"), content);
    }
    let image = world.path("image");
    verimount(args!["build", &tree, &image]).succeeds();
    let listed = verimount(args!["ls -0", &image]);
    let paths: Vec<_> = listed.succeeds().text().split_terminator('\0').collect();
    assert_eq!(paths, ["a\nb", "back\\slash", "c"]);
    let cat = args!["cat", &image].into_iter();
    let all = verimount(cat.chain(paths.iter().map(Into::into)));
    assert_eq!(all.succeeds().text(), "onetwothree");
    verimount(args!["ls -0 --json", &image]).is_wrong_usage();
}

/// The digest of a file that ends with a seal is not the one to accept.
#[test]
fn another_digest_is_not_taken_for_that_of_an_image() {
    let world = World::new();
    let file = world.write("file", "content");
    let said = |file: &Path| verimount(args!["digest", file]).succeeds().stderr.clone();
    assert_eq!(said(&file), "");
    let digest = verimount(args!["seal --append", &file]).digest();
    let said = said(&file);
    assert!(
        said.contains("ends with a seal") && said.contains(&digest),
        "{said}"
    );
}
