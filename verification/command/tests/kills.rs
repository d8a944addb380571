//! After any interruption of a command, each file is the old one or the new one, and running the same
//! command again completes the work.

use crate::interrupts::{bytes_read, interrupt, start};
use crate::prelude::*;

/// How many times each command is ended, each time at a random moment.
const ROUNDS: &str = "VERIMOUNT_KILL_ROUNDS";

const SIGNALS: [Signal; 3] = [Signal::HUP, Signal::TERM, Signal::KILL];

/// So much data that the work takes much longer than starting it.
const SIZE: usize = 16 << 20;

/// Ends a command at random moments. Before each time, `prepare` restores the files; afterwards `judge`
/// examines the result, and gets whether the command was killed.
fn end_by_chance(
    command: impl Fn() -> Vec<OsString>,
    prepare: impl Fn(),
    mut judge: impl FnMut(bool),
) {
    let rounds = env::var(ROUNDS).map_or(6, |rounds| rounds.parse().unwrap());
    let mut random = Random::new(seed());
    prepare();
    let begun = Instant::now();
    verimount(command()).succeeds();
    let mut duration = begun.elapsed().as_micros() as usize;
    let mut ended_early = 0;
    for round in 0..rounds {
        prepare();
        let child = start(command());
        // Any moment is one to be tried; which one it is, no result depends on.
        thread::sleep(Duration::from_micros(random.below(duration + 1) as u64));
        let signal = SIGNALS[round % SIGNALS.len()];
        let ended = interrupt(child, signal);
        if ended.status.success() {
            // The machine was busier while the command was timed.
            duration /= 2;
        } else {
            ended_early += 1;
        }
        judge(signal == Signal::KILL);
    }
    eprintln!("{ended_early} of {rounds} came before the end");
    assert!(2 * ended_early >= rounds, "{ended_early} of {rounds}");
}

/// The files in a folder, except temporary ones that a killed command may leave.
fn names(folder: &Path, was_killed: bool) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_temporary = |name: &String| was_killed && name.starts_with(".verimount-");
    let mut names: Vec<_> = names.filter(|name| !is_temporary(name)).collect();
    names.sort();
    names
}

#[test]
fn a_build() {
    let world = World::new();
    let tree = world.directory("tree");
    fs::write(tree.join("file"), noise(SIZE, 1)).unwrap();
    let folder = world.directory("folder");
    let (image, new) = (folder.join("image"), world.path("new"));
    let digest = verimount(args!["build", &tree, &new]).digest();
    let new = fs::read(new).unwrap();
    let old = fs::read(world.sealed_image("old")).unwrap();
    end_by_chance(
        || args!["build", &tree, &image],
        || {
            fs::remove_dir_all(&folder).unwrap();
            fs::create_dir(&folder).unwrap();
            fs::write(&image, &old).unwrap();
        },
        |was_killed| {
            let found = fs::read(&image).unwrap();
            assert!(found == old || found == new, "half an image");
            assert_eq!(names(&folder, was_killed), ["image"]);
            let again = verimount(args!["build", &tree, &image]);
            assert_eq!(again.digest(), digest);
        },
    );
}

#[test]
fn a_seal_beside() {
    let world = World::new();
    let folder = world.directory("folder");
    let (file, sidecar) = (folder.join("file"), folder.join("file.verity"));
    fs::write(&file, "older").unwrap();
    verimount(args!["seal", &file]).succeeds_quietly();
    let old = fs::read(&sidecar).unwrap();
    fs::write(&file, noise(SIZE, 1)).unwrap();
    let digest = verimount(args!["seal", &file]).digest();
    let new = fs::read(&sidecar).unwrap();
    end_by_chance(
        || args!["seal", &file],
        || fs::write(&sidecar, &old).unwrap(),
        |was_killed| {
            let found = fs::read(&sidecar).unwrap();
            assert!(found == old || found == new, "half a seal");
            assert_eq!(names(&folder, was_killed), ["file", "file.verity"]);
            assert_eq!(verimount(args!["seal", &file]).digest(), digest);
        },
    );
}

