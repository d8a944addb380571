//! Bad input for every subcommand: it must print one line with the reason, exit with the right code, and
//! change nothing.

use rustix::fs::FileType;
use verimount_names::printable;

use crate::common::world::small_sealed_len;
use crate::prelude::*;

/// A subcommand with the arguments to read a file in a world that was [`prepared`].
type Subcommand = fn(&World, source: &Path, trust: &[&str]) -> Vec<OsString>;

/// Further arguments that subcommands need.
fn prepared() -> World {
    let world = World::new();
    world.keys("signer");
    world.directory("mount point");
    world
}

mod subcommand {
    use super::*;

    pub(super) fn seal(_: &World, source: &Path, _: &[&str]) -> Vec<OsString> {
        args!["seal", source]
    }

    pub(super) fn seal_append(_: &World, source: &Path, _: &[&str]) -> Vec<OsString> {
        args!["seal --append", source]
    }

    pub(super) fn digest(_: &World, source: &Path, _: &[&str]) -> Vec<OsString> {
        args!["digest", source]
    }

    pub(super) fn sign(world: &World, source: &Path, _: &[&str]) -> Vec<OsString> {
        args!["sign", source, "--key", world.path("signer.key")]
    }

    pub(super) fn verify(_: &World, source: &Path, trust: &[&str]) -> Vec<OsString> {
        trusting(args!["verify", source], trust)
    }

    pub(super) fn ls(_: &World, source: &Path, trust: &[&str]) -> Vec<OsString> {
        trusting(args!["ls", source], trust)
    }

    pub(super) fn cat(_: &World, source: &Path, trust: &[&str]) -> Vec<OsString> {
        trusting(args!["cat", source, HELLO], trust)
    }

    pub(super) fn extract(world: &World, source: &Path, trust: &[&str]) -> Vec<OsString> {
        trusting(args!["extract", source, world.path("new folder")], trust)
    }

    pub(super) fn mount(world: &World, source: &Path, trust: &[&str]) -> Vec<OsString> {
        trusting(args!["mount", source, world.path("mount point")], trust)
    }

    fn trusting(mut arguments: Vec<OsString>, trust: &[&str]) -> Vec<OsString> {
        arguments.extend(trust.iter().map(OsString::from));
        arguments
    }
}

/// Makes one test of a check for each of these subcommands.
macro_rules! each {
    ($check:ident: $($subcommand:ident)+) => {
        mod $check {
            $(
                #[test]
                fn $subcommand() {
                    let world = super::prepared();
                    super::checks::$check(&world, super::subcommand::$subcommand);
                }
            )+
        }
    };
}

each!(of_nothing: seal seal_append digest sign verify ls cat extract mount);
each!(of_a_directory: seal seal_append digest sign verify ls cat extract mount);
each!(of_a_fifo: seal seal_append digest sign verify ls cat extract mount);
each!(of_a_device: seal seal_append digest sign verify ls cat extract mount);
each!(of_what_cannot_be_read: seal seal_append digest sign verify ls cat extract mount);
each!(of_what_is_not_sealed: sign verify ls cat extract mount);
each!(of_a_truncated_file: sign verify ls cat extract mount);
each!(of_a_truncated_sidecar: sign verify ls cat extract mount);
each!(of_random_bytes: sign verify ls cat extract mount);
each!(of_random_descriptors: sign verify ls cat extract mount);
each!(of_another_files_sidecar: verify ls cat extract mount);
each!(of_a_sidecar_for_other_sizes: sign verify ls cat extract mount);
each!(with_a_wrong_digest: verify ls cat extract mount);
each!(with_a_wrong_key: verify ls cat extract mount);
each!(with_what_is_no_key: verify ls cat extract mount);
each!(without_a_signature: verify ls cat extract mount);
each!(of_what_is_no_image: ls cat extract);
each!(unverified: ls cat extract mount);

mod checks {
    use super::*;

    /// Runs it, and asserts that it changes nothing.
    #[track_caller]
    fn attempt(world: &World, subcommand: Subcommand, source: &Path, trust: &[&str]) -> Ended {
        world.unchanged_by(|| verimount(subcommand(world, source, trust)))
    }

    #[track_caller]
    fn fails(world: &World, subcommand: Subcommand, source: &Path) {
        attempt(world, subcommand, source, &["--unpinned"]).fails();
    }

    pub(super) fn of_nothing(world: &World, subcommand: Subcommand) {
        for path in ["missing", "missing/too", "signer.pub/inside"] {
            let path = world.path(path);
            attempt(world, subcommand, &path, &["--unpinned"]).fails_saying(path.to_str().unwrap());
        }
        let empty = Path::new("");
        attempt(world, subcommand, empty, &["--unpinned"]).is_wrong_usage();
    }

