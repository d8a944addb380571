//! Whatever is done with secrets, nothing shows them: no output, log or status.

use crate::common::docker_registry::{DockerRegistry, Login, ME, PASSWORD, WRONG};
use crate::prelude::*;

/// A password for a web server, and what is sent for the user `me` with it.
const WEB: [&str; 2] = ["web-secret-7f31", "bWU6d2ViLXNlY3JldC03ZjMx"];

/// A wrong password, and what is sent for the user `me` with it.
const OTHER: [&str; 2] = ["wrong-secret-0b52", "bWU6d3Jvbmctc2VjcmV0LTBiNTI="];

/// In URLs: a password, what would be sent for it, and a query.
const IN_URLS: [&str; 3] = [
    "url-secret-55d0",
    "bWU6dXJsLXNlY3JldC01NWQw",
    "query-secret-2c6e",
];

/// In the place that a server redirects to.
const MOVED: &str = "moved-secret-e8a4";

/// The password that [`WRONG`] has.
const WRONG_PASSWORD: &str = "wrong-secret";

/// All that was shown.
#[derive(Default)]
struct Shown(String);

impl Shown {
    /// Runs a command that logs everything, with these credentials for registries.
    fn run(&mut self, auth_file: &Path, arguments: Vec<OsString>) -> Ended {
        let mut command = talkative(auth_file);
        command.args(arguments);
        let ended = finish(command);
        self.add(&String::from_utf8_lossy(&ended.stdout));
        self.add(&ended.stderr);
        ended
    }

    /// Mounts, reads, asks for the status in all forms, and unmounts.
    fn mount(&mut self, auth_file: &Path, mnt: &Path, source: &str, options: &[&str]) {
        let command = talkative(auth_file);
        let mounted = Daemon::start(command, Path::new(source), mnt, options).unwrap();
        assert_eq!(fs::read(mounted.path(HELLO)).unwrap(), b"Hello, world!\n");
        for form in [None, Some("--json"), Some("--prometheus")] {
            let mut arguments = args!["status", mnt];
            arguments.extend(form.map(Into::into));
            self.run(auth_file, arguments).succeeds();
        }
        self.run(auth_file, args!["list"]);
        self.run(auth_file, args!["list --json"]);
        self.add(&fs::read_to_string("/proc/self/mountinfo").unwrap());
        self.add(&mounted.unmount());
    }

    fn add(&mut self, text: &str) {
        self.0.push_str(text);
    }

    #[track_caller]
    fn assert_without(&self, secrets: &[&str]) {
        assert!(!self.0.is_empty());
        for secret in secrets {
            let found = self.0.lines().find(|line| line.contains(secret));
            assert_eq!(found, None, "{secret}");
        }
    }
}

/// The command, which logs everything.
fn talkative(auth_file: &Path) -> Command {
    let mut command = User::Current.command();
    command.env("RUST_LOG", "trace");
    command.env("REGISTRY_AUTH_FILE", auth_file);
    command
}

/// Whether some request had this value of `Authorization`.
fn was_sent(requests: &[HttpRequest], value: &str) -> bool {
    let mut sent = requests.iter();
    sent.any(|request| request.header("authorization") == Some(value))
}

#[test]
fn secrets_for_web_servers_are_not_shown() {
    let world = needs!(World::with_mount_point());
    let image = fs::read(world.sealed_image("image")).unwrap();
    let expected = format!("Basic {}", WEB[1]);
    let server = HttpServer::start(image, move |_, request, right| {
        if request.header("authorization") != Some(&expected) {
            return right.only_status(401);
        }
        if request.path.contains(MOVED) {
            right
        } else {
            let place = format!("{}?sig={MOVED}", request.path.split('?').next().unwrap());
            right.only_status(302).with("location", place)
        }
    });
    let headers = |name: &str, secret: &str| {
        let path = world.write(name, format!("Authorization: Basic {secret}\n"));
        path.to_str().unwrap().to_owned()
    };
    let (right, wrong) = (headers("right", WEB[1]), headers("wrong", OTHER[1]));
    let malformed = world.write("malformed", format!("{}\n", OTHER[0]));
    let (none, mnt) = (world.path("none"), world.path("mnt"));
    let url = server.url(&format!("/image?token={}", IN_URLS[2]));
    let mut shown = Shown::default();

    let options = ["--unpinned", "--no-cache", "--header-file", &right];
    shown.mount(&none, &mnt, &url, &options);
    let cache = world.path("cache").to_str().unwrap().to_owned();
    let options = ["--unpinned", "--cache", &cache, "--header-file", &right];
    shown.mount(&none, &mnt, &url, &options);
    shown.run(&none, args!["cache info --cache", &cache]);
    for command in ["ls", "info", "verify"] {
        let arguments = |headers: &str| args![command, &url, "--header-file", headers];
        shown.run(&none, arguments(&right)).succeeds();
        shown.run(&none, arguments(&wrong)).fails_saying("401");
        shown
            .run(&none, arguments(malformed.to_str().unwrap()))
            .fails();
    }
    let elsewhere = url.replace("127.0.0.1", "0.0.0.0");
    shown
        .run(
            &none,
            args!["ls", elsewhere, "--unpinned", "--header-file", &right],
        )
        .fails_saying("not sent without encryption");

    for scheme in ["https", "oci"] {
        let url = format!("{scheme}://me:{}@host/image:1?{}", IN_URLS[0], IN_URLS[2]);
        for arguments in [
            args!["ls", &url],
            args!["mount", &url, &mnt, "--unpinned"],
            args!["mount", &mnt, &mnt, "--sidecar", &url],
            args!["push", &mnt, &url],
        ] {
            shown.run(&none, arguments).is_wrong_usage();
        }
    }
    assert!(was_sent(&server.requests(), &format!("Basic {}", WEB[1])));
    assert!(was_sent(&server.requests(), &format!("Basic {}", OTHER[1])));
    let paths = server.requests().into_iter().map(|request| request.path);
    let paths: String = paths.collect();
    assert!(paths.contains(IN_URLS[2]) && paths.contains(MOVED));
    let secrets = [&WEB[..], &OTHER, &IN_URLS, &[MOVED]].concat();
    shown.assert_without(&secrets);
}

