//! The cache for content on web servers, and mounts whose server is gone.

use crate::common::{daemon::metric, nginx::Nginx};
use crate::prelude::*;

/// How often a daemon is killed while it fills its cache.
const ROUNDS: &str = "VERIMOUNT_KILL_ROUNDS";

/// A sealed file of noise, and its digest.
fn sealed(world: &World, size: usize) -> (PathBuf, String) {
    let file = world.write("file", noise(size, 1));
    let digest = verimount(args!["seal --append", &file]).digest();
    (file, digest)
}

fn json(ended: &Ended) -> Value {
    ended.succeeds().json()
}

/// A sealed file, a mount point and a cache.
struct Setup {
    world: World,
    file: PathBuf,
    digest: String,
    cache: String,
}

impl Setup {
    fn new(size: usize) -> Option<Self> {
        let world = World::with_mount_point()?;
        let (file, digest) = sealed(&world, size);
        let cache = world.path("cache").to_str().unwrap().to_owned();
        Some(Self {
            world,
            file,
            digest,
            cache,
        })
    }

    fn mount(&self, url: &str, more: &[&str]) -> Daemon {
        let options = ["--digest", &self.digest, "--cache", &self.cache];
        let options = [&options, more].concat();
        Daemon::mount(Path::new(url), &self.world.path("mnt"), &options)
    }

    /// Whether the mounted file has the right bytes.
    fn is_right(&self) -> bool {
        let mounted = self.world.path("mnt").join("file");
        let size = fs::metadata(&mounted).unwrap().len();
        let mut compare = Command::new("cmp");
        compare
            .args(["-n", &size.to_string()])
            .arg(&self.file)
            .arg(mounted);
        compare.status().unwrap().success()
    }

    /// A number of the status of the mount.
    fn status(&self, field: &str) -> u64 {
        metric(&self.world.path("mnt"), field)
    }
}

#[test]
fn a_full_cache_needs_no_server() {
    let setup = needs!(Setup::new(9_000_000));
    let server = needs!(Nginx::start(&setup.world));
    let url = server.url("file?token=secret");
    let mounted = setup.mount(&url, &[]);
    assert!(setup.is_right());
    assert!(setup.status("cache_written_bytes_total") >= 9_000_000);
    mounted.unmount();
    drop(server);

    let mounted = setup.mount(&url, &[]);
    assert!(setup.is_right());
    assert_eq!(setup.status("origin_requests_total"), 0);
    assert!(setup.status("cache_read_bytes_total") >= 9_000_000);
    let log = mounted.unmount();
    assert!(!log.contains("secret"), "{log}");

    // The cache has the content from elsewhere, too.
    let other = setup.mount("http://127.0.0.1:1/file", &["--prefetch", "none"]);
    assert!(setup.is_right());
    other.unmount();
}

#[test]
fn what_nothing_would_keep_is_not_fetched_ahead() {
    let world = World::new();
    let (file, digest) = sealed(&world, 1_000_000);
    let server = HttpServer::honest(fs::read(file).unwrap());
    let mnt = world.path("mnt");
    fs::create_dir(&mnt).unwrap();
    let mount = |more: &[&str]| {
        let url = server.url("/file");
        verimount(args!["mount",
            &url,
            &mnt,
            "--digest",
            &digest,
            "--prefetch",
            "all"; more.iter()])
    };
    let refused = mount(&["--no-cache"]);
    refused.is_wrong_usage().notes("--cache DIR");
    let requests = server
        .requests()
        .iter()
        .filter(|request| !request.is_of_end)
        .count();
    // The beginning of the file, with its seal, and no more.
    assert!(requests <= 2, "{requests}");
}

