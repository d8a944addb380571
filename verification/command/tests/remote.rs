//! Images and files on a web server.

use crate::common::nginx::Nginx;
use crate::prelude::*;

#[test]
fn every_command_that_reads_takes_a_url() {
    let world = World::new();
    let tree = world.directory("tree");
    create(&tree, false);
    let image = world.path("image");
    let digest = verimount(args!["build", &tree, &image]).digest();
    let server = needs!(Nginx::start(&world));
    let url = server.url("image");
    for command in ["verify", "ls"] {
        let here = verimount(args![command, &image, "--digest", &digest]);
        let there = verimount(args![command, &url, "--digest", &digest, "--no-cache"]);
        there.succeeds_quietly();
        let expected = here.text().replace(image.to_str().unwrap(), &url);
        assert_eq!(there.text(), expected);
    }
    let info = verimount(args!["info", &url]);
    info.succeeds_quietly();
    info.says(&digest);
    let copy = world.path("copy");
    verimount(args![
        "extract",
        &url,
        &copy,
        "--digest",
        &digest,
        "--no-cache"
    ])
    .succeeds_quietly();
    assert_same(&snapshot(&copy).unwrap(), &snapshot(&tree).unwrap());
    let other = format!("sha256:{}", "0".repeat(64));
    verimount(args!["ls", &url, "--digest", other, "--no-cache"]).fails_saying(&url);
}

#[test]
fn a_sidecar_is_found_beside_a_url_or_at_another() {
    let world = World::new();
    world.image_with_sidecar("image");
    let server = needs!(Nginx::start(&world));
    let expected = "Hello, world!\n";
    let beside = verimount(args!["cat", server.url("image"), HELLO, "--no-cache"]);
    assert_eq!(beside.succeeds().text(), expected);
    fs::rename(world.path("image.verity"), world.path("elsewhere")).unwrap();
    let elsewhere = server.url("elsewhere");
    let given = verimount(args![
        "cat",
        server.url("image"),
        HELLO,
        "--sidecar",
        elsewhere,
        "--no-cache"
    ]);
    assert_eq!(given.succeeds().text(), expected);
    let missing = verimount(args!["cat", server.url("image"), HELLO, "--no-cache"]);
    missing.fails_saying("image.verity does not exist");
}

#[test]
fn failures_have_a_reason() {
    let world = World::new();
    world.write("short", "short");
    let server = needs!(Nginx::start(&world));
    for (url, reason) in [
        (
            server.url("missing"),
            "the server has no such file (status 404)",
        ),
        (server.url("short"), "has no seal"),
        ("http://127.0.0.1:1/image".to_owned(), "cannot connect"),
        (server.tls_url("short"), "no secure connection"),
    ] {
        verimount(args!["ls", &url, "--no-cache"])
            .fails_saying(reason)
            .fails_saying(&url);
    }
    for url in ["http://", "https://me:secret@host/image"] {
        let wrong = verimount(args!["ls", url, "--no-cache"]);
        wrong.is_wrong_usage();
    }
}

#[test]
fn tls_needs_a_known_certificate() {
    let world = World::new();
    let image = world.sealed_image("image");
    let server = needs!(Nginx::start(&world));
    let mut command = Command::new(binary());
    command.args(args![
        "cat",
        server.tls_url("image"),
        "folder/noise",
        "--unpinned",
        "--no-cache"
    ]);
    command.env("SSL_CERT_FILE", server.certificate());
    let there = finish(command);
    there.succeeds_quietly();
    let here = verimount(args!["cat", image, "folder/noise", "--unpinned"]);
    assert!(there.stdout == here.stdout);

    let with_authority = |file: &Path| {
        let url = server.tls_url("image");
        verimount(args!["ls", url, "--unpinned", "--no-cache", "--ca", file])
    };
    with_authority(&server.certificate()).succeeds_quietly();
    let none = world.write("none", "");
    with_authority(&none).fails_saying("not a list of certificates in PEM format");
}

/// `seal http://…` would only be told that there is no such file.
#[test]
fn what_is_on_a_server_is_sealed_where_it_was_made() {
    let server = HttpServer::start(noise(300_000, 1), |_, request, right| {
        if request.path == "/plain" {
            right
        } else {
            right.only_status(404)
        }
    });
    let url = server.url("/plain");
    let unsealed = verimount(args!["cat", &url, "file", "--unpinned", "--no-cache"]);
    unsealed.fails_saying("seal it where it was made, and publish it again");
    verimount(args!["seal", &url]).fails_saying("this is only for files on this machine");
}

