//! Images whose data is in another file.

use crate::{common::daemon::metric, prelude::*};

/// An image and its device, sealed by themselves.
struct Split {
    world: World,
    image: PathBuf,
    device: PathBuf,
    image_digest: String,
    device_digest: String,
}

impl Split {
    /// `None` if there is no `mkfs.erofs`.
    fn new() -> Option<Self> {
        let world = World::new();
        let tree = world.directory("tree");
        fs::write(tree.join("file"), noise(1 << 20, 1)).unwrap();
        let [image, device] = ["image", "blob"].map(|name| world.path(name));
        let mut mkfs = Command::new(tools::find("mkfs.erofs")?);
        mkfs.args(["--quiet", "--chunksize=65536"]);
        mkfs.arg(format!("--blobdev={}", device.to_str().unwrap()));
        assert!(mkfs.arg(&image).arg(&tree).status().unwrap().success());
        let [image_digest, device_digest] = [&image, &device].map(|file| {
            let sealed = verimount(args!["seal --append", file]);
            sealed.digest()
        });
        Some(Self {
            world,
            image,
            device,
            image_digest,
            device_digest,
        })
    }

    /// The option for the image's digest.
    fn digest(&self) -> String {
        format!("--digest={}", self.image_digest)
    }

    /// The option for the device, with its digest.
    fn pinned_device(&self) -> String {
        format!("{}@{}", self.device(), self.device_digest)
    }

    /// The option for the device alone.
    fn device(&self) -> String {
        format!("--device={}", self.device.to_str().unwrap())
    }

    fn run(&self, command: &str, options: &[&str]) -> Ended {
        verimount(args![command, &self.image; options.iter()])
    }

    /// Reads the file.
    fn cat(&self, options: &[&str]) -> Ended {
        verimount(args!["cat", &self.image, "file"; options.iter()])
    }

    /// Changes a bit of the device.
    fn flip(&self) {
        flip_at(&self.device, 100_000);
    }
}

#[test]
fn data_on_a_device_is_read_and_verified() {
    let split = needs!(Split::new());
    let (digest, device) = (split.digest(), split.pinned_device());
    for options in [
        &[&*digest, &device][..],
        &["--unpinned", &device],
        &["--unpinned", &split.device()],
        &["--unverified", &split.device()],
        &[&split.device()],
    ] {
        let ended = split.cat(options);
        ended.succeeds_quietly();
        assert!(ended.stdout == noise(1 << 20, 1), "{options:?}");
    }
    let noted = split.cat(&[&split.device()]);
    for digest in [&split.image_digest, &split.device_digest] {
        noted.notes(digest);
    }
    let info = split.run("info", &[]);
    info.succeeds().says("devices        1");
    let verified = split.run("verify", &[&digest, &device]);
    let text = verified.succeeds_quietly().text();
    assert!(text.contains(&split.image_digest) && text.contains(&split.device_digest));
    let copy = split.world.path("copy");
    verimount(args!["extract", &split.image, &copy, &digest, &device]).succeeds();
    assert!(fs::read(copy.join("file")).unwrap() == noise(1 << 20, 1));
}

#[test]
fn a_damaged_device_is_an_error() {
    let split = needs!(Split::new());
    let (digest, device) = (split.digest(), split.pinned_device());
    split.flip();
    split
        .cat(&[&digest, &device])
        .fails_saying("does not match");
    let verified = split.run("verify", &[&digest, &device]);
    verified.reports_bad_data();
    let bad = format!("{}: 4096 bad bytes", split.device.to_str().unwrap());
    verified.says(&bad);
    let report = split.run("verify", &[&digest, &device, "--json"]);
    let report: Value = report.reports_bad_data().json();
    assert_eq!(
        (&report["ok"], &report["bad_bytes"]),
        (&json!(false), &json!(0))
    );
    let bad = &report["devices"][0];
    assert_eq!(
        (&bad["ok"], &bad["bad_bytes"]),
        (&json!(false), &json!(4096))
    );
    assert_eq!(bad["file"], split.device.to_str().unwrap());
    if fuse_or_skip() {
        let directory = split.world.directory("mnt");
        let mounted = Daemon::mount(&split.image, &directory, &[&digest, &device]);
        assert_eq!(error_of(fs::read(mounted.path("file"))), Errno::IO);
        mounted.unmount();
    }
}