    pub(super) fn of_a_directory(world: &World, subcommand: Subcommand) {
        let folder = world.directory("folder");
        attempt(world, subcommand, &folder, &["--unpinned"]).fails_saying("directory");
    }

    /// It has no writer: opening it like a file would wait for ever.
    pub(super) fn of_a_fifo(world: &World, subcommand: Subcommand) {
        let fifo = world.path("fifo");
        let mode = Mode::from_raw_mode(0o600);
        mknodat(CWD, &fifo, FileType::Fifo, mode, 0).unwrap();
        fails(world, subcommand, &fifo);
        // Nor must a sidecar be one.
        let image = world.plain_image("image");
        fs::rename(&fifo, world.path("image.verity")).unwrap();
        if !subcommand(world, &image, &[])[0]
            .to_str()
            .unwrap()
            .starts_with(['s', 'd'])
        {
            fails(world, subcommand, &image);
        }
    }

    /// It has no end.
    pub(super) fn of_a_device(world: &World, subcommand: Subcommand) {
        for device in ["/dev/zero", "/dev/null"] {
            fails(world, subcommand, Path::new(device));
        }
    }

    pub(super) fn of_what_cannot_be_read(world: &World, subcommand: Subcommand) {
        let image = world.sealed_image("image");
        fs::set_permissions(&image, fs::Permissions::from_mode(0o000)).unwrap();
        let user = User::ordinary(world);
        user.own(&world.path("mount point"));
        user.own(world.root());
        world
            .unchanged_by(|| verimount_as(&user, subcommand(world, &image, &["--unpinned"])))
            .fails_saying("ermission denied");
    }

    pub(super) fn of_what_is_not_sealed(world: &World, subcommand: Subcommand) {
        let contents = [
            ("an image", fs::read(world.plain_image("image")).unwrap()),
            ("nothing", Vec::new()),
            ("a byte", vec![b'x']),
            ("text", b"text\n".repeat(1000)),
            ("zeros", vec![0; 8192]),
        ];
        for (name, content) in contents {
            let path = world.write(name, content);
            attempt(world, subcommand, &path, &["--unpinned"]).fails_saying("no seal");
        }
    }

    pub(super) fn of_a_truncated_file(world: &World, subcommand: Subcommand) {
        let whole = fs::read(world.sealed_image("whole")).unwrap();
        for len in lengths(whole.len()) {
            let path = world.write("truncated", &whole[..len]);
            fails(world, subcommand, &path);
        }
    }

    pub(super) fn of_a_truncated_sidecar(world: &World, subcommand: Subcommand) {
        let image = world.image_with_sidecar("image");
        let sidecar = world.path("image.verity");
        let whole = fs::read(&sidecar).unwrap();
        for len in lengths(whole.len()) {
            fs::write(&sidecar, &whole[..len]).unwrap();
            fails(world, subcommand, &image);
        }
    }

    /// Truncations around every block boundary, and some at random.
    fn lengths(whole: usize) -> Vec<usize> {
        let edges = (0..=whole).step_by(4096).flat_map(|edge| {
            [
                edge.saturating_sub(4),
                edge.saturating_sub(1),
                edge,
                edge + 1,
                edge + 256,
            ]
        });
        let random = random_numbers(20, whole as u64, seed());
        let random = random.into_iter().map(|len| len as usize);
        let shorter = edges.chain(random).filter(|&len| len < whole);
        all_or_some(shorter.collect(), seed())
    }

    pub(super) fn of_random_bytes(world: &World, subcommand: Subcommand) {
        let seed = seed();
        for (number, len) in (0..).zip([2, 3, 4, 100, 4095, 4096, 8192, 70_000, 65_536 + 8192]) {
            let path = world.write("random", noise(len, seed ^ number));
            fails(world, subcommand, &path);
        }
    }

    /// Files that are marked as seals, and otherwise random.
    pub(super) fn of_random_descriptors(world: &World, subcommand: Subcommand) {
        let seed = seed();
        for number in 0..24 {
            let mut bytes = noise(12_288, seed ^ number);
            let size: u32 = if number % 2 == 0 { 256 } else { 300 };
            bytes.splice(12_284.., size.to_le_bytes());
            let descriptor = &mut bytes[8192..];
            // Version 1, SHA-256 or SHA-512, 2^10 to 2^16 bytes a block, and so on: each time one
            // more field is as it should be.
            let fields: [(usize, &[u8]); 6] = [
                (0, &[1]),
                (1, &[1 + (number % 2) as u8]),
                (2, &[10 + (number % 7) as u8]),
                (3, &[0]),
                (4, &(size - 256).to_le_bytes()),
                (48, &[0; 208]),
            ];
            for (at, value) in fields.iter().take(1 + number as usize / 4) {
                descriptor[*at..at + value.len()].copy_from_slice(value);
            }
            let path = world.write("random", bytes);
            fails(world, subcommand, &path);
        }
    }