#[test]
fn what_is_in_the_cache_is_shown_verified_and_cleared() {
    let world = World::new();
    let image = world.sealed_image("image");
    let info = json(&verimount(args!["info", &image, "--json"]));
    let digest = info["seal"]["digest"].as_str().unwrap().to_owned();
    let size = info["seal"]["data_size"].as_u64().unwrap();
    let server = needs!(Nginx::start(&world));
    let cache = world.path("cache");
    let read = || {
        let url = server.url("image");
        verimount(args![
            "verify", &url, "--digest", &digest, "--cache", &cache
        ])
    };
    read().succeeds_quietly();
    let key = digest.replace(':', "-");
    let info = verimount(args!["cache info --cache", &cache]);
    info.succeeds().says(&format!("{key} data: "));
    let info = json(&verimount(args!["cache info --cache", &cache, "--json"]));
    let mut parts: Vec<_> = info["objects"].as_array().unwrap().iter().collect();
    parts.sort_by_key(|part| part["part"].as_str().unwrap().to_owned());
    let names = |of: &dyn Fn(&Value) -> bool| -> Vec<_> {
        let parts = parts.iter().filter(|part| of(&part["key"]));
        parts.map(|part| part["part"].as_str().unwrap()).collect()
    };
    assert_eq!(names(&|other| *other == key), ["data", "seal", "tree"]);
    assert_eq!(names(&|other| *other != key), ["origin"]);
    assert_eq!(parts[0]["size"], size);

    let verify = || verimount(args!["cache verify --cache", &cache]);
    assert!(
        verify()
            .succeeds()
            .text()
            .contains(", 0 were removed, 0 cannot")
    );
    let object = |part| cache.join(format!("objects/{key}.{part}"));
    for (part, place) in [("data", 5000), ("tree", 10), ("seal", 10)] {
        overwrite(&object(part), place, b"wrong");
        let bad = verify();
        assert_eq!(bad.status.code(), Some(1), "{part}: {bad:?}");
        let keeps_all = |ended: &Ended| {
            let mut lines = ended.text().lines();
            lines.all(|line| line.contains(", 0 were removed"))
        };
        assert!(!keeps_all(&bad), "{bad:?}");
        assert!(keeps_all(verify().succeeds()));
        read().succeeds_quietly();
    }

    verimount(args!["cache clear --cache", &cache]).succeeds();
    assert!(!object("data").exists());
}

#[test]
fn a_cache_that_is_not_private_is_refused_or_left_out() {
    let world = World::new();
    world.sealed_image("image");
    let server = needs!(Nginx::start(&world));
    let cache = world.directory("verimount");
    let ls = |options: Vec<OsString>| {
        let mut command = User::Current.command();
        // In which the usual cache is the same.
        command.env("XDG_CACHE_HOME", world.path(""));
        command.args(args!["ls", server.url("image"), "--unpinned"; options]);
        finish(command)
    };
    let used = ls(Vec::new());
    assert!(!used.succeeds().stderr.contains("kept"), "{used:?}");
    fs::set_permissions(&cache, Permissions::from_mode(0o777)).unwrap();
    let reason = "must have mode 755, but has 777";
    ls(args!["--cache", &cache]).fails_saying(reason);
    ls(Vec::new()).succeeds().notes(reason);
    let both = verimount(args!["ls x --no-cache --cache", &cache]);
    both.is_wrong_usage();
}

/// At any time, a killed daemon leaves a cache with which the next one reads the right bytes.
#[test]
fn a_killed_daemon_leaves_a_usable_cache() {
    const SIZE: usize = 6_000_000;
    let setup = needs!(Setup::new(SIZE));
    let server = needs!(Nginx::start(&setup.world));
    let url = server.url("file");
    let mut random = Random::new(seed());
    let rounds = env::var(ROUNDS).map_or(6, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let mut mounted = setup.mount(&url, &[]);
        let mut file = File::open(setup.world.path("mnt").join("file")).unwrap();
        let mut bytes = vec![0; random.below(SIZE)];
        file.read_exact(&mut bytes).unwrap();
        mounted.signal(Signal::KILL);
        mounted.wait();
        drop((file, mounted));
        let mounted = setup.mount(&url, &[]);
        assert!(setup.is_right(), "round {round}");
        assert_eq!(setup.status("mismatches_total"), 0);
        mounted.unmount();
        if round % 2 == 0 {
            verimount(args!["cache clear --cache", &setup.cache]).succeeds();
        }
    }
}