/// Also if nothing of the image is.
#[test]
fn what_is_verified_of_a_device_is_counted() {
    let split = needs!(Split::new());
    if !fuse_or_skip() {
        return;
    }
    let directory = split.world.directory("mnt");
    for trust in [&*split.digest(), "--unverified"] {
        let mounted = Daemon::mount(&split.image, &directory, &[trust, &split.pinned_device()]);
        assert!(fs::read(mounted.path("file")).unwrap() == noise(1 << 20, 1));
        assert!(
            metric(&directory, "verified_bytes_total") >= 1 << 20,
            "{trust}"
        );
        mounted.unmount();
    }
}

/// A digest of the image says nothing of its device.
#[test]
fn a_device_must_be_as_certain_as_its_image() {
    let split = needs!(Split::new());
    let (digest, device) = (split.digest(), split.pinned_device());
    split
        .cat(&[&digest, &split.device()])
        .fails_saying("nothing says which content of this device");
    let other = format!("{}@{}", split.device(), split.image_digest);
    split.cat(&[&digest, &other]).fails_saying("blob");
    split.cat(&["--unpinned", &other]).fails_saying("blob");
    let (public, secret) = split.world.keys("keys");
    let key = format!("--key={}", public.to_str().unwrap());
    let sign = |file: &PathBuf| {
        verimount(args!["sign", file, "--key", &secret]).succeeds();
    };
    sign(&split.image);
    split.cat(&[&key, &split.device()]).fails_saying("blob");
    split.cat(&[&key, &device]).succeeds_quietly();
    sign(&split.device);
    split.cat(&[&key, &split.device()]).succeeds_quietly();
}

#[test]
fn other_devices_than_the_image_has_are_refused() {
    let split = needs!(Split::new());
    let (digest, device) = (split.digest(), split.pinned_device());
    split.cat(&[&digest]).fails();
    let twice = [&*digest, &device, &device];
    split
        .cat(&twice)
        .fails_saying("it has 1 further devices, not 2");
    let short = split.world.write("short", noise(4096, 1));
    let sealed = verimount(args!["seal --append", &short]);
    let short = format!("--device={}@{}", short.to_str().unwrap(), sealed.digest());
    split
        .cat(&[&digest, &short])
        .fails_saying("are not inside a source of 4096 bytes");
    let device = split.device();
    for (format, words) in [
        ("erofs", "it has 0 further devices, not 1"),
        ("romfs", "not an image that can have further devices"),
    ] {
        let image = split.world.path(format);
        let tree = split.world.path("tree");
        verimount(args!["build --format", format, &tree, &image]).succeeds();
        verimount(args!["ls", &image, "--unpinned", &device]).fails_saying(words);
    }
    let directory = split.world.directory("mnt");
    verimount(args![
        "mount",
        &split.image,
        &directory,
        "--unpinned",
        "--as-file",
        &device
    ])
    .is_wrong_usage();
}

/// The trust in an image counts for its devices, and so do the options for servers, wherever each is.
#[test]
fn devices_on_servers_are_opened_as_the_image_is() {
    let split = needs!(Split::new());
    let [image, device] = [&split.image, &split.device].map(|file| fs::read(file).unwrap());
    let server = HttpServer::start(Vec::new(), move |_, request, _| {
        let is_image = request.path == "/image";
        HttpAnswer::of(if is_image { &image } else { &device }, request)
    });
    let headers = split.world.write("headers", "X-Asked-By: a test\n");
    let device = format!("--device={}", server.url("/device"));
    for (number, image) in [split.image.clone(), server.url("/image").into()]
        .into_iter()
        .enumerate()
    {
        let cache = split.world.path(&format!("cache {number}"));
        let asked = server.requests().len();
        let read = || {
            verimount(args![
                "cat",
                &image,
                "file",
                "--unpinned",
                &device,
                "--header-file",
                &headers,
                "--cache",
                &cache
            ])
        };
        assert!(read().succeeds().stdout == noise(1 << 20, 1));
        let requests = &server.requests()[asked..];
        assert!(requests.iter().any(|request| request.path == "/device"));
        let has_header = |request: &verimount_testkit::HttpRequest| {
            request.header("x-asked-by") == Some("a test")
        };
        assert!(requests.iter().all(has_header));
        assert!(cache.exists());
        assert!(read().succeeds().stdout == noise(1 << 20, 1));
    }
}