/// Examines a file whose sealing was interrupted: it is `data`, `sealed`, or recognised as unfinished. Then
/// seals it.
fn is_found_out(file: &Path, data: &[u8], sealed: &[u8]) {
    let seal = || verimount(args!["seal --append", file]);
    let found = fs::read(file).unwrap();
    assert!(found[..data.len()] == *data, "the data was changed");
    if found == sealed {
        seal().fails_saying("sealed already");
        return;
    }
    if found != data {
        let said = "sealing was interrupted";
        verimount(args!["verify", file]).fails_saying(said);
        verimount(args!["ls", file]).fails_saying(said);
        verimount(args!["seal", file]).fails_saying(said);
    }
    seal().succeeds_quietly();
    assert!(fs::read(file).unwrap() == sealed, "it is another seal");
}

#[test]
fn an_appended_seal() {
    let world = World::new();
    let data = noise(SIZE, 1);
    let file = world.write("file", &data);
    verimount(args!["seal --append", &file]).succeeds_quietly();
    let sealed = fs::read(&file).unwrap();
    end_by_chance(
        || args!["seal --append", &file],
        || fs::write(&file, &data).unwrap(),
        |was_killed| {
            if !was_killed {
                let found = fs::read(&file).unwrap();
                assert!(found == data || found == sealed, "it was not cut off");
            }
            is_found_out(&file, &data, &sealed);
        },
    );
}

/// A sparse file with data at both ends, which takes long to read.
fn long_file(world: &World, name: &str) -> (PathBuf, u64) {
    let (path, len) = (world.path(name), 512 << 20);
    let file = File::create(&path).unwrap();
    file.set_len(len).unwrap();
    let content = noise(100_000, 1);
    file.write_all_at(&content, 0).unwrap();
    file.write_all_at(&content, len - 100_000).unwrap();
    (path, len)
}

/// A partial tree after the data is not taken for data, in either format.
#[test]
fn an_append_killed_in_the_middle_is_completed() {
    let world = World::new();
    for format in ["fs-verity", "dm-verity"] {
        let (fresh, len) = long_file(&world, "fresh");
        let seal = |file: &Path| args!["seal --append --format", format, file];
        let first_word = |ended: &Ended| ended.text().split(' ').next().unwrap().to_owned();
        let expected = verimount(seal(&fresh));
        expected.succeeds_quietly();
        let (file, _) = long_file(&world, "file");
        let child = start(seal(&file));
        eventually("it has begun", || bytes_read(&child) > 64 << 20);
        let killed = interrupt(child, Signal::KILL);
        assert!(!killed.status.success(), "it came to its end first");
        let left = fs::metadata(&file).unwrap().len();
        assert!(left > len, "there is nothing behind the data");
        let again = verimount(seal(&file));
        again.succeeds_quietly();
        assert_eq!(first_word(&again), first_word(&expected), "{again:?}");
        let note = format!("the seal of its {len} bytes of data");
        again.notes(&note);
        assert!(
            end_of(&file) == end_of(&fresh),
            "{format}: it is another seal"
        );
    }
}

/// A file's length, and more of its end than a seal has.
fn end_of(path: &Path) -> (u64, Vec<u8>) {
    let len = fs::metadata(path).unwrap().len();
    let mut end = vec![0; 8 << 20];
    let at = len - end.len() as u64;
    File::open(path)
        .unwrap()
        .read_exact_at(&mut end, at)
        .unwrap();
    (len, end)
}

/// Two processes at once would truncate each other's writes.
#[test]
fn only_one_at_a_time_changes_a_file() {
    let world = World::new();
    let (file, _) = long_file(&world, "file");
    let child = start(args!["seal --append", &file]);
    eventually("it has begun", || bytes_read(&child) > 1 << 20);
    verimount(args!["seal --append", &file]).fails_saying("in use");
    interrupt(child, Signal::TERM).is_interrupted_by(Signal::TERM);
}

