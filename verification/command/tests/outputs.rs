//! Readers of the output may end, and its destination may be full.

use rustix::{mount::mount, pipe::pipe};

use crate::prelude::*;

/// The write end of a pipe without a reader.
fn closed_pipe() -> OwnedFd {
    let (_, writer) = pipe().unwrap();
    writer
}

fn run_with(arguments: &[OsString], stdout: Stdio, stderr: Stdio) -> Ended {
    let mut command = Command::new(binary());
    command.args(arguments).stdin(Stdio::null());
    command.stdout(stdout).stderr(stderr);
    let described = format!("{command:?}");
    finish_spawned(command.spawn().unwrap(), described)
}

/// Commands that print a result: more than fits into a pipe, if possible.
fn printing(world: &World) -> Vec<Vec<OsString>> {
    let tree = world.directory("tree");
    fs::write(tree.join("large"), noise(3_000_000, 1)).unwrap();
    for number in 0..3000 {
        fs::write(tree.join(format!("{number:0>100}")), "").unwrap();
    }
    let image = world.path("image");
    verimount(args!["build", &tree, &image]).succeeds();
    let (_, secret) = world.keys("signer");
    let damaged = world.path("damaged");
    let mut bytes = fs::read(&image).unwrap();
    bytes[1_000_000] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    vec![
        args!["build", &tree, world.path("another image")],
        args!["seal", world.write("file", "content")],
        args!["digest", &image, &damaged],
        args!["keygen -W", world.path("public"), world.path("secret")],
        args!["sign", &image, "--key", &secret],
        args!["verify", &image],
        args!["verify --json", &image],
        args!["ls", &image],
        args!["ls --long", &image],
        args!["cat", &image, "large"],
        args!["completions bash"],
    ]
}

/// As with `head`: the reader needs no more, which is not an error.
#[test]
fn a_closed_pipe_ends_it_quietly() {
    let world = World::new();
    let explaining = [args!["--help"], args!["--version"], args!["mount --help"]];
    for arguments in printing(&world).into_iter().chain(explaining) {
        let ended = run_with(&arguments, closed_pipe().into(), Stdio::piped());
        ended.succeeds_quietly();
    }
}

/// No program reads the report, but the exit code shows that data is bad, or that it could not be read.
#[test]
fn a_closed_pipe_does_not_hide_bad_data() {
    let world = World::new();
    let file = world.write("file", noise(1 << 20, 1));
    verimount(args!["seal", &file]).succeeds();
    let mut bytes = fs::read(&file).unwrap();
    bytes[500_000] ^= 1;
    fs::write(&file, bytes).unwrap();
    let mut commands = vec![
        (args!["verify", &file], 1),
        (args!["verify --json", &file], 1),
        (args!["digest", world.path("missing"), &file], 3),
    ];
    let mounted =
        fuse_or_skip().then(|| Daemon::mount(&file, &world.directory("mnt"), &["--unpinned"]));
    if let Some(mounted) = &mounted {
        fs::read(mounted.path("file")).unwrap_err();
        commands.push((args!["status", mounted.directory()], 1));
        commands.push((args!["status --json", mounted.directory()], 1));
    }
    for (arguments, code) in commands {
        let ended = run_with(&arguments, closed_pipe().into(), Stdio::piped());
        assert_eq!(ended.status.code(), Some(code), "{ended:?}");
    }
    mounted.map(Daemon::unmount);
}

/// Its messages cannot be read, which must not change how it ends.
#[test]
fn closed_standard_error_changes_nothing() {
    let world = World::new();
    let tree = world.directory("tree");
    fs::write(tree.join("file"), "").unwrap();
    let image = world.path("image");
    // It has a note to write, that times are not kept.
    let build = args!["build --format romfs", &tree, &image];
    let ended = run_with(&build, Stdio::piped(), closed_pipe().into());
    ended.succeeds();
    let missing = world.path("missing");
    for subcommand in ["digest", "verify", "ls", "seal"] {
        let fails = args![subcommand, &missing];
        let ended = run_with(&fails, Stdio::piped(), closed_pipe().into());
        assert_eq!(ended.status.code(), Some(3), "{ended:?}");
    }
    let wrong_usage = args!["ls"];
    let ended = run_with(&wrong_usage, Stdio::piped(), closed_pipe().into());
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
}

#[test]
fn a_closed_pipe_does_not_keep_a_mount_from_its_work() {
    needs!(fuse_or_skip());
    let world = World::new();
    let image = world.sealed_image("image");
    let directory = world.directory("mnt");
    let mount = args!["mount", &image, &directory, "--unpinned"];
    let ended = run_with(&mount, closed_pipe().into(), closed_pipe().into());
    ended.succeeds();
    let hello = fs::read(directory.join("hello"));
    umount(&directory);
    assert_eq!(hello.unwrap(), b"Hello, world!\n");
}