    /// Other data of the same size, so that only the hashes differ.
    pub(super) fn of_another_files_sidecar(world: &World, subcommand: Subcommand) {
        let image = world.image_with_sidecar("image");
        let digest = verimount(args!["digest", &image]).digest();
        let len = fs::metadata(&image).unwrap().len() as usize;
        let other = world.write("other", noise(len, 7));
        verimount(args!["seal", &other]).succeeds_quietly();
        fs::copy(world.path("other.verity"), world.path("image.verity")).unwrap();
        attempt(world, subcommand, &image, &["--digest", &digest]).fails_saying("its digest is");
        // Taken as it is, it vouches for nothing that is there.
        if subcommand(world, &image, &[])[0] == "verify" {
            let ended = attempt(world, subcommand, &image, &["--unpinned"]);
            ended.reports_bad_data();
        } else {
            attempt(world, subcommand, &image, &["--unpinned"]).fails();
        }
    }

    pub(super) fn of_a_sidecar_for_other_sizes(world: &World, subcommand: Subcommand) {
        for len in [0, 1, 4096, 1_000_000] {
            let image = world.plain_image("image");
            let other = world.write("other", vec![0; len]);
            verimount(args!["seal", &other]).succeeds_quietly();
            fs::rename(world.path("other.verity"), world.path("image.verity")).unwrap();
            attempt(world, subcommand, &image, &["--unpinned"]).fails_saying("bytes");
        }
    }

    pub(super) fn with_a_wrong_digest(world: &World, subcommand: Subcommand) {
        const EMPTY: &str =
            "sha256:3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95";
        let wide = format!("sha512:{}", "0".repeat(128));
        let appended = world.sealed_image("appended");
        let beside = world.image_with_sidecar("beside");
        for image in [&appended, &beside] {
            for digest in [EMPTY, &wide] {
                let ended = attempt(world, subcommand, image, &["--digest", digest]);
                ended
                    .fails_saying("its digest is sha256:")
                    .fails_saying(digest);
            }
        }
    }

    pub(super) fn with_a_wrong_key(world: &World, subcommand: Subcommand) {
        let image = signed_image(world);
        let (other, _) = world.keys("other");
        let ended = attempt(
            world,
            subcommand,
            &image,
            &["--key", other.to_str().unwrap()],
        );
        ended.fails_saying("signature is not valid");
        // And none of the same key over another file.
        let mut bytes = fs::read(&image).unwrap();
        let descriptor = bytes.len() - 4096;
        bytes[descriptor + 16] ^= 1;
        let other = world.write("other image", bytes);
        let key = world.path("signer.pub");
        let ended = attempt(world, subcommand, &other, &["--key", key.to_str().unwrap()]);
        ended.fails_saying("signature is not valid");
    }

    pub(super) fn with_what_is_no_key(world: &World, subcommand: Subcommand) {
        let image = signed_image(world);
        let folder = world.directory("folder");
        let secret = world.path("signer.key");
        let cut = fs::read(world.path("signer.pub")).unwrap();
        let cut = world.write("cut.pub", &cut[..cut.len() / 2]);
        let noise = world.write("noise", noise(1000, 3));
        let paths: [PathBuf; 6] = [
            "".into(),
            "no such file, nor a key".into(),
            folder,
            secret,
            cut,
            noise,
        ];
        for key in paths.iter().map(|path| path.to_str().unwrap()) {
            attempt(world, subcommand, &image, &["--key", key]).fails();
        }
        // Without an end, so that it must not be read to it.
        attempt(world, subcommand, &image, &["--key", "/dev/zero"]).fails();
    }

    pub(super) fn without_a_signature(world: &World, subcommand: Subcommand) {
        let key = world.path("signer.pub");
        let trust = ["--key", key.to_str().unwrap()];
        let image = world.sealed_image("image");
        attempt(world, subcommand, &image, &trust).fails_saying("not signed");
        let image = world.image_with_sidecar("beside");
        attempt(world, subcommand, &image, &trust).fails_saying("not signed");
    }

    fn signed_image(world: &World) -> PathBuf {
        let image = world.sealed_image("image");
        verimount(subcommand::sign(world, &image, &[])).succeeds_quietly();
        image
    }

    pub(super) fn of_what_is_no_image(world: &World, subcommand: Subcommand) {
        for (name, content) in [
            ("empty", &b""[..]),
            ("text", b"text"),
            ("magic", b"-rom1fs-"),
        ] {
            let file = world.write(name, content);
            verimount(args!["seal", &file]).succeeds_quietly();
            let ended = attempt(world, subcommand, &file, &["--unpinned"]);
            ended.fails_saying("is not an image");
        }
    }