#[test]
fn a_signature() {
    let world = World::new();
    let (old_public, old_secret) = world.keys("old");
    let (new_public, new_secret) = world.keys("new");
    let appended = world.sealed_image("appended");
    let beside = world.image_with_sidecar("beside");
    for (image, holder) in [
        (&appended, appended.clone()),
        (&beside, world.path("beside.verity")),
    ] {
        let sign = |secret: &Path| args!["sign", image, "--key", secret];
        verimount(sign(&old_secret)).succeeds_quietly();
        let old = fs::read(&holder).unwrap();
        let is_signed_by = |public: &Path| {
            let verified = verimount(args!["verify", image, "--key", public]);
            verified.status.success()
        };
        end_by_chance(
            || sign(&new_secret),
            || fs::write(&holder, &old).unwrap(),
            |_| {
                assert!(is_signed_by(&old_public) != is_signed_by(&new_public));
                verimount(sign(&new_secret)).succeeds_quietly();
                assert!(is_signed_by(&new_public));
            },
        );
    }
}

/// Whether there is a volume whose blocks all match their tags.
fn is_volume(path: &Path) -> bool {
    let info = verimount(args!["volume info", path]);
    if info.status.success() {
        verimount(args!["volume check", path]).succeeds_quietly();
        true
    } else {
        info.fails_saying("dm-integrity");
        false
    }
}

#[test]
fn a_new_volume() {
    let world = World::new();
    let folder = world.directory("folder");
    let path = folder.join("vol.img");
    let format = || {
        args![
            "volume format",
            &path,
            "--size",
            "256M",
            "--sector-size",
            "512"
        ]
    };
    end_by_chance(
        format,
        || drop(fs::remove_file(&path)),
        |was_killed| {
            if path.exists() {
                assert!(is_volume(&path));
            } else {
                assert!(names(&folder, was_killed).is_empty());
                verimount(format()).succeeds();
            }
        },
    );
}

/// Over a volume and over another file.
#[test]
fn a_volume_made_again() {
    let world = World::new();
    let volume = world.path("volume");
    let old = args![
        "volume format",
        &volume,
        "--size",
        "16M",
        "--integrity",
        "sha256"
    ];
    verimount(old).succeeds();
    let volume = fs::read(volume).unwrap();
    for old in [volume, noise(16 << 20, 1)] {
        let path = world.path("vol.img");
        let format = || args!["volume format", &path, "--force", "--sector-size", "512"];
        end_by_chance(
            format,
            || fs::write(&path, &old).unwrap(),
            |_| {
                let is_old = fs::read(&path).unwrap() == old;
                assert!(is_old || is_no_volume_or_new(&path));
                verimount(format()).succeeds();
                assert!(is_volume(&path));
            },
        );
    }
}

fn is_no_volume_or_new(path: &Path) -> bool {
    let info = verimount(args!["volume info", path]);
    !info.status.success() || is_volume(path)
}

#[test]
fn a_growth() {
    let world = World::new();
    let path = world.path("vol.img");
    let format = ["--size", "16M", "--sector-size", "512"];
    let grow = || args!["volume grow", &path, "--size", "128M"];
    let size = || {
        let info = verimount(args!["volume info --json", &path]);
        let info: serde_json::Value = info.succeeds().json();
        info["size"].as_u64().unwrap()
    };
    let make = || {
        let _ = fs::remove_file(&path);
        verimount([args!["volume format", &path], format.map(Into::into).into()].concat())
            .succeeds();
    };
    make();
    let old = size();
    verimount(grow()).succeeds();
    let new = size();
    end_by_chance(grow, make, |_| {
        assert!([old, new].contains(&size()));
        assert!(is_volume(&path));
        verimount(grow()).succeeds();
        assert_eq!(size(), new);
        assert!(is_volume(&path));
    });
}
