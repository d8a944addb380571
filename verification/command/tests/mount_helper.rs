//! mount(8) and fstab, in separate namespaces, so that the machine is not changed.

use crate::prelude::*;

/// The beginning of every script: it has copies of the system's directories that it changes. Everything
/// that it starts ends with it.
const PREAMBLE: &str = r#"set -eu
mount -t tmpfs own "$OWN"
# Where mount(8) notes what the kernel does not.
mount -t tmpfs own /run
own() {
    mkdir -p "$OWN/$1/upper" "$OWN/$1/work"
    mount -t overlay own "$2" -o "lowerdir=$2,upperdir=$OWN/$1/upper,workdir=$OWN/$1/work"
}
own sbin "$(readlink -f /sbin)"
own etc /etc
rm -f /sbin/mount.fuse.verimount
cp fstab /etc/fstab
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@"; }
code() { set +e; "$@"; echo "code $?"; set -e; }
"#;

/// The link by which mount(8) finds the helper.
const LINK: &str = r#"ln -s "$VERIMOUNT" /sbin/mount.fuse.verimount
"#;

/// A world with an image, a sealed file, a directory and a volume, and the digests of the first two.
struct Machine {
    world: World,
    image: String,
    file: String,
    program: PathBuf,
}

impl Machine {
    /// `None`, after a note, if it is impossible here.
    fn new() -> Option<Self> {
        if !root_or_skip() || !fuse_or_skip() || tools::find("unshare").is_none() {
            return None;
        }
        // As udev sets it; a machine without udev leaves it to root.
        fs::set_permissions("/dev/fuse", Permissions::from_mode(0o666)).unwrap();
        let world = World::new();
        let tree = world.directory("tree");
        fs::write(tree.join("hello"), "from the image\n").unwrap();
        let image = verimount(args!["build", &tree, world.path("app.img")]).digest();
        let data = world.write("data", "from the file\n");
        let file = verimount(args!["seal", &data]).digest();
        verimount(args!["volume format", world.path("volume"), "--size", "4M"]).succeeds();
        for name in ["own", "m1", "m2", "m3", "m4"] {
            world.directory(name);
        }
        // The user's own.
        User::ordinary(&world).own(&world.directory("home"));
        let program = reachable_copy(&binary(), &world);
        Some(Self {
            world,
            image,
            file,
            program,
        })
    }

    /// Runs a script with this fstab, in which `WORLD`, `IMAGE` and `FILE` stand for the world's path and
    /// the digests.
    fn run(&self, fstab: &str, script: &str) -> Ended {
        let root = self.world.root().to_str().unwrap();
        let fstab = fstab.replace("WORLD", root);
        let fstab = fstab
            .replace("IMAGE", &self.image)
            .replace("FILE", &self.file);
        self.world.write("fstab", fstab);
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        unshare.args(["sh", "-c", &format!("{PREAMBLE}{script}")]);
        unshare.current_dir(root).env("OWN", self.world.path("own"));
        unshare.env("VERIMOUNT", &self.program);
        finish(unshare)
    }
}

/// The lines that a script has printed.
fn lines(ended: &Ended) -> Vec<&str> {
    ended.succeeds().text().lines().collect()
}

#[test]
fn mount_a_mounts_everything_in_fstab() {
    let machine = needs!(Machine::new());
    let fstab = "\
WORLD/app.img WORLD/m1 fuse.verimount ro,digest=IMAGE,allow_other,nofail,x-test=1 0 0
WORLD/data    WORLD/m2 fuse.verimount digest=FILE,uid=4711,umask=077,noatime 0 0
WORLD/tree    WORLD/m3 fuse.verimount ro,passthrough=never,_netdev 0 0
WORLD/volume  WORLD/m4 fuse.verimount volume,mode=bitmap,noauto 0 0
";
    let script = r#"
mount -a -T fstab
cat m1/hello m2/data m3/hello; stat -c '%u %a' m2/data
! echo changed 2>/dev/null >m3/hello
mountpoint -q m4 || echo not mounted
mount m4; stat -c %s m4/disk
mount -a
umount m1 m2 m3 m4
mount -a; cat m1/hello
umount m1 m2 m3
mountpoint -q m1 || echo ended
"#;
    let ended = machine.run(fstab, &format!("{LINK}{script}"));
    let lines = lines(&ended);
    let (size, others) = (lines[5], [&lines[..5], &lines[6..]].concat());
    assert!(size.parse::<u64>().unwrap() > 3 << 20, "{size}");
    let expected = [
        "from the image",
        "from the file",
        "from the image",
        "4711 600",
        "not mounted",
        "from the image",
        "ended",
    ];
    assert_eq!(others, expected);
    // mount(8) says nothing when all is well.
    assert_eq!(ended.stderr, "");
}

/// The mount table has another source, which leads to nothing in this PID namespace.
#[test]
fn mount_a_mounts_natively_once() {
    needs!(native_or_skip());
    let machine = needs!(Machine::new());
    let fstab = "WORLD/app.img WORLD/m1 fuse.verimount digest=IMAGE,allow_other,native 0 0\n";
    let script = r#"
mount -a; mount -a
findmnt -n -o FSTYPE m1
cat m1/hello
as_nobody cat m1/hello
"$VERIMOUNT" status m1 | grep -c "^source .*app.img"
umount m1
mountpoint -q m1 || echo ended
"#;
    let ended = machine.run(fstab, &format!("{LINK}{script}"));
    let expected = ["erofs", "from the image", "from the image", "1", "ended"];
    assert_eq!(lines(&ended), expected);
    assert_eq!(ended.stderr, "");
}