    /// Without verification, the only protection is that contradictions are refused.
    pub(super) fn unverified(world: &World, subcommand: Subcommand) {
        let whole = fs::read(world.plain_image("whole")).unwrap();
        // With less than a superblock it is not an image, but a file that can be mounted.
        for len in [1152, 1536, 2048, 4096, whole.len() / 2] {
            let path = world.write("truncated", &whole[..len]);
            attempt(world, subcommand, &path, &["--unverified"]).fails();
        }
    }
}

#[test]
fn sealing_twice_is_refused() {
    let world = World::new();
    for len in [0, 1, 4096, 70_000] {
        let file = world.write("file", noise(len, 5));
        verimount(args!["seal --append", &file]).succeeds_quietly();
        let again = world.unchanged_by(|| verimount(args!["seal --append", &file]));
        again.fails_saying("sealed already");
    }
}

/// A seal beside a file is replaced: `seal` then means that the file has intentionally changed.
#[test]
fn a_sidecar_is_replaced_by_the_same() {
    let world = World::new();
    let file = world.write("file", noise(70_000, 5));
    let first = verimount(args!["seal", &file]).digest();
    let second = world
        .unchanged_by(|| verimount(args!["seal", &file]))
        .digest();
    assert_eq!(first, second);
    world.write("file", noise(70_000, 6));
    verimount(args!["verify", &file]).reports_bad_data();
    assert_ne!(verimount(args!["seal", &file]).digest(), first);
    verimount(args!["verify", &file]).succeeds_quietly();
}

#[test]
fn a_mount_without_a_reason_to_trust_says_what_to_do() {
    let world = prepared();
    let image = world.sealed_image("image");
    let ended = verimount(subcommand::mount(&world, &image, &[]));
    ended.is_wrong_usage();
    ended.notes("--digest, --root-hash or --key");
    if fuse_or_skip() {
        let mounted = verimount(subcommand::mount(&world, &image, &["--unpinned"]));
        mounted.succeeds();
    }
}

/// Unpinned reading detects damage, and the user must know that it does not detect forgery.
#[test]
fn unpinned_reading_is_announced() {
    let world = World::new();
    let image = world.sealed_image("image");
    let digest = verimount(args!["seal", &image]).digest();
    let copy = world.path("copy");
    for subcommand in ["ls", "cat", "extract", "verify"] {
        let read = |options: &[&str]| {
            let mut arguments = args![subcommand, &image];
            match subcommand {
                "cat" => arguments.push(HELLO.into()),
                "extract" => arguments.push(copy.clone().into()),
                _ => {}
            }
            arguments.extend(options.iter().map(Into::into));
            let _ = fs::remove_dir_all(&copy);
            verimount(arguments)
        };
        let ended = read(&[]);
        ended.succeeds_quietly();
        let note = format!("note: {} is checked only against", printable(&image));
        assert!(ended.stderr.starts_with(&note), "{ended:?}");
        ended.notes("sha256:");
        assert_eq!(read(&["--unpinned"]).succeeds().stderr, "");
        let sidecar = world.path("image.verity");
        let pinned = ["--digest", &digest, "--sidecar", sidecar.to_str().unwrap()];
        assert_eq!(read(&pinned).succeeds().stderr, "");
    }
}

/// Advice to seal a truncated file would make it look complete later.
#[test]
fn truncated_files_are_called_truncated() {
    let world = World::new();
    let sealed = fs::read(world.sealed_image("image")).unwrap();
    let half = world.write("half", &sealed[..40_000]);
    for subcommand in ["ls", "verify"] {
        let ended = verimount(args![subcommand, &half]);
        ended.fails_saying("half: truncated EROFS image: 40000 bytes instead of at least ");
    }
    // Where nothing says how long it was, it may be whole.
    let other = world.write("other", &sealed[1..40_000]);
    verimount(args!["verify", &other]).fails_saying("if it is complete, seal it");

    let file = world.write("file", noise(70_000, 6));
    verimount(args!["seal", &file]).succeeds_quietly();
    for (len, words) in [
        (
            69_999,
            "file is truncated: it has 69999 bytes, but 70000 according to its seal",
        ),
        (
            70_001,
            "file was changed: it has 70001 bytes, but 70000 according to its seal",
        ),
    ] {
        world.write("file", noise(len, 6));
        verimount(args!["verify", &file]).fails_saying(words);
    }
}

/// The other tests would not notice if the small image were too small for a tree.
#[test]
fn the_small_image_has_data_tree_and_descriptor() {
    assert!(small_sealed_len() > 65_536 + 4096 + 4096);
}
