//! Images and files in an object store.

use std::sync::atomic::Ordering::SeqCst;

use crate::common::object_store::{KEY, ObjectStore, WRONG};
use crate::prelude::*;

/// The size of the file that is read while servers are killed, in MiB.
const SIZE: &str = "VERIMOUNT_OBJECT_MIB";

/// Makes one test of each of these checks, with a store of this engine.
macro_rules! with {
    ($engine:ident: $($check:ident)+) => {
        mod $engine {
            $(
                #[test]
                fn $check() {
                    let world = verimount_testkit::needs!(verimount_testkit::World::with_mount_point());
                    if let Some(store) = crate::common::$engine::start(&world) {
                        super::$check(&world, store);
                    }
                }
            )+
        }
    };
}

with!(seaweedfs:
    what_is_pushed_is_read_by_every_command
    a_sidecar_is_stored_beside_the_object
    readers_outlive_servers_that_are_killed
    a_store_that_stays_away_fails_reads_and_nothing_else
);

with!(garage:
    what_is_pushed_is_read_by_every_command
    a_sidecar_is_stored_beside_the_object
    readers_outlive_servers_that_are_killed
    a_store_that_stays_away_fails_reads_and_nothing_else
);

fn what_is_pushed_is_read_by_every_command(world: &World, store: ObjectStore) {
    let (tree, mnt, image) = (
        world.directory("tree"),
        world.path("mnt"),
        world.path("image"),
    );
    create(&tree, false);
    let digest = verimount(args!["build", &tree, &image]).digest();
    let object = store.object("folder/image 1");
    let pushed = store.verimount(args!["push", &image, &object]);
    assert_eq!(pushed.digest(), digest);
    assert_eq!(pushed.text(), format!("{digest} {object}\n"));
    for command in ["verify", "ls"] {
        let here = verimount(args![command, &image, "--digest", &digest]);
        let there = store.verimount(args![command, &object, "--digest", &digest]);
        there.succeeds_quietly();
        let expected = here.text().replace(image.to_str().unwrap(), &object);
        assert_eq!(there.text(), expected);
    }
    let info = store.verimount(args!["info", &object]);
    info.succeeds().says(&digest);
    let copy = world.path("copy");
    store
        .verimount(args!["extract", &object, &copy, "--digest", &digest])
        .succeeds_quietly();
    assert_same(&snapshot(&copy).unwrap(), &snapshot(&tree).unwrap());

    let user = User::ordinary(world);
    user.own(&mnt);
    let command = store.command(&user, KEY);
    let options = ["--digest", &digest];
    let mounted = Daemon::start(command, Path::new(&object), &mnt, &options).unwrap();
    let mut status = user.command();
    status.args(args!["status", &mnt]);
    let status = finish(status);
    status.succeeds().says(&object);
    let log = mounted.unmount();

    let as_with = |key, arguments| {
        let mut command = store.command(&User::Current, key);
        command.args::<Vec<_>, _>(arguments);
        finish(command)
    };
    let wrong = as_with(WRONG, args!["ls", &object, "--digest", &digest]);
    wrong.fails_saying("S3 does not allow it (status 403): check the credentials");
    let wrong_push = as_with(WRONG, args!["push", &image, store.object("other")]);
    wrong_push.fails_saying("S3 does not allow it (status 403)");
    let missing = store.verimount(args!["ls", store.object("missing"), "--unpinned"]);
    missing.fails_saying("no such file (status 404)");
    let outputs = [info, pushed, wrong, wrong_push, missing].map(|ended| format!("{ended:?}"));
    for output in outputs.iter().chain([&log]) {
        // The variables that a command has been given are part of its description.
        let said = output.lines().skip(1).collect::<String>();
        for secret in [KEY[1], WRONG[1], "X-Amz", "Signature"] {
            assert!(!said.contains(secret), "{output}");
        }
    }
}

fn a_sidecar_is_stored_beside_the_object(world: &World, store: ObjectStore) {
    let image = world.image_with_sidecar("image");
    let object = store.object("image");
    store.verimount(args!["push", &image, &object]).succeeds();
    let cat = store.verimount(args!["cat", &object, HELLO]);
    assert_eq!(cat.succeeds().text(), "Hello, world!\n");
    let seal = store.object("image.verity");
    let elsewhere = store.verimount(args!["cat", &object, HELLO, "--sidecar", &seal]);
    assert_eq!(elsewhere.succeeds().text(), "Hello, world!\n");
    let plain = world.plain_image("plain");
    let refused = store.verimount(args!["push", &plain, store.object("plain")]);
    refused.fails_saying("is not sealed");
    let gone = store.verimount(args!["ls", store.object("plain"), "--unpinned"]);
    gone.fails_saying("no such file");
}