#[test]
fn passwords_and_tokens_of_registries_are_not_shown() {
    let world = needs!(World::with_mount_point());
    let expected = "Basic bWU6dmVyeS1zZWNyZXQ=";
    assert!(expected.ends_with(ME));
    let mut shown = Shown::default();
    for login in [
        RegistryLogin::Basic(expected),
        RegistryLogin::Token(Some(expected)),
    ] {
        let server = RegistryServer::start(login, None, |_, _, right| right);
        let tagged = format!("oci://{}/repository:1", server.host());
        let auth_file = world.path("auth.json");
        let log_in = |encoded: &str| {
            let entry = format!(r#"{{"auth": "{encoded}"}}"#);
            let text = format!(r#"{{"auths": {{"{}": {entry}}}}}"#, server.host());
            fs::write(&auth_file, text).unwrap();
        };
        let image = world.sealed_image("image");
        log_in(WRONG);
        shown
            .run(&auth_file, args!["push", &image, &tagged])
            .fails();
        log_in(ME);
        let pushed = shown.run(&auth_file, args!["push", &image, &tagged]);
        let name = pushed.succeeds().text().trim_end().to_owned();
        // It knows the manifest only by the name that it was stored under.
        let (_, digest) = name.split_once('@').unwrap();
        server.store_manifest(digest, server.manifest("1").unwrap());
        shown.mount(&auth_file, &world.path("mnt"), &name, &["--no-cache"]);
        shown
            .run(&auth_file, args!["ls", &name, "--no-cache"])
            .succeeds();
        // A token that is refused is renewed.
        server.expire_tokens();
        shown
            .run(&auth_file, args!["verify", &name, "--no-cache"])
            .succeeds();
        fs::write(&auth_file, format!(r#"{{"auths": "{ME}"}}"#)).unwrap();
        shown
            .run(&auth_file, args!["ls", &tagged, "--no-cache"])
            .fails();

        let requests = server.requests();
        assert!(was_sent(&requests, expected));
        assert!(was_sent(&requests, &format!("Basic {WRONG}")));
        let is_by_token = login != RegistryLogin::Basic(expected);
        assert_eq!(was_sent(&requests, "Bearer token-1"), is_by_token);
    }
    shown.assert_without(&[ME, PASSWORD, WRONG, WRONG_PASSWORD, "token-"]);
}

/// Tokens of docker-registry are signed.
#[test]
fn passwords_and_tokens_of_docker_registry_are_not_shown() {
    for login in [Login::Password, Login::Token] {
        let (world, elsewhere) = (World::new(), World::new());
        let image = world.image_with_sidecar("image");
        let registry = needs!(DockerRegistry::start(&elsewhere, login));
        let tagged = registry.image("image:1");
        let auth_file = elsewhere.path("registry/auth.json");
        let mut shown = Shown::default();
        registry.log_in(WRONG);
        shown
            .run(&auth_file, args!["push", &image, &tagged])
            .fails();
        registry.log_in(ME);
        shown
            .run(&auth_file, args!["push", &image, &tagged])
            .succeeds();
        let cat = args!["cat", &tagged, HELLO, "--no-cache"];
        shown.run(&auth_file, cat).succeeds();
        // What a signed token begins with, in base 64.
        shown.assert_without(&[ME, PASSWORD, WRONG, WRONG_PASSWORD, "eyJ"]);
    }
}
