//! Copying content from several places, of which some fail or are wrong.

use std::{
    fs,
    net::TcpListener,
    ops::{ControlFlow, Range},
    slice,
    time::Duration,
};

use tempfile::TempDir;
use verimount::{
    Error, ErrorKind, FileDigest, Identity, Location, OpenOptions, PullOptions, RemoteOptions,
    SealOptions, Watcher, pull, seal,
};
use verimount_testkit::{HttpAnswer, HttpEnd, HttpRequest, HttpServer, noise};

/// A sealed file, and where it is copied to.
struct Sealed {
    folder: TempDir,
    bytes: Vec<u8>,
    digest: FileDigest,
}

impl Sealed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, noise(3_000_000, 1)).unwrap();
        let options = SealOptions {
            append: true,
            ..SealOptions::default()
        };
        let sealed = seal(&file, &options).unwrap();
        let Identity::FileDigest(digest) = sealed.identity else {
            unreachable!()
        };
        let bytes = fs::read(file).unwrap();
        Self {
            folder,
            bytes,
            digest,
        }
    }

    /// Copies it from the first of these places, of which the others are mirrors.
    fn is_copied_from(&self, places: &[String]) -> bool {
        let options = OpenOptions::new().digest(self.digest);
        let mirrors = places[1..].iter().map(|url| at(url));
        let options = mirrors.fold(options, OpenOptions::mirror);
        self.copy(&places[0], options).is_ok()
    }

    /// Copies it from there as these options accept it, whole.
    fn copy(&self, url: &str, options: OpenOptions) -> Result<(), Error> {
        let copy = self.folder.path().join("copy");
        let options = PullOptions {
            open: options,
            ..PullOptions::default()
        };
        pull(at(url), &copy, &options)?;
        assert!(fs::read(&copy).unwrap() == self.bytes);
        fs::remove_file(copy).unwrap();
        Ok(())
    }

    fn server(&self) -> HttpServer {
        HttpServer::honest(self.bytes.clone())
    }

    /// A balancer before machines that have the same file, each with another validator: no two answers have the same one.
    fn balancer(&self) -> HttpServer {
        HttpServer::start(self.bytes.clone(), |number, _, answer| {
            answer.with("etag", format!("\"{number}\""))
        })
    }
}

/// A server that sends the whole file whatever it is asked for; these of its answers break off.
fn without_ranges(content: &[u8], broken: Range<usize>) -> HttpServer {
    let own = content.to_vec();
    HttpServer::start(content.to_vec(), move |number, request, _| {
        let all = HttpRequest {
            range: None,
            ..request.clone()
        };
        let answer = HttpAnswer::of(&own, &all);
        if broken.contains(&number) {
            answer.cut(1_000_000, HttpEnd::Closed)
        } else {
            answer
        }
    })
}

fn at(url: &str) -> Location {
    url.parse().unwrap()
}

/// The URL of a server that refuses connections.
fn gone() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/file", listener.local_addr().unwrap())
}

#[test]
fn the_first_place_may_be_gone() {
    let sealed = Sealed::new();
    let server = sealed.server();
    assert!(!sealed.is_copied_from(&[gone(), gone()]));
    assert!(sealed.is_copied_from(&[gone(), gone(), server.url("/file")]));
}

/// What is pinned is compared with its tree, byte by byte.
#[test]
fn machines_behind_a_balancer_need_not_agree_on_versions() {
    let sealed = Sealed::new();
    let (balancer, gone) = (sealed.balancer(), gone());
    let url = balancer.url("/file");
    let pinned = OpenOptions::new().digest(sealed.digest);
    sealed.copy(&url, pinned.clone()).unwrap();
    let older = sealed.folder.path().join("file");
    sealed.copy(&url, pinned.like(older.as_path())).unwrap();
    assert!(sealed.is_copied_from(&[gone, url]));
}

/// Nothing else says which of two files is meant.
#[test]
fn content_that_nothing_pins_must_stay_the_same() {
    let sealed = Sealed::new();
    let balancer = sealed.balancer();
    let options = OpenOptions::new().unpinned();
    let refused = sealed.copy(&balancer.url("/file"), options).unwrap_err();
    assert!(refused.to_string().contains("was replaced"), "{refused}");
}

#[test]
fn the_first_place_may_have_wrong_bytes() {
    let sealed = Sealed::new();
    let mut wrong = sealed.bytes.clone();
    wrong[1_000_000] ^= 1;
    let (wrong, right) = (HttpServer::honest(wrong), sealed.server());
    let [wrong, right] = [wrong, right].map(|server| (server.url("/file"), server));
    assert!(!sealed.is_copied_from(slice::from_ref(&wrong.0)));
    assert!(sealed.is_copied_from(&[wrong.0, right.0]));
}

/// All of it is needed anyway.
#[test]
fn a_server_may_have_no_ranges() {
    let sealed = Sealed::new();
    let copied = |content: &[u8], broken| {
        let server = without_ranges(content, broken);
        let pinned = OpenOptions::new().digest(sealed.digest);
        sealed.copy(&server.url("/file"), pinned)
    };
    copied(&sealed.bytes, 0..0).unwrap();
    // The first answer shows that there are no ranges.
    copied(&sealed.bytes, 1..3).unwrap();
    let refused = copied(&sealed.bytes, 1..100).unwrap_err();
    assert!(refused.to_string().contains("broke off"), "{refused}");
    let mut wrong = sealed.bytes.clone();
    wrong[1_000_000] ^= 1;
    copied(&wrong, 0..0).unwrap_err();
    copied(&[], 0..0).unwrap_err();
    // Whoever watches can end it.
    let server = without_ranges(&sealed.bytes, 0..0);
    let options = PullOptions {
        open: OpenOptions::new().digest(sealed.digest),
        watcher: Watcher::new(|_| ControlFlow::Break(())),
    };
    let ended = pull(
        at(&server.url("/file")),
        sealed.folder.path().join("copy"),
        &options,
    );
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(!sealed.folder.path().join("copy").exists());
}

/// A server that takes connections and says nothing.
#[test]
fn a_mirror_may_say_nothing() {
    let sealed = Sealed::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}/file", silent.local_addr().unwrap());
    let first = HttpServer::start(sealed.bytes.clone(), |number, _, answer| match number {
        0..3 => answer,
        _ => answer.only_status(500),
    });
    let right = sealed.server();
    assert!(sealed.is_copied_from(&[first.url("/file"), silent, right.url("/file")]));
}

/// The first one has the seal behind the data, the other one beside it.
#[test]
fn another_place_may_have_other_files() {
    let sealed = Sealed::new();
    let first = HttpServer::start(sealed.bytes.clone(), |number, _, answer| match number {
        0..3 => answer,
        _ => answer.only_status(404),
    });
    let other = sealed.folder.path().join("other");
    fs::write(&other, noise(3_000_000, 1)).unwrap();
    let beside = seal(&other, &SealOptions::default()).unwrap();
    assert_eq!(beside.identity, Identity::FileDigest(sealed.digest));
    let mut remote = RemoteOptions::default();
    remote.timeout = Duration::from_secs(1);
    let options = OpenOptions::new().digest(sealed.digest).remote(remote);
    let options = PullOptions {
        open: options.mirror(other.as_path()),
        ..PullOptions::default()
    };
    let copy = sealed.folder.path().join("copy");
    pull(at(&first.url("/file")), &copy, &options).unwrap();
    assert_eq!(fs::read(copy).unwrap(), noise(3_000_000, 1));
}
