//! The reports of `verify`. Which ranges are bad, and which files are in them, `verimount` tests by itself.

use crate::prelude::*;

/// A sealed image of a file `a/large`, and the content of the file.
fn sample(world: &World) -> (PathBuf, Vec<u8>) {
    let tree = world.directory("tree");
    fs::create_dir(tree.join("a")).unwrap();
    let content = noise(3_000_000, 1);
    fs::write(tree.join("a/large"), &content).unwrap();
    let image = world.path("image");
    verimount(args!["build --format romfs", &tree, &image]).succeeds();
    (image, content)
}

#[test]
fn an_undamaged_image_passes() {
    let world = World::new();
    let (image, _) = sample(&world);
    let text = verimount(args!["verify", &image]);
    let text = text.succeeds_quietly().text();
    assert_eq!(text.lines().count(), 1);
    let json = verimount(args!["verify --json", &image]).json();
    assert!(text.contains(json["digest"].as_str().unwrap()), "{text}");
    let none = [&json["bad_bytes"], &json["bad_ranges"]];
    assert_eq!(none, [&json!(0), &json!(0)]);
    assert_eq!((&json["ok"], &json["bad"]), (&json!(true), &json!([])));
    assert_eq!(json["file"], image.to_str().unwrap());
}

#[test]
fn bad_ranges_are_reported_as_text_and_json() {
    let world = World::new();
    let (image, content) = sample(&world);
    let start = flip_where(&image, &content[1_000_000..][..64]) / 4096 * 4096;
    let text = verimount(args!["verify", &image]);
    text.reports_bad_data();
    text.says(&format!("4096 bad bytes at {start}: "));
    text.says("  in a/large\n")
        .says("expected")
        .says(" bytes are bad");
    let ended = verimount(args!["verify --json", &image]);
    let json = ended.reports_bad_data().json();
    let bad = &json["bad"][0];
    assert_eq!(
        (&bad["start"], &bad["end"]),
        (&json!(start), &json!(start + 4096))
    );
    assert_eq!(
        (&bad["place"], &bad["files"]),
        (&json!("data"), &json!(["a/large"]))
    );
    assert_eq!(
        (&json["ok"], &json["bad_bytes"]),
        (&json!(false), &json!(4096))
    );
    assert_eq!(json["bad_ranges"], 1);
}

/// JSON has only text: names that are not UTF-8 must not prevent the report, nor look like others.
#[test]
fn names_that_are_not_text_are_reported() {
    let world = World::new();
    let tree = world.directory("tree");
    let content = noise(10_000, 1);
    fs::write(tree.join(OsStr::from_bytes(b"name \xff")), &content).unwrap();
    let image = world.root().join(OsStr::from_bytes(b"image \xfe"));
    verimount(args!["build --format romfs", &tree, &image]).succeeds();
    flip_where(&image, &content[5000..][..64]);
    let ended = verimount(args!["verify --json", &image]);
    ended.reports_bad_data();
    let json = ended.json();
    assert!(json["file"].as_str().unwrap().ends_with(r"image \xfe"));
    assert_eq!(json["bad"][0]["files"], json!([r"name \xff"]));
}

#[test]
fn without_a_tree_there_is_nothing_to_verify() {
    let world = World::new();
    let image = world.sealed_image("image");
    verimount(args!["verify", &image, "--unverified"]).is_wrong_usage();
}