#[test]
fn a_user_mounts_and_unmounts_what_fstab_allows() {
    let machine = needs!(Machine::new());
    needs!(tools::find("fusermount3"));
    let fstab = "WORLD/app.img WORLD/home fuse.verimount user,noauto,digest=IMAGE 0 0\n";
    let script = r#"
as_nobody mount home
as_nobody cat home/hello
as_nobody stat -c '%u %g %a' home/hello
findmnt -n -o OPTIONS home | tr , '\n' | grep -x -e ro -e noexec -e nosuid -e nodev | sort
as_nobody umount home
mountpoint -q home || echo ended
"#;
    let ended = machine.run(fstab, &format!("{LINK}{script}"));
    let expected = [
        "from the image",
        "0 0 644",
        "nodev",
        "noexec",
        "nosuid",
        "ro",
        "ended",
    ];
    assert_eq!(lines(&ended), expected);
    assert_eq!(ended.stderr, "");
}

/// `fuse3` has a helper for all types `fuse.NAME`, which runs the program NAME.
#[test]
fn mount_fuse3_is_a_helper_as_well() {
    let machine = needs!(Machine::new());
    needs!(tools::find("mount.fuse3"));
    let fstab = "WORLD/app.img WORLD/m1 fuse.verimount digest=IMAGE 0 0\n";
    let script = r#"
ln -s "$VERIMOUNT" /sbin/verimount
mount -a; cat m1/hello
umount m1
code mount -t fuse.verimount app.img m1 -o digest=sha256:00
"#;
    let ended = machine.run(fstab, script);
    assert_eq!(lines(&ended), ["from the image", "code 1"]);
}

/// mount(8) prints what is wrong, and its exit code tells the kind of error.
#[test]
fn mistakes_are_reported_by_mount() {
    let machine = needs!(Machine::new());
    let wrong = format!("sha256:{}", "0".repeat(64));
    let mistakes = [
        (1, "app.img", "unpinned,diggest=x", "diggest, is unknown"),
        (1, "app.img", "digest=sha256:00", "--digest"),
        (1, "app.img", "unpinned=yes", "--unpinned"),
        (
            1,
            "app.img",
            "nofail",
            "without knowing which content to trust",
        ),
        (
            1,
            "tree",
            "unpinned",
            "unpinned, is unknown: verimount bridge",
        ),
        (
            1,
            "volume",
            "volume,uid=1",
            "uid, is unknown: verimount volume mount",
        ),
        (1, "app.img", "unpinned,remount", "remount, is unknown"),
        (32, "app.img", &format!("digest={wrong}"), "digest"),
        (32, "missing", "unpinned", "missing: No such file"),
        (32, "volume", "unpinned", "no seal"),
    ];
    for (code, source, options, words) in mistakes {
        let script = format!("{LINK}code mount -t fuse.verimount {source} m1 -o {options}");
        let ended = machine.run("", &script);
        assert_eq!(lines(&ended), [format!("code {code}")], "{ended:?}");
        assert!(ended.stderr.contains(words), "no {words:?} in {ended:?}");
    }
}

/// As mount(8) knows them: -f mounts nothing, -s ignores unknown options, -v says more.
#[test]
fn flags_of_mount() {
    let machine = needs!(Machine::new());
    let script = r#"
mount -f -t fuse.verimount app.img m1 -o unpinned
mountpoint -q m1 || echo nothing
code mount -f -t fuse.verimount app.img m1 -o what
mount -s -v -t fuse.verimount app.img m1 -o unpinned,what
cat m1/hello
umount m1
code mount.fuse.verimount app.img m1 -N /proc/self/ns/mnt -o unpinned
"#;
    let ended = machine.run("", &format!("{LINK}{script}"));
    assert_eq!(
        lines(&ended),
        ["nothing", "code 1", "from the image", "code 1"]
    );
    ended.notes("app.img on ");
    ended.notes("nsenter");
}

/// As in a container without devices.
#[test]
fn a_missing_device_is_named() {
    let machine = needs!(Machine::new());
    let script = r#"
mount -t tmpfs own /dev
mknod /dev/null c 1 3
code mount -t fuse.verimount app.img m1 -o unpinned
"#;
    let ended = machine.run("", &format!("{LINK}{script}"));
    assert_eq!(lines(&ended), ["code 32"]);
    ended.notes("/dev/fuse: No such file");
    ended.notes("kernel module fuse");
}

#[test]
fn the_helper_has_help() {
    let world = World::new();
    let link = world.path("mount.fuse.verimount");
    symlink(binary(), &link).unwrap();
    let mut help = Command::new(&link);
    help.arg("--help");
    let help = finish(help);
    let text = help.succeeds_quietly().text();
    assert!(
        text.contains("SOURCE") && text.contains("-o <OPTIONS>"),
        "{text}"
    );
}
