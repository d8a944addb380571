//! The status of every kind of mount, in every format.

use super::world_with_image;
use crate::common::daemon::status;
use crate::prelude::*;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The source, the pin, the process and the start time.
#[test]
fn a_mount_says_what_it_is() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let file = world.write("file", "content");
    let digest = verimount(args!["seal", &file]).digest();
    let mnt = world.path("mnt");
    let (public, secret) = world.keys("author");
    verimount(args!["sign", &file, "--key", &secret]).succeeds_quietly();
    // Its number, as minisign writes it above the key.
    let public_text = fs::read_to_string(&public).unwrap();
    let comment = public_text.lines().next().unwrap();
    let number = comment.split(' ').next_back().unwrap();
    for (source, options, kind, pin) in [
        (&image, &["--unpinned"][..], "image", "unpinned"),
        (&image, &["--unverified"], "image", "unverified"),
        (&file, &["--digest", &digest], "file", "digest"),
        (&file, &["--key", text(&public)], "file", "key"),
        (&file, &["--unverified"], "file", "unverified"),
    ] {
        let mounted = Daemon::mount(source, &mnt, options);
        let status = status(&mnt);
        assert_eq!(status["version"], 1);
        assert_eq!(status["source"], text(source));
        assert_eq!(status["kind"], kind);
        assert_eq!(status["pin"]["by"], pin);
        if pin == "key" {
            assert_eq!(status["pin"]["id"], number);
        }
        assert_eq!(status["digest"].is_null(), pin == "unverified");
        assert_eq!(status["daemon"]["pid"], mounted.pid());
        // Not before this was written.
        assert!(status["since"].as_u64() > Some(1_700_000_000));
        let shown = verimount(args!["status", &mnt]);
        let shown = shown.succeeds_quietly().text();
        for line in [
            format!("source         {}\n", text(source)),
            format!("kind           {kind}\n"),
            format!("served by      process {}, for ", mounted.pid()),
        ] {
            assert!(shown.contains(&line), "no {line} in {shown}");
        }
        mounted.unmount();
    }
}

#[test]
fn a_bridge_says_what_it_is() {
    let world = needs!(World::with_mount_point());
    let source = world.directory("src");
    fs::write(source.join("file"), "content").unwrap();
    let mnt = world.path("mnt");
    let mounted = Daemon::bridge(&source, &mnt, &["--passthrough", "never"]);
    fs::read(mounted.path("file")).unwrap();
    let status = status(&mnt);
    assert_eq!(status["kind"], "bridge");
    assert_eq!(status["source"], text(&source));
    assert!(status["pin"].is_null());
    assert_eq!(status["daemon"]["pid"], mounted.pid());
    assert_eq!(status["requests"]["open"], 1);
    assert_eq!(status["requests"]["read"], status["relayed"]["reads"]);
    mounted.unmount();
}

/// Metrics as Prometheus parses them: HELP and TYPE before a metric's samples, each metric once.
#[test]
fn metrics() {
    let world = needs!(world_with_image(&[]));
    // A name with what would end a label.
    let odd = world.path("a \"quoted\" \\ image\n");
    fs::rename(world.path("image"), &odd).unwrap();
    let mnt = world.path("mnt");
    let mounted = Daemon::mount(&odd, &mnt, &["--unpinned"]);
    let metrics = verimount(args!["status --prometheus", &mnt]);
    let metrics = metrics.succeeds_quietly().text();
    let target = format!("{{target=\"{}\"", text(&mnt));
    let mut families = BTreeSet::new();
    let mut lines = metrics.lines().peekable();
    while let Some(help) = lines.next() {
        let (name, meaning) = help
            .strip_prefix("# HELP ")
            .unwrap()
            .split_once(' ')
            .unwrap();
        assert!(meaning.ends_with('.'), "{help}");
        assert!(families.insert(name), "{name} comes twice");
        let kind = lines.next().unwrap().strip_prefix("# TYPE ").unwrap();
        let (named, kind) = kind.split_once(' ').unwrap();
        assert_eq!(named, name);
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        while let Some(sample) = lines.next_if(|line| !line.starts_with('#')) {
            let (labels, value) = sample.rsplit_once("} ").unwrap();
            let labels = labels.strip_prefix(name).unwrap();
            assert!(labels.starts_with(&target), "{sample}");
            value.parse::<u64>().unwrap();
        }
    }
    for family in [
        "verimount_info",
        "verimount_start_time_seconds",
        "verimount_size_bytes",
        "verimount_requests_total",
        "verimount_mismatches_total",
        "verimount_verified_bytes_total",
        "verimount_tree_read_bytes_total",
    ] {
        assert!(families.contains(family), "no {family} in {metrics}");
    }
    // The name is shown as everywhere else, and that is escaped once more.
    let source = r#"/a \"quoted\" \\\\ image\\n","#;
    assert!(metrics.contains(source), "{metrics}");
    assert!(metrics.contains(",operation=\"lookup\"} "), "{metrics}");
    verimount(args!["status --prometheus --json", &mnt]).is_wrong_usage();
    mounted.unmount();
}
