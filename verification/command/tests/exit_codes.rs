//! The exit code tells apart bad data, wrong usage, work that could not be done, and interruptions. What a
//! signal does is tested with the work that it interrupts.

use crate::prelude::*;

const BAD: i32 = 1;
const USAGE: i32 = 2;
const FAILED: i32 = 3;

const ANOTHER_DIGEST: &str =
    "sha256:3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95";

/// Files in all the states that an exit code tells apart.
struct Files {
    world: World,
    sound: PathBuf,
    damaged: PathBuf,
    /// Without its seal, which was at its end.
    truncated: PathBuf,
    /// Nothing that Verimount knows.
    foreign: PathBuf,
    missing: PathBuf,
    tree: PathBuf,
    volume: PathBuf,
    damaged_volume: PathBuf,
    public: PathBuf,
    secret: PathBuf,
}

impl Files {
    fn new() -> Self {
        let world = World::new();
        let sound = world.sealed_image("sound");
        let whole = fs::read(&sound).unwrap();
        let damaged = world.write("damaged", &whole);
        flip_where(&damaged, &noise(70_000, 1)[..100]);
        let truncated = world.write("truncated", &whole[..whole.len() / 2]);
        let foreign = world.write("foreign", noise(100_000, 7));
        let tree = world.directory("tree");
        fs::write(tree.join("file"), "content").unwrap();
        let volume = world.path("vol.img");
        verimount(args!["volume format", &volume, "--size", "8M"]).succeeds();
        let mut content = fs::read(&volume).unwrap();
        // A block of the disk, near its end.
        let near_end = content.len() - 8192;
        content[near_end] ^= 1;
        let damaged_volume = world.write("damaged.img", content);
        let (public, secret) = world.keys("keys");
        Self {
            missing: world.path("missing"),
            sound,
            damaged,
            truncated,
            foreign,
            tree,
            volume,
            damaged_volume,
            public,
            secret,
            world,
        }
    }
}

fn check_all(table: Vec<(Vec<OsString>, i32)>) {
    for (arguments, code) in table {
        eprintln!("{arguments:?}");
        let ended = verimount(&arguments);
        assert_eq!(ended.status.code(), Some(code), "{ended:?}");
    }
}

#[test]
fn images_and_sealed_files() {
    let files = Files::new();
    let Files {
        world,
        sound,
        damaged,
        truncated,
        foreign,
        missing,
        tree,
        public,
        secret,
        ..
    } = &files;
    let digest = ["--digest", ANOTHER_DIGEST];
    let nowhere = world.path("no/such/folder");
    check_all(vec![
        (args!["verify", sound], 0),
        (args!["verify", damaged], BAD),
        (args!["verify --json", damaged], BAD),
        (args!["verify", truncated], BAD),
        (args!["verify", foreign], BAD),
        (args!["verify", missing], FAILED),
        (args!["verify", sound, digest[0], digest[1]], BAD),
        (args!["verify", sound, "--key", public], BAD),
        (args!["verify", sound, "--key", missing], FAILED),
        (args!["verify", sound, "--digest", "md5:00"], USAGE),
        (args!["verify", sound, "--unverified"], USAGE),
        (args!["ls", sound], 0),
        (args!["ls", sound, "no/such/file"], FAILED),
        (args!["ls", foreign, "--unverified"], BAD),
        (args!["ls", sound, digest[0], digest[1]], BAD),
        (args!["cat", sound, "hello"], 0),
        (args!["cat", sound, "nothing"], FAILED),
        (args!["cat", damaged, "folder/noise"], BAD),
        (args!["extract", damaged, world.path("out")], BAD),
        (args!["extract", sound, &nowhere], FAILED),
        (args!["info", sound], 0),
        (args!["info", foreign], BAD),
        (args!["info", missing], FAILED),
        (args!["digest", sound, missing], FAILED),
        (args!["build", missing, world.path("new")], FAILED),
        (args!["build", tree, &nowhere], FAILED),
        (args!["build", foreign, world.path("new")], BAD),
        (args!["build", tree, foreign], FAILED),
        (args!["seal", missing], FAILED),
        (args!["seal --data-block-size 1K", sound], USAGE),
        (args!["sign", foreign, "--key", secret], BAD),
        (args!["sign", sound, "--key", missing], FAILED),
        (args!["push", damaged, "oci://localhost:1/x:1"], BAD),
        (args!["push", sound, "oci://localhost:1/x:1"], FAILED),
        (args!["push", sound, "oci://localhost:1/x"], USAGE),
        (args!["status", missing], FAILED),
        (args!["umount", tree], FAILED),
        (args!["list"], 0),
        (args!["frobnicate"], USAGE),
    ]);
}

#[test]
fn volumes() {
    let files = Files::new();
    let Files {
        world,
        volume,
        damaged_volume,
        foreign,
        missing,
        ..
    } = &files;
    let truncated = world.write("short.img", &fs::read(volume).unwrap()[..1 << 20]);
    let new = world.path("new.img");
    check_all(vec![
        (args!["volume check", volume], 0),
        (args!["volume check", damaged_volume], BAD),
        (args!["volume check", foreign], BAD),
        (args!["volume check", truncated], BAD),
        (args!["volume check", missing], FAILED),
        (args!["volume check", volume, "--accept", "1"], USAGE),
        (args!["volume info", foreign], BAD),
        (args!["volume format", volume], FAILED),
        (args!["volume format", &new], FAILED),
        (args!["volume format", &new, "--size", "x"], USAGE),
        (args!["volume grow", volume, "--size", "1M"], FAILED),
    ]);
}

#[test]
fn mounts() {
    needs!(fuse_or_skip());
    let files = Files::new();
    let Files {
        world,
        sound,
        foreign,
        tree,
        ..
    } = &files;
    let mnt = world.directory("mnt");
    check_all(vec![
        (args!["mount", sound, &mnt], USAGE),
        (args!["mount", sound, &mnt, "--digest", ANOTHER_DIGEST], BAD),
        (args!["mount", foreign, &mnt, "--unpinned"], BAD),
        (args!["mount", sound, tree, "--unpinned"], FAILED),
        (args!["volume mount", foreign, &mnt], BAD),
    ]);
}

/// mount(8) gives each of its own codes a meaning.
#[test]
fn the_mount_helper_has_the_codes_of_mount() {
    let files = Files::new();
    let mnt = files.world.directory("mnt");
    let end_of = |source: &Path, options: &str| {
        let mut command = User::Current.command();
        let arguments = args![source, &mnt, "-o", options];
        command.args(arguments);
        finish(command).status.code()
    };
    assert_eq!(end_of(&files.missing, "rw,unpinned"), Some(32));
    assert_eq!(end_of(&files.foreign, "rw,unpinned"), Some(32));
    assert_eq!(end_of(&files.sound, "rw,no_such_option"), Some(1));
}
