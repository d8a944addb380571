//! What the kernel remembers of owners, permissions and places gives nobody a right that the source no
//! longer gives them, however the kernel caches.

use super::{CachePolicy, Mirrored, Shown, WAYS, for_all, mount};
use crate::prelude::*;

const USER: u32 = 4321;
const OTHER: u32 = 4322;

/// All ways to cache.
const CACHES: [CachePolicy; 3] = CachePolicy::ALL;

/// Opens a program and a directory, waits for a line, and tries all that only an owner may do by
/// descriptors. Prints what was not refused.
const FORMER_OWNER: &str = r#"
    $| = 1;
    open(my $file, '<', 'program') or die; opendir(my $folder, 'folder') or die;
    open(my $same, '<', 'folder') or die;
    print "open\n"; <STDIN>;
    print "chmod file\n" if chmod 04755, $file;
    print "chmod folder\n" if chmod 0777, $same;
    print "chown file\n" if chown $<, -1, $file;
    print "chown folder\n" if chown $<, -1, $same;
    print "utime file\n" if utime 1, 1, $file;
    print "utime folder\n" if utime 1, 1, $same;
    print "end\n";
"#;

/// A shared source, mounted for all with these caches, in all ways to serve files.
fn in_all_ways(check: impl Fn(&World, &Mirrored)) {
    for (way, cache) in WAYS.iter().flat_map(|way| CACHES.map(|cache| (way, cache))) {
        needs!(root_or_skip());
        let world = needs!(World::with_source());
        let source = world.path("src");
        fs::set_permissions(&source, Permissions::from_mode(0o777)).unwrap();
        let shown = Shown {
            cache,
            ..for_all(way)
        };
        let mounted = mount(&world, shown);
        eprintln!("{way} {cache}");
        check(&world, &mounted);
        mounted.unmount();
    }
}

/// A Perl script that runs as a user, until it has printed its first line.
fn begin(script: &str, directory: &Path) -> Option<(Child, BufReader<std::process::ChildStdout>)> {
    let mut command = Command::new(tools::find("setpriv")?);
    command
        .args([format!("--reuid={USER}"), format!("--regid={USER}")])
        .args(["--clear-groups", "perl", "-e", script])
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    said.read_line(&mut first).unwrap();
    assert_eq!(first, "open\n");
    Some((child, said))
}

/// Lets the script go on; returns what it printed after its first line.
fn go_on((mut child, said): (Child, BufReader<std::process::ChildStdout>)) -> Vec<String> {
    writeln!(child.stdin.take().unwrap()).unwrap();
    let said = said.lines().map(Result::unwrap).collect();
    assert!(child.wait().unwrap().success());
    said
}

#[test]
fn a_former_owner_changes_nothing_by_descriptors() {
    in_all_ways(|world, mounted| {
        let (file, folder) = (world.path("src/program"), world.path("src/folder"));
        fs::write(&file, "#!/bin/sh\n").unwrap();
        fs::create_dir(&folder).unwrap();
        for path in [&file, &folder] {
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
            chown(path, Some(USER), Some(USER)).unwrap();
        }
        let script = needs!(begin(FORMER_OWNER, &mounted.path("")));
        for path in [&file, &folder] {
            chown(path, Some(0), Some(0)).unwrap();
        }
        assert_eq!(go_on(script), ["end"]);
        for path in [&file, &folder] {
            let found = fs::metadata(path).unwrap();
            assert_eq!((found.uid(), found.mode() & 0o7777), (0, 0o755));
            assert_ne!(found.mtime(), 1);
        }
    });
}

/// The kernel remembers that the user owns the file.
#[test]
fn files_of_others_in_a_sticky_directory_stay() {
    in_all_ways(|world, mounted| {
        for (number, tried) in [
            "rm -f x",
            "mv x mine",
            "mv -T d mine",
            "rmdir d",
            "mv own x",
        ]
        .iter()
        .enumerate()
        {
            // One for each, as the kernel remembers names as well.
            let name = number.to_string();
            let sticky = world.directory(&format!("src/{name}"));
            fs::set_permissions(&sticky, Permissions::from_mode(0o1777)).unwrap();
            let as_user = |script| shell_as(USER, USER, &[], &mounted.path(&name), script);
            as_user("touch x own; mkdir d; cat x; ls d").succeeds();
            fs::remove_file(sticky.join("x")).unwrap();
            fs::remove_dir(sticky.join("d")).unwrap();
            fs::write(sticky.join("x"), "others").unwrap();
            fs::create_dir(sticky.join("d")).unwrap();
            for path in ["x", "d"] {
                chown(sticky.join(path), Some(OTHER), Some(OTHER)).unwrap();
            }
            let ended = as_user(tried);
            assert!(!ended.status.success(), "{tried}: {ended:?}");
            assert_eq!(fs::read_to_string(sticky.join("x")).unwrap(), "others");
            assert!(sticky.join("d").is_dir());
        }
    });
}

/// Tries to open, make and change files below its directory, which was moved to where all is denied.
const INSIDE: &str = r#"
    $| = 1;
    opendir(my $folder, '.'); my @names = readdir($folder); my @found = stat('file');
    print "open\n"; <STDIN>;
    print "read\n" if open(my $read, '<', 'new');
    print "wrote\n" if open(my $write, '>>', 'new');
    print "made\n" if open(my $made, '>', 'made');
    print "truncated\n" if truncate('file', 1);
    print "removed\n" if unlink('file');
    print "moved\n" if rename('file', '../../pub/file');
    print "end\n";
"#;

#[test]
fn path_rules_hold_below_a_directory_that_was_moved_in_the_source() {
    let rule = "[[rule]]\naction = \"deny\"\npath = \"secrets/**\"\n";
    for cache in CACHES {
        needs!(root_or_skip());
        let world = needs!(World::with_source());
        for directory in ["secrets", "pub", "pub/project"] {
            let path = world.directory(&format!("src/{directory}"));
            fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        }
        let make = |path: &str| {
            let path = world.write(path, "content");
            fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap();
        };
        make("src/pub/project/file");
        let shown = Shown {
            cache,
            policy: rule,
            ..for_all("auto")
        };
        let mounted = mount(&world, shown);
        let script = needs!(begin(INSIDE, &mounted.path("pub/project")));
        let moved = world.path("src/secrets/project");
        fs::rename(world.path("src/pub/project"), &moved).unwrap();
        make("src/secrets/project/new");
        assert_eq!(go_on(script), ["end"], "{cache}");
        for name in ["new", "file"] {
            assert_eq!(fs::read_to_string(moved.join(name)).unwrap(), "content");
        }
        mounted.unmount();
    }
}

/// Also when the file was found by another name since.
#[test]
fn a_denied_name_of_a_file_stays_denied() {
    let rule = "[[rule]]\naction = \"deny\"\npath = \"secrets/**\"\n";
    for cache in CACHES {
        let world = needs!(World::with_source());
        world.directory("src/secrets");
        let key = world.write("src/secrets/key", "secret");
        fs::hard_link(key, world.path("src/other")).unwrap();
        let shown = Shown {
            cache,
            policy: rule,
            ..Shown::default()
        };
        let mounted = mount(&world, shown);
        let read = |path| fs::read_to_string(mounted.path(path)).is_ok();
        assert!(!read("secrets/key"));
        read("other");
        for _ in 0..3 {
            fs::metadata(mounted.path("other")).unwrap();
            assert!(!read("secrets/key"), "{cache}");
        }
        fs::remove_file(world.path("src/secrets/key")).unwrap();
        assert!(read("other"), "{cache}");
        mounted.unmount();
    }
}