#[test]
fn a_closed_pipe_ends_status_quietly() {
    needs!(fuse_or_skip());
    let world = World::new();
    let image = world.sealed_image("image");
    let directory = world.directory("mnt");
    let _mounted = Background::mount(&image, &directory, &["--unpinned"]);
    for status in [
        args!["status", &directory],
        args!["status --json", &directory],
    ] {
        let ended = run_with(&status, closed_pipe().into(), Stdio::piped());
        ended.succeeds_quietly();
    }
}

/// A full disk below standard output is a failure, as the result is incomplete.
#[test]
fn a_full_standard_output_is_reported() {
    let world = World::new();
    for arguments in printing(&world) {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ended = run_with(&arguments, full.into(), Stdio::piped());
        ended.fails_saying("No space left on device");
    }
}

/// A small file system of its own.
fn small_disk(world: &World, size: &str) -> PathBuf {
    let disk = world.directory("disk");
    let options = std::ffi::CString::new(format!("size={size}")).unwrap();
    mount("tmpfs", &disk, "tmpfs", MountFlags::empty(), &*options).unwrap();
    disk
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}

#[test]
fn a_full_disk_leaves_everything_unchanged() {
    needs!(root_or_skip());
    let world = World::new();
    let disk = small_disk(&world, "1M");
    let tree = world.directory("tree");
    fs::write(tree.join("large"), noise(2 << 20, 1)).unwrap();
    let (_, secret) = world.keys("signer");

    let image = disk.join("image");
    fs::write(&image, "an older image").unwrap();
    let build = args!["build --force", &tree, &image];
    verimount(build).fails_saying("No space left on device");
    assert_eq!(fs::read(&image).unwrap(), b"an older image");
    assert_eq!(names(&disk), std::slice::from_ref(&image));

    // The data fits, but not a tree of the smallest blocks and largest digests with it.
    let data = noise(900 << 10, 2);
    let large_tree = ["--tree-block-size", "1K", "--hash-alg", "sha512"];
    fs::remove_file(&image).unwrap();
    let file = disk.join("file");
    fs::write(&file, &data).unwrap();
    let filler = disk.join("filler");
    fs::write(&filler, vec![0; 80 << 10]).unwrap();
    for append in [&["--append"][..], &[]] {
        verimount(args!["seal", &file; large_tree.iter().chain(append)])
            .fails_saying("No space left on device");
        assert!(fs::read(&file).unwrap() == data, "the file was changed");
        assert_eq!(names(&disk), [file.clone(), filler.clone()]);
    }

    // Nothing more fits at all.
    fs::write(&filler, vec![0; 2 << 20]).unwrap_err();
    let before = names(&disk);
    let (public, secret_there) = (disk.join("public"), disk.join("secret"));
    verimount(args!["keygen -W", &public, &secret_there]).fails();
    assert_eq!(names(&disk), before);
    let sealed = world.path("sealed");
    verimount(args!["build", &tree, &sealed]).succeeds();
    verimount(args!["extract", &sealed, disk.join("copy")]).fails_saying("No space left");
    verimount(args!["man", disk.join("man")]).fails_saying("No space left");
    verimount(args!["sign", &sealed, "--key", &secret]).succeeds_quietly();
}

#[test]
fn manual_pages_and_completions_are_complete() {
    let world = World::new();
    let pages = world.path("man/pages");
    verimount(args!["man", &pages]).succeeds_quietly();
    let pages = names(&pages);
    for subcommand in [
        "verimount",
        "verimount-build",
        "verimount-mount",
        "verimount-verify",
    ] {
        let page = format!("{subcommand}.1");
        assert!(pages.iter().any(|path| path.ends_with(&page)), "{page}");
    }
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        for section in ["\"EXIT STATUS\"", "\"SEE ALSO\""] {
            assert!(text.contains(&format!(".SH {section}\n")), "{page:?}");
        }
    }
    let page = |name: &str| fs::read_to_string(world.path("man/pages").join(name)).unwrap();
    let mount = page("verimount-mount.1");
    for section in ["FILES", "SIGNALS", "EXAMPLES"] {
        assert!(mount.contains(&format!(".SH {section}\n")), "{mount}");
    }
    let list = page("verimount-list.1");
    assert!(!list.contains(".SH SIGNALS"), "{list}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = verimount(["completions", shell]);
        let script = script.succeeds_quietly().text();
        // Options, and what their values can be.
        assert!(script.contains("unpinned"), "{shell}");
        let has_values = !["elvish", "powershell"].contains(&shell);
        assert_eq!(script.contains("blake2b-256"), has_values, "{shell}");
    }
    verimount(["completions", "no-such-shell"]).is_wrong_usage();
    let in_the_way = world.write("file", "");
    for directory in [in_the_way.clone(), in_the_way.join("inside")] {
        let man = || verimount(args!["man", &directory]);
        world
            .unchanged_by(man)
            .fails_saying(directory.to_str().unwrap());
    }
}
