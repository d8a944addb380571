//! What `extract` restores from an image that has everything, and what `ls` shows of it.

use rustix::fs::{FileType, Timespec, Timestamps, lsetxattr, utimensat};

use crate::prelude::*;

/// The access control list of a file: its owner reads and writes, user 1234 too, all others read.
const ACCESS_LIST: [u8; 44] = [
    2, 0, 0, 0, //
    0x01, 0, 6, 0, 0xff, 0xff, 0xff, 0xff, //
    0x02, 0, 6, 0, 0xd2, 0x04, 0, 0, //
    0x04, 0, 4, 0, 0xff, 0xff, 0xff, 0xff, //
    0x10, 0, 6, 0, 0xff, 0xff, 0xff, 0xff, //
    0x20, 0, 4, 0, 0xff, 0xff, 0xff, 0xff, //
];

/// The right to open raw sockets, as `setcap cap_net_raw=ep` stores it.
const CAPABILITY: [u8; 20] = [
    1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// A tree with everything that an image can have, which only root can make.
fn make_tree(root: &Path) {
    let path = |name: &str| root.join(name);
    for directory in ["outer/inner/empty", "closed", "inherited"] {
        fs::create_dir_all(path(directory)).unwrap();
    }
    for (name, len) in [
        ("large", 1_300_001),
        ("outer/file", 5000),
        ("outer/set id", 10),
        ("closed/file", 10),
        ("list", 10),
        ("program", 100),
    ] {
        fs::write(path(name), noise(len, len as u64)).unwrap();
    }
    for (name, file_type, device) in [
        ("fifo", FileType::Fifo, 0),
        ("null", FileType::CharacterDevice, makedev(1, 3)),
        ("disk", FileType::BlockDevice, makedev(259, 65535)),
    ] {
        let mode = Mode::from_raw_mode(0o640);
        mknodat(CWD, path(name), file_type, mode, device).unwrap();
    }
    drop(UnixListener::bind(path("socket")).unwrap());
    symlink("no/where", path("link")).unwrap();
    for (first, further) in [
        ("outer/file", "outer/inner/hard"),
        ("closed/file", "outer/from closed"),
        ("fifo", "outer/fifo too"),
        ("link", "outer/link too"),
    ] {
        fs::hard_link(path(first), path(further)).unwrap();
    }
    for (name, user, group) in [
        ("outer/set id", 4711, 70_000),
        ("outer/inner", 99, 98),
        ("socket", 4_000_000_000, 5),
    ] {
        chown(path(name), Some(user), Some(group)).unwrap();
    }
    std::os::unix::fs::lchown(path("link"), Some(12), Some(34)).unwrap();
    for (name, attribute, value) in [
        ("outer/file", "user.of file", &b"value"[..]),
        ("outer", "user.of directory", b""),
        ("large", "trusted.large", b"\0\xff"),
        ("link", "trusted.link", b"link"),
        ("null", "trusted.device", b"device"),
        ("list", "system.posix_acl_access", &ACCESS_LIST),
        ("inherited", "system.posix_acl_default", &ACCESS_LIST),
        ("program", "security.capability", &CAPABILITY),
    ] {
        lsetxattr(path(name), attribute, value, XattrFlags::empty()).unwrap();
    }
    for (name, mode) in [
        ("", 0o751),
        ("outer/set id", 0o6711),
        ("outer/inner", 0o2755),
        ("outer/inner/empty", 0o400),
        ("outer", 0o1777),
        ("program", 0o555),
        ("closed", 0),
    ] {
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    set_times(root);
}

/// Sets times before and after 1970, with nanoseconds, from the innermost to the root.
fn set_times(root: &Path) {
    for (seconds, path) in (-300_000_000..).step_by(100_000_001).zip([
        "large",
        "outer/file",
        "link",
        "socket",
        "null",
        "fifo",
        "outer/inner",
        "outer",
        "closed",
        "",
    ]) {
        let time = Timespec {
            tv_sec: seconds,
            tv_nsec: 123_456_789,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        utimensat(CWD, root.join(path), &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}

/// A tree with everything, `tree`; `None`, after a note, if this is not root.
fn world_with_tree() -> Option<(World, PathBuf)> {
    if !root_or_skip() {
        return None;
    }
    let world = World::new();
    let tree = world.directory("tree");
    make_tree(&tree);
    Some((world, tree))
}

/// An image of a tree by `mkfs.erofs`; `None` where it is missing.
fn image(world: &World, tree: &Path) -> Option<PathBuf> {
    let mkfs = tools::find("mkfs.erofs")?;
    let image = world.path("image");
    let mut command = Command::new(mkfs);
    command.arg(&image).arg(tree);
    finish(command).succeeds();
    verimount(args!["seal --append", &image]).succeeds_quietly();
    Some(image)
}

fn run_in(directory: &Path, program: &str, arguments: &[&str]) -> Ended {
    let mut command = Command::new(tools::find(program).unwrap());
    command.args(arguments).current_dir(directory);
    let ended = finish(command);
    ended.succeeds();
    ended
}

/// Everything that `find` shows of the files below a directory: path, type, mode, owner, group, modification
/// time, links, target, size and device. The sizes of directories are left out, as they depend on their
/// history.
fn found(directory: &Path) -> BTreeMap<String, String> {
    let format = "%P|%y %m %U %G %T@ %n %l ";
    let mut all = BTreeMap::new();
    for (tests, rest) in [(&["-type", "d"][..], ""), (&["!", "-type", "d"], "%s")] {
        let format = format!("{format}{rest}\\n");
        let arguments = [&["."][..], tests, &["-printf", &format]].concat();
        for line in run_in(directory, "find", &arguments).text().lines() {
            let (path, shown) = line.split_once('|').unwrap();
            all.insert(path.to_owned(), shown.to_owned());
        }
    }
    for device in ["null", "disk"] {
        if let Some(shown) = all.get_mut(device) {
            let number = run_in(directory, "stat", &["--format=%t,%T", device]);
            shown.push_str(number.text());
        }
    }
    all
}

/// All extended attributes.
fn attributes(directory: &Path) -> Vec<String> {
    let arguments = [
        "--recursive",
        "--no-dereference",
        "--dump",
        "--match=-",
        ".",
    ];
    let ended = run_in(directory, "getfattr", &arguments);
    // Hard links are followed in the order of the directory.
    let of_files = ended.text().split("\n\n").map(|file| {
        let lines: Vec<_> = file.lines().filter(|line| !line.starts_with('#')).collect();
        lines.join("\n")
    });
    let mut all: Vec<_> = of_files.collect();
    all.sort();
    all
}

#[test]
fn root_restores_everything() {
    needs!(tools::find("getfattr"));
    let (world, tree) = needs!(world_with_tree());
    let image = needs!(image(&world, &tree));
    let copy = world.path("copy");
    let ended = verimount(args!["extract", &image, &copy, "--strict"]);
    assert!(
        !ended.succeeds_quietly().stderr.contains("restore"),
        "{ended:?}"
    );
    assert_eq!(found(&copy), found(&tree));
    assert_eq!(attributes(&copy), attributes(&tree));
    if tools::find("rsync").is_some() {
        let (from, to) = (tree.join(""), copy.join(""));
        let options = ["-aHAXn", "--checksum", "--delete", "--itemize-changes"];
        let mut arguments = options.to_vec();
        arguments.extend([from.to_str().unwrap(), to.to_str().unwrap()]);
        assert_eq!(run_in(world.root(), "rsync", &arguments).text(), "");
    }
    let theirs = world.path("theirs");
    let option = format!("--extract={}", theirs.to_str().unwrap());
    run_in(
        world.root(),
        "fsck.erofs",
        &[&option, image.to_str().unwrap()],
    );
    // It makes no hard links, and takes set-id bits away when it sets owners.
    let without_those = |mut all: BTreeMap<String, String>| {
        all.get_mut("outer/set id").unwrap().clear();
        for shown in all.values_mut().filter(|shown| !shown.starts_with('d')) {
            let mut fields: Vec<_> = shown.split(' ').collect();
            if fields.len() > 5 {
                fields.remove(5);
            }
            *shown = fields.join(" ");
        }
        all
    };
    let (theirs, ours) = (found(&theirs), found(&copy));
    assert_eq!(without_those(theirs), without_those(ours));
}

#[test]
fn ls_shows_what_ls_does() {
    let (world, tree) = needs!(world_with_tree());
    let image = needs!(image(&world, &tree));
    // The sizes of directories depend on the file system.
    let normal = |text: &str| {
        let lines = text.lines().map(|line| {
            let mut fields: Vec<_> = line.split_whitespace().collect();
            if line.starts_with('d') {
                fields[4] = "";
            }
            fields.join(" ")
        });
        let mut lines: Vec<_> = lines.collect();
        lines.sort();
        lines
    };
    let ours = verimount(args!["ls --long", &image]);
    let mut command = Command::new("ls");
    let paths = found(&tree).into_keys().filter(|path| !path.is_empty());
    let options = [
        "-lnd",
        "--time-style=full-iso",
        "--quoting-style=literal",
        "--",
    ];
    command.args(options).args(paths).current_dir(&tree);
    command.env("TZ", "UTC0").env("LC_ALL", "C");
    let theirs = finish(command);
    let ours = normal(ours.succeeds_quietly().text());
    assert_eq!(ours, normal(theirs.succeeds_quietly().text()));

    let listed = verimount(args!["ls --json", &image]);
    let objects: BTreeMap<String, Value> = listed
        .succeeds_quietly()
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .map(|object: Value| (object["path"].as_str().unwrap().to_owned(), object))
        .collect();
    assert_eq!(objects.len(), ours.len());
    for (path, object) in &objects {
        let metadata = fs::symlink_metadata(tree.join(path)).unwrap();
        assert_eq!(object["version"], 1);
        assert_eq!(object["mode"], format!("{:04o}", metadata.mode() & 0o7777));
        assert_eq!(object["links"], metadata.nlink());
        assert_eq!(object["uid"], metadata.uid());
        assert_eq!(object["gid"], metadata.gid());
        assert_eq!(object["mtime"]["seconds"], metadata.mtime(), "{path}");
        assert_eq!(object["mtime"]["nanoseconds"], metadata.mtime_nsec());
    }
    let of = |path: &str, field: &str| objects[path][field].clone();
    assert_eq!(of("link", "target"), "no/where");
    assert_eq!(of("link", "type"), "symlink");
    assert_eq!(of("disk", "rdev"), json!({"major": 259, "minor": 65535}));
    assert_eq!(of("fifo", "rdev"), Value::Null);
    assert_eq!(of("outer/file", "xattrs"), json!(["user.of file"]));
    assert_eq!(of("outer/file", "inode"), of("outer/inner/hard", "inode"));
    assert_eq!(of("large", "size"), 1_300_001);
}

/// What they may not restore is named, and they get no right that they could not have.
#[test]
fn an_ordinary_user_restores_what_they_may() {
    let (world, tree) = needs!(world_with_tree());
    let user = User::ordinary(&world);
    let own = tree.join("own");
    fs::write(&own, "own").unwrap();
    user.own(&own);
    fs::set_permissions(&own, fs::Permissions::from_mode(0o6700)).unwrap();
    let image = needs!(image(&world, &tree));
    let home = world.directory("home");
    user.own(&home);
    let copy = home.join("copy");
    let extract = args!["extract", &image, &copy];
    let ended = verimount_as(&user, extract.clone());
    ended.succeeds_quietly();
    for note in [
        "create devices or other special files, 2: ",
        "the owners of ",
        "the permissions of 2: ",
        "(6711 becomes 0711)",
        "(2755 becomes 0755)",
        "the file capabilities of 1: program (security.capability)",
        "the extended attributes of 2: ",
        "(trusted.link)",
    ] {
        assert!(ended.stderr.contains(note), "no {note:?} in {ended:?}");
    }
    for kept in ["the times", "access control lists"] {
        assert!(!ended.stderr.contains(kept), "{ended:?}");
    }
    let mut expected = found(&tree);
    for (path, shown) in &mut expected {
        let mut fields: Vec<_> = shown.split(' ').collect();
        (fields[2], fields[3]) = ("65534", "65534");
        fields[1] = match path.as_str() {
            "outer/set id" => "711",
            "outer/inner" => "755",
            _ => fields[1],
        };
        *shown = fields.join(" ");
    }
    expected.retain(|path, _| path != "null" && path != "disk");
    assert_eq!(found(&copy), expected);
    fs::remove_dir_all(&copy).unwrap();
    let strict = verimount_as(&user, [extract, args!["--strict"]].concat());
    strict.fails_saying("--strict");
}

/// A directory may have an access control list that new files inherit.
#[test]
fn nothing_is_inherited_from_the_target() {
    let world = World::new();
    let tree = world.directory("tree");
    fs::create_dir(tree.join("folder")).unwrap();
    fs::write(tree.join("folder/file"), "content").unwrap();
    let image = needs!(image(&world, &tree));
    let copy = world.directory("copy");
    for list in ["system.posix_acl_access", "system.posix_acl_default"] {
        if setxattr(&copy, list, &ACCESS_LIST, XattrFlags::empty()).is_err() {
            skip(format_args!("no access control lists in {copy:?}"));
            return;
        }
    }
    verimount(args!["extract", &image, &copy]).succeeds_quietly();
    assert_eq!(found(&copy), found(&tree));
    for path in ["", "folder", "folder/file"] {
        let mut buf = [0; 1000];
        let names = rustix::fs::listxattr(copy.join(path), &mut buf[..]).unwrap();
        assert!(!buf[..names].starts_with(b"system."), "{path}");
    }
}

/// Chunks that are alike are stored once.
#[test]
fn files_that_share_data_are_limited() {
    const LEN: u64 = 512 << 10;
    let mkfs = needs!(tools::find("mkfs.erofs"));
    let world = World::new();
    let tree = world.directory("tree");
    File::create(tree.join("zeros"))
        .unwrap()
        .set_len(LEN)
        .unwrap();
    let image = world.path("image");
    let mut command = Command::new(mkfs);
    command.arg("--chunksize=4096").arg(&image).arg(&tree);
    finish(command).succeeds();
    let len = fs::metadata(&image).unwrap().len();
    assert!((LEN / 100..LEN / 2).contains(&len), "{len}");
    let extract = |name: &str, options: &[&str]| {
        verimount(args!["extract", &image, world.path(name), "--unverified"; options.iter()])
    };
    extract("by default", &[]).succeeds_quietly();
    extract("allowed", &["--max-size=512K"]).succeeds_quietly();
    extract("too large", &["--max-size=524287"]).fails_saying("--max-size");
    assert_eq!(
        fs::metadata(world.path("allowed/zeros")).unwrap().len(),
        LEN
    );
    assert!(fs::metadata(world.path("too large/zeros")).unwrap().len() < LEN);
}
