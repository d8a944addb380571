//! What owners, access control lists, set-ID bits, capabilities and devices in an image allow: the same as in the
//! kernel's own mount of it.

use rustix::fs::FileType;

use crate::prelude::*;

/// A user that some access control lists name.
const LISTED: u32 = 4711;

/// A user and a group that nothing names, except the owner of some files.
const NOBODY: u32 = 65_534;

/// An entry of an access control list: tag, permissions, id.
type Entry = (u16, u16, u32);

const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;

/// The value of the attribute that holds a list.
fn list(entries: &[Entry]) -> Vec<u8> {
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

/// A list in which `special` and the group of the file have these permissions, others none.
fn list_with(special: Entry, group: u16, mask: u16) -> Vec<u8> {
    const NONE: u32 = u32::MAX;
    let mut entries = vec![
        (OWNER, 7, NONE),
        special,
        (OWNING_GROUP, group, NONE),
        (MASK, mask, NONE),
        (OTHERS, 0, NONE),
    ];
    entries.sort_unstable();
    list(&entries)
}

/// `cap_dac_read_search`, effective: its owner may read everything.
const READ_EVERYTHING: [u8; 20] = [1, 0, 0, 2, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Each with its list. The owner is root, the group that of `nobody`.
fn listed_files() -> [(&'static str, Vec<u8>); 5] {
    [
        ("for a user", list_with((USER, 4, LISTED), 0, 4)),
        ("for a group", list_with((GROUP, 4, LISTED), 0, 4)),
        ("not for a user", list_with((USER, 0, LISTED), 4, 4)),
        ("masked", list_with((USER, 4, LISTED), 4, 0)),
        ("folder", list_with((USER, 5, LISTED), 0, 5)),
    ]
}

/// Adds all to a tree that root owns. Whether the file system can hold it.
fn add(tree: &Path) -> bool {
    for (name, program, mode) in [
        ("set user", "id", 0o4755),
        ("set group", "id", 0o2755),
        ("capable", "cat", 0o755),
    ] {
        let path = tree.join(name);
        fs::copy(tools::find(program).unwrap(), &path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    mknodat(
        CWD,
        tree.join("null"),
        FileType::CharacterDevice,
        Mode::from_raw_mode(0o666),
        makedev(1, 3),
    )
    .unwrap();
    fs::create_dir(tree.join("folder")).unwrap();
    fs::write(tree.join("folder/inside"), "content").unwrap();
    for (name, list) in listed_files() {
        let path = tree.join(name);
        if !path.exists() {
            fs::write(&path, "content").unwrap();
        }
        chown(&path, Some(0), Some(NOBODY)).unwrap();
        let attribute = "system.posix_acl_access";
        match setxattr(&path, attribute, &list, XattrFlags::empty()) {
            Err(Errno::OPNOTSUPP) => {
                skip("no access control lists here");
                return false;
            }
            set => set.unwrap(),
        }
    }
    let (path, name) = (tree.join("capable"), "security.capability");
    setxattr(path, name, &READ_EVERYTHING, XattrFlags::empty()).unwrap();
    true
}

/// A command as another user.
fn by(uid: u32, gid: u32, program: &Path) -> Command {
    let mut command = Command::new(tools::find("setpriv").unwrap());
    command.args(["--reuid", &uid.to_string(), "--regid", &gid.to_string()]);
    command.args(["--clear-groups", "--"]).arg(program);
    command
}

/// What a command prints if it succeeds.
fn printed(mut command: Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    output.status.success().then(|| text.trim().to_owned())
}

/// What users can do in a mounted tree. Only root may read `secret`.
fn outcomes(root: &Path, secret: &Path) -> Vec<(String, Option<String>)> {
    let run = |name: &str, argument: &Path| {
        let mut command = as_nobody(&root.join(name));
        command.arg(argument);
        printed(command)
    };
    let device = File::open(root.join("null")).map_err(|error| error.kind());
    let mut outcomes = vec![
        ("set user".to_owned(), run("set user", "-u".as_ref())),
        ("set group".to_owned(), run("set group", "-g".as_ref())),
        ("capable".to_owned(), run("capable", secret)),
        ("device".to_owned(), Some(format!("{:?}", device.is_ok()))),
    ];
    let cat = tools::find("cat").unwrap();
    for (name, _) in listed_files() {
        let path = match name {
            "folder" => root.join("folder/inside"),
            name => root.join(name),
        };
        for (uid, gid) in [(NOBODY, NOBODY), (LISTED, 1), (1, LISTED), (LISTED, NOBODY)] {
            let mut command = by(uid, gid, &cat);
            command.arg(&path);
            outcomes.push((format!("{name} by {uid}:{gid}"), printed(command)));
        }
    }
    outcomes
}

/// An image `image` of all that can have powers, and a file that only root may read.
fn world_with_powers() -> Option<World> {
    if !root_or_skip() {
        return None;
    }
    let world = World::with_mount_point()?;
    if !add(&world.directory("tree")) {
        return None;
    }
    let secret = world.write("secret", "the secret");
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let (tree, image) = (world.path("tree"), world.path("image"));
    build(&tree, &image, &BuildOptions::default()).unwrap();
    Some(world)
}

#[test]
fn an_image_allows_what_it_does_in_the_kernels_mount() {
    let world = needs!(world_with_powers());
    let (image, mnt, secret) = (world.path("image"), world.path("mnt"), world.path("secret"));
    let kernel = world.directory("kernel");
    let without = MountFlags::NOSUID | MountFlags::NODEV;
    let shared = |suid, dev| MountOptions {
        allow_other: true,
        suid,
        dev,
        ..MountOptions::default()
    };
    for (options, flags, has_powers) in [
        (shared(true, true), MountFlags::empty(), true),
        (shared(true, false), MountFlags::NODEV, true),
        (shared(false, false), without, false),
    ] {
        let unpinned = OpenOptions::new().unpinned();
        let mounted = Mounted::with(&image, &mnt, &unpinned, &options).unwrap();
        let found = outcomes(&mnt, &secret);
        let outcome = |name: &str| {
            let outcome = found.iter().find(|(found, _)| found == name);
            outcome.unwrap().1.as_deref()
        };
        // Powers, and their absence, are noticed.
        let expected = if has_powers {
            (Some("0"), Some("the secret"))
        } else {
            (Some("65534"), None)
        };
        assert_eq!((outcome("set user"), outcome("capable")), expected);
        assert_eq!(outcome("for a user by 4711:1"), Some("content"));
        assert_eq!(outcome("for a user by 65534:65534"), None);
        if let Some(_mounted) = KernelMount::erofs(&image, &kernel, flags) {
            assert_eq!(found, outcomes(&kernel, &secret), "{options:?}");
        }
        mounted.unmount();
    }
}

/// The lower layer of an overlay, in which files are changed and programs run.
#[test]
fn powers_hold_in_an_overlay() {
    let world = needs!(world_with_powers());
    let (image, mnt, secret) = (world.path("image"), world.path("mnt"), world.path("secret"));
    let powers = MountOptions {
        allow_other: true,
        suid: true,
        dev: true,
        ..MountOptions::default()
    };
    let unpinned = OpenOptions::new().unpinned();
    let mounted = Mounted::with(&image, &mnt, &unpinned, &powers).unwrap();
    let merged = world.directory("merged");
    let changes = KernelMount::memory(&world.directory("changes"));
    let overlay = needs!(KernelMount::overlay(&mnt, &changes, &merged, ""));
    let before = outcomes(&merged, &secret);
    assert_eq!(before, outcomes(&mnt, &secret));
    let copied = merged.join("for a user");
    let owner = |path: &Path| {
        let metadata = fs::metadata(path).unwrap();
        (metadata.uid(), metadata.gid(), metadata.mode())
    };
    let old_owner = owner(&copied);
    fs::OpenOptions::new().append(true).open(&copied).unwrap();
    fs::rename(merged.join("set user"), merged.join("moved")).unwrap();
    fs::rename(merged.join("moved"), merged.join("set user")).unwrap();
    fs::remove_file(merged.join("not for a user")).unwrap();
    fs::write(merged.join("not for a user"), "other").unwrap();
    assert_eq!(owner(&copied), old_owner);
    let unchanged = |outcomes: Vec<(String, Option<String>)>| {
        let outcomes = outcomes.into_iter();
        let outcomes = outcomes.filter(|(name, _)| !name.starts_with("not for a user"));
        outcomes.collect::<Vec<_>>()
    };
    assert_eq!(unchanged(outcomes(&merged, &secret)), unchanged(before));
    drop(overlay);
    mounted.unmount();
}

/// The kernel asks for lists only where there may be some.
#[test]
fn without_lists_nobody_asks_for_them() {
    needs!(root_or_skip());
    let world = needs!(World::with_mount_point());
    let tree = world.directory("tree");
    for number in 0..50 {
        let path = tree.join(format!("file {number}"));
        fs::write(&path, "content").unwrap();
        chown(&path, Some(0), Some(NOBODY)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    }
    let (image, mnt) = (world.path("image"), world.path("mnt"));
    let requests = || {
        build(&tree, &image, &BuildOptions::default()).unwrap();
        let unpinned = OpenOptions::new().unpinned();
        let shared = MountOptions {
            allow_other: true,
            ..MountOptions::default()
        };
        let mounted = Mounted::with(&image, &mnt, &unpinned, &shared).unwrap();
        let mut cat = by(NOBODY, NOBODY, &tools::find("cat").unwrap());
        cat.args((0..50).map(|number| mnt.join(format!("file {number}"))));
        assert_eq!(printed(cat), Some("content".repeat(50)));
        let status = mounted.json();
        mounted.unmount();
        status["requests"]["getxattr"].as_u64().unwrap()
    };
    assert_eq!(requests(), 0);
    let listed = list_with((USER, 4, LISTED), 4, 4);
    let attribute = "system.posix_acl_access";
    if setxattr(tree.join("file 7"), attribute, &listed, XattrFlags::empty()).is_ok() {
        let asked = requests();
        assert!(asked >= 50, "{asked}");
    }
}

/// A mount that is served would show less, or otherwise.
#[test]
fn what_is_not_native_is_refused() {
    let world = needs!(World::with_mount_point());
    let image = world.path("image");
    let digest = build(world.directory("tree"), &image, &BuildOptions::default()).unwrap();
    let pinned = OpenOptions::new().digest(digest.digest.unwrap());
    let native = MountOptions {
        native: true,
        allow_other: true,
        ..MountOptions::default()
    };
    for (pinned, mount) in [
        (
            &pinned,
            MountOptions {
                allow_other: false,
                ..native.clone()
            },
        ),
        (
            &pinned,
            MountOptions {
                as_file: true,
                ..native.clone()
            },
        ),
        (&OpenOptions::new().unpinned(), native.clone()),
    ] {
        let content = Content::open(image.clone(), pinned).unwrap();
        let refused = verimount_host::mount(&content, world.path("mnt"), &mount).unwrap_err();
        assert_eq!(refused.kind(), verimount::ErrorKind::InvalidInput);
    }
}