#[test]
fn headers_are_sent_and_never_shown() {
    let world = needs!(World::with_mount_point());
    let image = fs::read(world.sealed_image("image")).unwrap();
    let server = HttpServer::start(image, |_, request, right| {
        let key = ("authorization".to_owned(), "Bearer secret-token".to_owned());
        if request.headers.contains(&key) {
            right
        } else {
            right.only_status(401)
        }
    });
    let url = server.url("/image");
    let without = verimount(args!["ls", &url, "--unpinned", "--no-cache"]);
    without.fails_saying("the server does not allow it (status 401)");
    let headers = world.write(
        "headers",
        "# for tests\nAuthorization: Bearer secret-token\n",
    );
    let mnt = world.path("mnt");
    let options = [
        "--unpinned",
        "--no-cache",
        "--header-file",
        headers.to_str().unwrap(),
    ];
    let mounted = Daemon::mount(Path::new(&url), &mnt, &options);
    assert!(fs::read(mounted.path(HELLO)).is_ok());
    let status = verimount(args!["status", &mnt, "--json"]);
    let metrics = verimount(args!["status", &mnt, "--prometheus"]);
    let log = mounted.unmount();
    for shown in [status.text(), metrics.text(), &log] {
        assert!(!shown.contains("secret"), "{shown}");
    }
    world.write("headers", "Authorization: Bearer secret-token\nsecret\n");
    let wrong = verimount(args!["ls", &url, "--unpinned", "--header-file", headers]);
    wrong.fails_saying("line 2 is not a header");
    assert!(!wrong.stderr.contains("secret"), "{wrong:?}");
}

#[test]
fn headers_are_for_the_server_of_the_content() {
    let world = needs!(World::with_mount_point());
    let headers = world.write("headers", "X-Asked-By: a test\n");
    let has_header = |request: &HttpRequest| request.header("x-asked-by").is_some();

    let file = world.write("file", noise(100_000, 1));
    verimount(args!["seal", &file]).succeeds();
    let [data, seal] = [file.clone(), world.path("file.verity")].map(|file| {
        let bytes = fs::read(file).unwrap();
        HttpServer::honest(bytes)
    });
    let sidecar = format!("--sidecar={}", seal.url("/seal"));
    let url = data.url("/file");
    verimount(args!["info", url, sidecar, "--header-file", &headers]).succeeds();
    assert!(data.requests().iter().all(has_header));
    assert!(!seal.requests().is_empty() && !seal.requests().iter().any(has_header));

    // Object stores get none, so that nobody does.
    let (tree, image) = (world.directory("tree"), world.path("image"));
    create(&tree, false);
    let digest = verimount(args!["build", &tree, &image]).digest();
    let mirror = HttpServer::honest(fs::read(image).unwrap());
    let (id, secret) = ("AKIAEXAMPLE", "example");
    let mut command = User::Current.command();
    command
        .args(["ls", "s3://images/image", "--no-cache", "--digest"])
        .args([&digest, "--mirror", &mirror.url("/image"), "--header-file"])
        .arg(headers)
        .env("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", id)
        .env("AWS_SECRET_ACCESS_KEY", secret);
    finish(command).succeeds();
    assert!(!mirror.requests().is_empty() && !mirror.requests().iter().any(has_header));
}

#[test]
fn a_mount_of_a_url_has_the_same_files() {
    let world = needs!(World::with_mount_point());
    let (tree, mnt) = (world.directory("tree"), world.path("mnt"));
    create(&tree, false);
    let digest = verimount(args!["build", &tree, world.path("image")]).digest();
    let server = needs!(Nginx::start(&world));
    let url = server.url("image");
    let secret = format!("{url}?token=secret");
    let mounted = Daemon::mount(
        Path::new(&secret),
        &mnt,
        &["--digest", &digest, "--no-cache"],
    );
    assert_same(&snapshot(&mnt).unwrap(), &snapshot(&tree).unwrap());
    let status = verimount(args!["status", &mnt]);
    status.says(&url);
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let log = mounted.unmount();
    for shown in [status.text(), &table, &log] {
        assert!(!shown.contains("token"), "{shown}");
    }
}

#[test]
fn reading_in_order_takes_few_requests() {
    const SIZE: u64 = 256 << 20;
    /// What the first steps, the Merkle tree and the seal take besides the parts of 16 MiB.
    const OTHERS: u64 = 20;
    let world = needs!(World::with_mount_point());
    let content = noise(SIZE as usize, 1);
    let file = world.write("file", &content);
    verimount(args!["seal --append", &file]).succeeds_quietly();
    let server = needs!(Nginx::start(&world));
    let mnt = world.path("mnt");
    let options = ["--unpinned", "--no-cache"];
    let mounted = Daemon::mount(Path::new(&server.url("file")), &mnt, &options);
    let mut compare = Command::new("cmp");
    compare
        .arg(mnt.join("file"))
        .arg("-")
        .args(["-n", &SIZE.to_string()]);
    compare
        .stdin(fs::File::open(&file).unwrap())
        .stdout(Stdio::null());
    assert!(compare.status().unwrap().success());
    mounted.unmount();
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.path == "/file"));
    let (count, most) = (requests.len() as u64, SIZE / (16 << 20) + OTHERS);
    assert!(count <= most, "{count} requests, more than {most}");
    let sent: u64 = requests.iter().map(|request| request.sent).sum();
    let stored = fs::metadata(&file).unwrap().len();
    assert!(sent <= stored + stored / 50, "{sent} bytes of {stored}");
}
