//! Names and texts that could control a terminal, or imitate the command's own lines, are escaped wherever
//! they are printed.

use crate::prelude::*;

/// Clears the screen, and imitates a line of the command.
const HOSTILE: &[u8] = b"a\x1b[2J\nverimount: all is well\\\xff\xc2\x9b";

/// How it is shown.
const SHOWN: &str = r"a\x1b[2J\nverimount: all is well\\\xff\xc2\x9b";

/// Clears the screen, and imitates a line of the command: text, for what is no path.
const TEXT: &str = "a\x1b[2J\nverimount: all is well";
const SHOWN_TEXT: &str = r"a\x1b[2J\nverimount: all is well";

fn hostile(world: &World) -> PathBuf {
    world.root().join(OsStr::from_bytes(HOSTILE))
}

/// An image of one file of that name, with a wrong byte in it.
fn damaged_image_of_hostile(world: &World) -> PathBuf {
    let tree = world.directory("tree");
    let content = noise(10_000, 1);
    fs::write(tree.join(OsStr::from_bytes(HOSTILE)), &content).unwrap();
    let image = world.path("image");
    verimount(args!["build --format romfs", &tree, &image]).succeeds();
    flip_where(&image, &content[5000..][..64]);
    image
}

/// All its output is whole lines of text, and contains the escaped name.
#[track_caller]
fn shows_the_name(ended: &Ended) -> &Ended {
    let printed = format!("{}{}", ended.text(), ended.stderr);
    is_harmless(&printed);
    assert!(printed.contains(SHOWN), "{ended:?}");
    ended
}

#[track_caller]
fn is_harmless(printed: &str) {
    let harmful = |character: char| character.is_control() && character != '\n';
    assert!(!printed.contains(harmful), "{printed:?}");
    let forged = printed
        .lines()
        .any(|line| line.starts_with("verimount: all is well"));
    assert!(!forged, "{printed:?}");
}

#[test]
fn in_images() {
    let world = World::new();
    let image = damaged_image_of_hostile(&world);
    let listed = verimount(args!["ls", &image]);
    assert_eq!(
        shows_the_name(&listed).succeeds_quietly().text(),
        format!("{SHOWN}\n")
    );
    shows_the_name(&verimount(args!["ls --long", &image]));
    let verified = verimount(args!["verify", &image]);
    shows_the_name(&verified).reports_bad_data();
    verified.says(&format!("\n  in {SHOWN}\n"));
    let verified = verimount(args!["verify --json", &image]);
    verified.reports_bad_data();
    let report: Value = verified.json();
    assert_eq!(report["bad"][0]["files"], json!([SHOWN]));
    shows_the_name(&verimount(args!["cat", &image, OsStr::from_bytes(HOSTILE)]));
    shows_the_name(&verimount(args!["extract", &image, world.path("copy")])).fails();
}

#[test]
fn in_mounts() {
    needs!(fuse_or_skip());
    let world = World::new();
    let image = damaged_image_of_hostile(&world);
    let source = hostile(&world);
    fs::rename(image, &source).unwrap();
    let mounted = Daemon::mount(&source, &world.directory("mnt"), &["--unpinned"]);
    fs::read(mounted.directory().join(OsStr::from_bytes(HOSTILE))).unwrap_err();
    let status = verimount(args!["status", mounted.directory()]);
    shows_the_name(&status).reports_bad_data();
    let status = verimount(args!["status --json", mounted.directory()]).json();
    assert_eq!(status["recent_failures"][0]["file"], format!("/{SHOWN}"));
    let log = mounted.unmount();
    is_harmless(&log);
    let (ready, failures) = log.split_once('\n').unwrap();
    assert!(ready.contains(SHOWN), "{ready}");
    // As a string, so that nothing in it can pass for another field.
    let failure = failures.lines().next().unwrap();
    let field = format!(" file={}", json!(format!("/{SHOWN}")));
    assert!(failure.ends_with(&field), "{failure}");
}

#[test]
fn in_arguments() {
    let world = World::new();
    let (missing, folder) = (hostile(&world), world.directory("folder"));
    for arguments in [
        args!["build", &missing, world.path("image")],
        args!["build", &folder, missing.join("image")],
        args!["seal", &missing],
        args!["digest", &missing],
        args!["keygen -W", missing.join("public"), missing.join("secret")],
        args!["sign", &missing, "--key", &missing],
        args!["verify", &missing],
        args!["ls", &missing],
        args!["cat", &missing, "file"],
        args!["extract", &missing, &folder],
        args!["mount", &missing, &folder, "--unpinned"],
        args!["mount", &missing, &folder, "--unpinned"],
        args!["mount", world.sealed_image("image"), &missing, "--unpinned"],
        args!["umount", &missing],
        args!["status", &missing],
        args![
            "man",
            world.write("file", "").join(OsStr::from_bytes(HOSTILE))
        ],
    ] {
        shows_the_name(&verimount(arguments)).fails();
    }
}

/// A shell's `*` takes all names as they are.
#[test]
fn in_wrong_arguments() {
    let dashed = format!("--{TEXT}");
    for arguments in [
        args![TEXT],
        args!["verify file", TEXT],
        args!["verify", &dashed],
        args!["mount source directory --threads", TEXT],
        args!["mount source directory --digest", TEXT],
    ] {
        let ended = verimount(arguments);
        ended.is_wrong_usage();
        is_harmless(&ended.stderr);
        ended.notes(SHOWN_TEXT);
    }
    let world = World::new();
    let key = verimount(args!["verify", world.sealed_image("image"), "--key", TEXT]);
    key.fails_saying(SHOWN_TEXT);
}

#[test]
fn in_results() {
    let world = World::new();
    let name = hostile(&world);
    let beside = |ending: &str| {
        let mut path = name.clone().into_os_string();
        path.push(ending);
        path
    };
    let tree = world.directory("tree");
    fs::write(tree.join("file"), "").unwrap();
    shows_the_name(&verimount(args!["build", &tree, &name])).succeeds();
    for arguments in [
        args!["verify", &name],
        args!["digest", &name],
        args!["seal", &name],
        args!["keygen -W", beside(".pub"), beside(".key")],
        args!["sign", &name, "--key", beside(".key")],
    ] {
        let ended = verimount(arguments);
        shows_the_name(&ended).succeeds_quietly();
        assert_eq!(ended.text().lines().count(), 1, "{ended:?}");
    }
}
