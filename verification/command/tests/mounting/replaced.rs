//! Releases that are published over those that are mounted.

use crate::common::daemon::{metric, status};
use crate::prelude::*;

/// What is not fetched when it is opened.
const SIZE: usize = 4 << 20;

/// Where something is read that nothing has read before.
const AT: u64 = 2 << 20;

/// A sealed file, signed with this key, and its digest.
fn release(world: &World, seed: u64, secret: &Path) -> (PathBuf, String) {
    let file = world.write(&format!("release-{seed}"), noise(SIZE, seed));
    let digest = verimount(args!["seal --append", &file]).digest();
    verimount(args!["sign", &file, "--key", secret]).succeeds();
    (file, digest)
}

/// A server of a file that can be replaced.
fn server(file: &Path) -> (HttpServer, Arc<Mutex<PathBuf>>) {
    let now = Arc::new(Mutex::new(file.to_owned()));
    let served = now.clone();
    let server = HttpServer::start(Vec::new(), move |_, request, _| {
        let file = served.lock().unwrap().clone();
        match request.path.as_str() {
            "/file" => {
                let content = fs::read(&file).unwrap();
                HttpAnswer::of(&content, request).with("etag", format!("{file:?}"))
            }
            _ => HttpAnswer::of(&[], request).only_status(404),
        }
    });
    (server, now)
}

fn read(mounted: &Daemon) -> io::Result<Vec<u8>> {
    read_at(&File::open(mounted.path("file")).unwrap(), AT, 4096)
}

#[test]
fn another_release_is_told_by_status_metrics_and_log_and_is_no_bad_data() {
    let world = needs!(World::with_mount_point());
    let (public, secret) = world.keys("author");
    let [(first, _), (second, digest)] = [1, 2].map(|seed| release(&world, seed, &secret));
    let key = public.to_str().unwrap();
    let mirror = first.to_str().unwrap();
    for mirrors in [&[][..], &["--mirror", mirror]] {
        let (server, now) = server(&first);
        let url = server.url("/file");
        let options = [&["--key", key, "--no-cache"], mirrors].concat();
        let mounted = Daemon::mount(Path::new(&url), &world.path("mnt"), &options);
        let mnt = mounted.directory().to_owned();
        assert_eq!(status(&mnt)["origin"]["replaced"], Value::Null);
        now.lock().unwrap().clone_from(&second);
        if mirrors.is_empty() {
            assert_eq!(error_of(read(&mounted)), Errno::IO);
        } else {
            assert!(read(&mounted).unwrap() == noise(SIZE, 1)[AT as usize..][..4096]);
            eventually("it is known", || metric(&mnt, "origin_replaced") == 1);
        }
        assert_eq!(metric(&mnt, "origin_replaced"), 1);
        // It succeeds.
        let told = status(&mnt);
        assert_eq!(told["mismatches"], 0);
        assert_eq!(told["origin"]["replaced"]["digest"], digest.as_str());
        assert_eq!(told["origin"]["replaced"]["place"], url.as_str());
        let text = verimount(args!["status", &mnt]);
        text.succeeds_quietly().says("REPLACED");
        let log = mounted.unmount();
        assert!(log.contains(&format!("replaced_by={digest}")), "{log}");
        assert!(!log.contains("block does not match"), "{log}");
    }
}

/// It may be a release, too, but nothing proves it.
#[test]
fn what_is_not_signed_or_pinned_by_its_digest_is_bad_data() {
    let world = needs!(World::with_mount_point());
    let (public, secret) = world.keys("author");
    let (_, other) = world.keys("other");
    let (first, digest) = release(&world, 1, &secret);
    let [(forged, _), (second, _)] =
        [(2, &other), (3, &secret)].map(|(seed, key)| release(&world, seed, key));
    let key = public.to_str().unwrap();
    let hint = "only a mount by key (--key) can tell";
    for (pin, replacing, is_hinted) in [
        (["--key", key], &forged, false),
        (["--digest", &digest], &second, true),
    ] {
        let (server, now) = server(&first);
        let options = [&pin[..], &["--no-cache"]].concat();
        let url = server.url("/file");
        let mounted = Daemon::mount(Path::new(&url), &world.path("mnt"), &options);
        now.lock().unwrap().clone_from(replacing);
        assert_eq!(error_of(read(&mounted)), Errno::IO);
        let told = verimount(args!["status", mounted.directory(), "--json"]);
        let json = told.ends_with(1).json();
        assert!(json["mismatches"].as_u64() > Some(0), "{json}");
        assert_eq!(json["origin"]["replaced"], Value::Null);
        let told = verimount(args!["status", mounted.directory()]);
        assert_eq!(told.text().contains(hint), is_hinted, "{told:?}");
        mounted.unmount();
    }
}