#[test]
fn names_and_settings_are_checked() {
    let world = World::new();
    let image = world.sealed_image("image");
    for name in [
        "s3://bucket",
        "gs:///key",
        "az://c/a//b",
        "s3://k:secret@b/k",
    ] {
        let wrong = verimount(args!["ls", name, "--unpinned"]);
        wrong.is_wrong_usage();
        verimount(args!["push", &image, name]).is_wrong_usage();
    }
    verimount(args!["push", &image, "https://host/image"]).is_wrong_usage();
    verimount(args!["push", &image, "s3://b/k", "--plain-http"]).is_wrong_usage();
    let mut command = User::Current.command();
    command.args(args!["ls s3://bucket/key --unpinned"]);
    command.env("AWS_ACCESS_KEY_ID", "me");
    command.env("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
    finish(command).fails_saying("the settings of S3 in the environment cannot be used");
}

#[test]
fn a_copy_in_the_cache_needs_no_store_and_no_credentials() {
    let world = World::new();
    let (tree, image) = (world.directory("tree"), world.path("image"));
    create(&tree, false);
    let digest = verimount(args!["build", &tree, &image]).digest();
    let cache = world.path("cache");
    let server = HttpServer::honest(fs::read(&image).unwrap());
    let verify = |server: &str| {
        let mut command = User::Current.command();
        command.env("AWS_ENDPOINT_URL", server);
        command.env("AWS_SKIP_SIGNATURE", "true");
        command.args(args!["verify s3://bucket/image --digest", &digest]);
        command.args(args!["--cache", &cache]);
        finish(command)
    };
    verify(&server.url("")).succeeds_quietly();
    let nobody = verify("http://127.0.0.1:1");
    nobody.succeeds_quietly();
}

fn readers_outlive_servers_that_are_killed(world: &World, mut store: ObjectStore) {
    let mib = env::var(SIZE).map_or(64, |text| text.parse().unwrap());
    let file = sealed_noise(world, mib);
    let mut mounted = pushed_and_mounted(world, &store, &file, &[]);
    mounted.bites_after(Duration::from_secs(600 + mib));
    let status = || verimount(args!["status", mounted.directory()]);
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        let reader = scope.spawn(|| compare(&mounted.path("file"), &file, &done));
        let reaches = |part: u64| {
            let target = (mib << 20) / 8 * part;
            while done.load(SeqCst) < target && !reader.is_finished() {
                thread::sleep(Duration::from_millis(1));
            }
        };
        reaches(1);
        store.storage[0].kill();
        reaches(2);
        store.gateway.kill();
        eventually("the mount has noticed", || {
            has_lost_a_connection(&status()) || reader.is_finished()
        });
        store.storage[0].run();
        store.gateway.run();
        // The deadline of a read is longer than all of this, so that nothing fails.
        reader.join().unwrap().unwrap();
    });
    assert_eq!(done.load(SeqCst), mib << 20);
    let status = status();
    eprintln!("{}", status.text());
    assert!(has_lost_a_connection(&status), "{status:?}");
    mounted.unmount();
}

fn a_store_that_stays_away_fails_reads_and_nothing_else(world: &World, mut store: ObjectStore) {
    let file = sealed_noise(world, 64);
    let mounted = pushed_and_mounted(world, &store, &file, &["--timeout", "2"]);
    store.gateway.kill();
    let there = mounted.path("file");
    assert_eq!(error_of(fs::read(&there)), Errno::IO);
    store.gateway.run();
    eventually("it can be read again", || {
        compare(&there, &file, &AtomicU64::new(0)).is_ok()
    });
    mounted.unmount();
}

/// A file of random bytes with its seal appended.
fn sealed_noise(world: &World, mib: u64) -> PathBuf {
    let path = world.path("file");
    let mut file = File::create(&path).unwrap();
    for number in 0..mib {
        file.write_all(&noise(1 << 20, number)).unwrap();
    }
    // Neither this nor a push has the patience of other commands: a large file takes minutes.
    let mut seal = User::Current.command();
    succeeds(seal.args(args!["seal --append", &path]));
    path
}

/// Mounts a file from the store without a cache. In the mount it has the name `file`.
fn pushed_and_mounted(world: &World, store: &ObjectStore, file: &Path, options: &[&str]) -> Daemon {
    let object = store.object("file");
    let mut push = store.command(&User::Current, KEY);
    succeeds(push.args(args!["push", file, &object]));
    let options = [&["--unpinned", "--no-cache", "--prefetch", "none"], options].concat();
    let mount = store.command(&User::Current, KEY);
    Daemon::start(mount, Path::new(&object), &world.path("mnt"), &options).unwrap()
}

fn succeeds(command: &mut Command) {
    let status = command.stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

/// Reads a mounted file in order, and compares it with the beginning of the file that was pushed. It counts what is
/// right in `done`.
fn compare(there: &Path, here: &Path, done: &AtomicU64) -> io::Result<()> {
    const CHUNK: usize = 1 << 20;
    let (mut there, mut here) = (File::open(there)?, File::open(here)?);
    let (mut actual, mut expected) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut left = there.metadata()?.len() as usize;
    while left > 0 {
        let len = left.min(CHUNK);
        there.read_exact(&mut actual[..len])?;
        here.read_exact(&mut expected[..len])?;
        assert!(actual[..len] == expected[..len], "wrong bytes");
        left -= len;
        done.fetch_add(len as u64, SeqCst);
    }
    Ok(())
}

/// Whether a mount with this status had a request without connection.
fn has_lost_a_connection(status: &Ended) -> bool {
    !status.text().contains(" 0 without connection")
}
