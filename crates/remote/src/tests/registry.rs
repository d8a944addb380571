//! Registries that are right, wrong and hostile.

use std::{
    fs,
    ops::ControlFlow,
    sync::{Arc, Barrier, Mutex},
    thread,
    time::Duration,
};

use tempfile::TempDir;
use verimount_source::GRANULE;
use verimount_testkit::{
    HttpAnswer, HttpEnd, HttpPace, HttpRequest, HttpServer, RegistryLogin, RegistryServer, go_on,
};

use super::{content, impatient, patient, read, reads, session};
use crate::{
    Error, RemoteFile, Session,
    limits::Limits,
    registry::{
        AuthFiles, BlobDigest, Descriptor, Manifest, ManifestError, Reference, Repository, Rights,
    },
};

mod elsewhere;

/// What is sent for the user `me` with the password `secret`.
pub(super) const BASIC: &str = "Basic bWU6c2VjcmV0";

impl Repository {
    /// The manifest of an image, and the digest of its bytes.
    pub(super) fn manifest(&self, image: &Reference) -> Result<(Manifest, BlobDigest), Error> {
        let bytes = self.manifest_bytes(image)?;
        Ok((Manifest::parse(&bytes)?, BlobDigest::of(&bytes)))
    }
}

/// A file of credentials in a folder of its own.
pub(super) struct Login {
    folder: TempDir,
}

impl Login {
    pub(super) fn none() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    /// As `docker login` stores it for the user `me` with the password `secret`.
    pub(super) fn at(server: &RegistryServer) -> Self {
        let login = Self::none();
        login.write(&format!(
            r#"{{"auths": {{"{}": {{"auth": "bWU6c2VjcmV0"}}}}}}"#,
            server.host()
        ));
        login
    }

    fn write(&self, text: &str) {
        fs::write(self.folder.path().join("auth.json"), text).unwrap();
    }

    fn repository(&self, server: &RegistryServer, limits: Limits) -> Repository {
        self.repository_in(&session(limits), server)
    }

    pub(super) fn repository_in(&self, session: &Session, server: &RegistryServer) -> Repository {
        let files = AuthFiles::new([self.folder.path().join("auth.json")]);
        Repository::with(&image(server), Rights::Push, false, files, session)
    }
}

pub(super) fn image(server: &RegistryServer) -> Reference {
    let text = format!("oci://{}/repository:tag", server.host());
    text.parse().unwrap()
}

fn descriptor(bytes: &[u8]) -> Descriptor {
    Descriptor {
        media_type: "application/octet-stream".to_owned(),
        digest: BlobDigest::of(bytes),
        size: bytes.len() as u64,
        annotations: [].into(),
    }
}

fn manifest() -> Manifest {
    let config = descriptor(b"{}");
    Manifest::artifact("a/b", config, vec![descriptor(&content())], [].into())
}

/// Stores the manifest and its blob.
fn fill(server: &RegistryServer) {
    let layer = descriptor(&content());
    server.store_blob(&layer.digest.to_string(), content());
    server.store_manifest("tag", manifest().to_bytes());
}

fn open_blob(repository: &Repository) -> Result<Arc<RemoteFile>, Error> {
    repository.blob(&descriptor(&content()))
}

pub(super) fn upload(repository: &Repository) -> Result<(), Error> {
    repository.upload(BlobDigest::of(&content()), &content(), &mut go_on)
}

/// How many requests went to this path.
fn count(requests: &[HttpRequest], start: &str) -> usize {
    let matching = requests.iter();
    matching
        .filter(|request| request.path.starts_with(start))
        .count()
}

#[test]
fn what_is_stored_is_read() {
    for rules in [
        RegistryLogin::None,
        RegistryLogin::Basic(BASIC),
        RegistryLogin::Token(None),
        RegistryLogin::Token(Some(BASIC)),
    ] {
        let server = RegistryServer::start(rules, None, |_, _, right| right);
        let login = Login::at(&server);
        let repository = login.repository(&server, patient());
        let digest = BlobDigest::of(&content());
        assert!(!repository.has_blob(digest).unwrap());
        upload(&repository).unwrap();
        assert!(repository.has_blob(digest).unwrap());
        assert_eq!(server.blob(&digest.to_string()), Some(content()));
        let stored = repository.store_manifest(&image(&server), &manifest());
        let stored = stored.unwrap();
        let found = repository.manifest(&image(&server)).unwrap();
        assert_eq!(found, (manifest(), stored));
        let file = open_blob(&repository).unwrap();
        reads(&file, 0, content().len());
        // One token is for the repository and its blobs.
        let tokens = count(&server.requests(), "/token");
        assert!(tokens <= 1, "{rules:?}: {tokens}");
    }
}

#[test]
fn tokens_are_asked_for_with_what_the_registry_wants_to_know() {
    let server = RegistryServer::start(RegistryLogin::Token(Some(BASIC)), None, |_, _, it| it);
    fill(&server);
    let login = Login::at(&server);
    let repository = login.repository(&server, patient());
    repository.manifest(&image(&server)).unwrap();
    let requests = server.requests();
    let paths: Vec<_> = requests.iter().map(|it| it.path.as_str()).collect();
    let token = "/token?scope=repository:repository:pull,push&service=test";
    let encoded = token.replace(':', "%3A").replace(',', "%2C");
    assert!([token, &*encoded].contains(&paths[1]), "{paths:?}");
    assert_eq!(paths[0], "/v2/repository/manifests/tag");
    assert_eq!(paths[2], paths[0]);
    let told: Vec<_> = requests
        .iter()
        .map(|it| it.header("authorization"))
        .collect();
    assert_eq!(told, [None, Some(BASIC), Some("Bearer token-1")]);
}

#[test]
fn an_identity_token_is_exchanged() {
    let server = RegistryServer::start(RegistryLogin::Token(None), None, |_, _, it| it);
    fill(&server);
    let login = Login::none();
    login.write(&format!(
        r#"{{"auths": {{"{}": {{"identitytoken": "secret/1"}}}}}}"#,
        server.host()
    ));
    let repository = login.repository(&server, patient());
    repository.manifest(&image(&server)).unwrap();
    let asked = server.requests().remove(1);
    assert_eq!((&*asked.method, &*asked.path), ("POST", "/token"));
    let form = String::from_utf8(asked.body).unwrap();
    assert!(form.contains("grant_type=refresh_token"), "{form}");
    assert!(form.contains("refresh_token=secret%2F1"), "{form}");
}

#[test]
fn a_token_that_expires_is_renewed_once_for_all() {
    const READERS: usize = 8;
    let server = RegistryServer::start(RegistryLogin::Token(None), None, |_, _, it| it);
    let bytes = verimount_testkit::noise(READERS * (8 << 20), 1);
    let blob = descriptor(&bytes);
    server.store_blob(&blob.digest.to_string(), bytes.clone());
    let repository = Login::none().repository(&server, patient());
    let file = repository.blob(&blob).unwrap();
    assert_eq!(count(&server.requests(), "/token"), 1);
    server.expire_tokens();
    thread::scope(|scope| {
        for reader in 0..READERS {
            let (file, bytes) = (&file, &bytes);
            scope.spawn(move || {
                let at = (reader << 23) + GRANULE as usize;
                let read = read(file, at as u64, 1000).unwrap();
                assert_eq!(read, bytes[at..][..1000]);
            });
        }
    });
    assert_eq!(count(&server.requests(), "/token"), 2);
}

#[test]
fn all_that_wait_for_an_attempt_share_its_failure() {
    const ASKING: usize = 8;
    let all_are_refused = Barrier::new(ASKING);
    let server = RegistryServer::start(RegistryLogin::Token(None), None, move |_, asked, right| {
        if asked.path.starts_with("/token") {
            right.only_status(404)
        } else {
            all_are_refused.wait();
            right
        }
    });
    let repository = Login::none().repository(&server, patient());
    thread::scope(|scope| {
        for _ in 0..ASKING {
            scope.spawn(|| {
                let failed = repository.has_blob(BlobDigest::of(b""));
                assert_eq!(failed, Err(Error::NotFound { status: 404 }));
            });
        }
    });
    assert_eq!(count(&server.requests(), "/token"), 1);
}

#[test]
fn credentials_that_changed_meanwhile_are_read_again() {
    let server = RegistryServer::start(RegistryLogin::Basic(BASIC), None, |_, _, it| it);
    fill(&server);
    let login = Login::none();
    let repository = login.repository(&server, patient());
    let host = server.host().to_owned();
    let error = repository.manifest(&image(&server)).unwrap_err();
    assert_eq!(error, Error::NoCredentials { host: host.clone() });
    // Of the user `me` with the password `wrong`.
    login.write(&format!(
        r#"{{"auths": {{"{host}": {{"auth": "bWU6d3Jvbmc="}}}}}}"#
    ));
    let error = repository.manifest(&image(&server)).unwrap_err();
    assert_eq!(error, Error::Forbidden { status: 401 });
    login.write(&format!(
        r#"{{"auths": {{"{host}": {{"auth": "bWU6c2VjcmV0"}}}}}}"#
    ));
    repository.manifest(&image(&server)).unwrap();
}

#[test]
fn a_manifest_with_another_digest_is_refused() {
    let server = RegistryServer::honest();
    fill(&server);
    let asked = BlobDigest::of(b"other");
    server.store_manifest(&asked.to_string(), manifest().to_bytes());
    let repository = Login::none().repository(&server, patient());
    let pinned = image(&server).with_digest(asked);
    let actual = BlobDigest::of(&manifest().to_bytes());
    let expected = asked;
    assert_eq!(
        repository.manifest(&pinned),
        Err(Error::WrongDigest { expected, actual })
    );
    assert!(
        repository
            .manifest(&image(&server).with_digest(actual))
            .is_err()
    );
    server.store_manifest(&actual.to_string(), manifest().to_bytes());
    let pinned = image(&server).with_digest(actual);
    assert_eq!(repository.manifest(&pinned), Ok((manifest(), actual)));
}

#[test]
fn manifests_are_bounded_and_have_names_for_their_defects() {
    let large = || {
        let mut bytes = manifest().to_bytes();
        bytes.resize((4 << 20) + 1, b' ');
        bytes
    };
    let index = br#"{"schemaVersion": 2, "manifests": []}"#.to_vec();
    for (bytes, error) in [
        (large(), Error::LargeManifest(4 << 20)),
        (index, Error::Manifest(ManifestError::Index)),
        (Vec::new(), Error::Manifest(ManifestError::Malformed)),
        (vec![0xff; 100], Error::Manifest(ManifestError::Malformed)),
    ] {
        let server = RegistryServer::honest();
        server.store_manifest("tag", bytes);
        let repository = Login::none().repository(&server, patient());
        assert_eq!(repository.manifest(&image(&server)), Err(error));
    }
}

#[test]
fn an_endless_manifest_ends() {
    let server = RegistryServer::start(RegistryLogin::None, None, |_, _, right| {
        let mut endless = right
            .without("content-length")
            .with("transfer-encoding", "chunked");
        let chunk = [b"100000\r\n".as_slice(), &[b' '; 1 << 20], b"\r\n"].concat();
        endless.body = chunk.repeat(8);
        endless.end = HttpEnd::Silent;
        endless
    });
    fill(&server);
    let repository = Login::none().repository(&server, patient());
    let error = repository.manifest(&image(&server));
    assert_eq!(error, Err(Error::LargeManifest(4 << 20)));
}

#[test]
fn a_manifest_that_never_ends_to_arrive_is_given_up() {
    let server = RegistryServer::start(RegistryLogin::None, None, |_, _, mut right| {
        right.pace = Some(HttpPace {
            piece: 1,
            pause: Duration::from_millis(20),
        });
        right
    });
    fill(&server);
    let limits = Limits {
        manifest: Duration::from_millis(50),
        ..impatient()
    };
    let repository = Login::none().repository(&server, limits);
    let error = repository.manifest(&image(&server));
    assert!(matches!(error, Err(Error::GaveUp { .. })), "{error:?}");
}

#[test]
fn a_blob_has_the_size_that_the_manifest_says() {
    let server = RegistryServer::honest();
    fill(&server);
    let repository = Login::none().repository(&server, patient());
    for size in [0, 1, u64::MAX] {
        let blob = Descriptor {
            size,
            ..descriptor(&content())
        };
        let (expected, actual) = (size, content().len() as u64);
        let error = repository.blob(&blob).err();
        assert_eq!(error, Some(Error::BlobSize { expected, actual }));
    }
}

#[test]
fn refusals_have_their_names() {
    for (status, expected) in [
        (403, Error::Forbidden { status: 403 }),
        (404, Error::NotFound { status: 404 }),
        (400, Error::Status { status: 400 }),
        // Without a challenge.
        (401, Error::Forbidden { status: 401 }),
        (201, Error::Status { status: 201 }),
    ] {
        let server = RegistryServer::start(RegistryLogin::None, None, move |_, _, right| {
            right.only_status(status)
        });
        fill(&server);
        let login = Login::at(&server);
        let repository = login.repository(&server, patient());
        let error = repository.manifest(&image(&server)).unwrap_err();
        assert_eq!(error, expected);
    }
}

#[test]
fn a_busy_registry_is_asked_again() {
    for status in [429, 500, 503] {
        let server =
            RegistryServer::start(RegistryLogin::Token(None), None, move |number, _, right| {
                match number % 3 {
                    0 => right.only_status(status),
                    _ => right,
                }
            });
        fill(&server);
        let repository = Login::none().repository(&server, patient());
        assert_eq!(repository.manifest(&image(&server)).unwrap().0, manifest());
        upload(&repository).unwrap();
    }
}

#[test]
fn a_registry_that_wants_to_be_left_alone_is() {
    for (path, requests) in [("/v2/", 1), ("/token", 2)] {
        let script = move |_, request: &HttpRequest, right: HttpAnswer| {
            if request.path.starts_with(path) && right.status == 200 {
                // Far more than fit into the deadline.
                right.only_status(429).with("retry-after", 100_000)
            } else {
                right
            }
        };
        let login = match path {
            "/token" => RegistryLogin::Token(None),
            _ => RegistryLogin::None,
        };
        let server = RegistryServer::start(login, None, script);
        fill(&server);
        let repository = Login::none().repository(&server, patient());
        match repository.manifest(&image(&server)) {
            Err(Error::GaveUp { last, .. }) => assert_eq!(*last, Error::Busy { status: 429 }),
            other => panic!("{other:?}"),
        }
        assert_eq!(server.requests().len(), requests);
    }
}

#[test]
fn tokens_from_nonsense_are_refused() {
    type Change = fn(HttpAnswer) -> HttpAnswer;
    let cases: [(Change, Error); 6] = [
        (|it| with_body(it, b"{}"), Error::BadToken),
        (|it| with_body(it, b"nonsense"), Error::BadToken),
        (
            |it| with_body(it, br#"{"token": "a\r\nb: c"}"#),
            Error::BadToken,
        ),
        (|it| with_body(it, &[b' '; 20_000]), Error::BadToken),
        (|it| it.only_status(404), Error::NotFound { status: 404 }),
        (
            |it| it.only_status(302).with("location", "/"),
            Error::Status { status: 302 },
        ),
    ];
    for (change, expected) in cases {
        let script = move |_, request: &HttpRequest, right| {
            if request.path.starts_with("/token") {
                change(right)
            } else {
                right
            }
        };
        let server = RegistryServer::start(RegistryLogin::Token(None), None, script);
        fill(&server);
        let repository = Login::none().repository(&server, patient());
        let error = repository.manifest(&image(&server)).unwrap_err();
        assert_eq!(error, expected);
    }
}

fn with_body(mut answer: HttpAnswer, body: &[u8]) -> HttpAnswer {
    answer.body = body.to_vec();
    answer.with("content-length", body.len())
}

#[test]
fn a_token_that_is_not_accepted_does_not_make_a_loop() {
    let server = RegistryServer::start(RegistryLogin::None, None, |_, request, right| {
        if request.path.starts_with("/token") {
            HttpAnswer::of(br#"{"access_token": "1"}"#, request)
        } else {
            let host = request.header("host").unwrap();
            let challenge = format!("Bearer realm=\"http://{host}/token\"");
            right.only_status(401).with("www-authenticate", challenge)
        }
    });
    let repository = Login::none().repository(&server, patient());
    for _ in 0..2 {
        let error = repository.manifest(&image(&server)).unwrap_err();
        assert_eq!(error, Error::Forbidden { status: 401 });
    }
    assert_eq!(server.requests().len(), 5);
}

#[test]
fn credentials_are_not_given_to_a_server_of_tokens_without_encryption() {
    // The host is not this machine by its name, so that tokens must be fetched with encryption.
    for realm in [
        "http://example.org/token",
        "ftp://127.0.0.1/",
        "nonsense",
        "/token",
    ] {
        let server = RegistryServer::start(RegistryLogin::None, None, move |_, _, right| {
            let challenge = format!("Bearer realm=\"{realm}\"");
            right.only_status(401).with("www-authenticate", challenge)
        });
        let login = Login::at(&server);
        let repository = login.repository(&server, patient());
        let error = repository.manifest(&image(&server)).unwrap_err();
        assert_eq!(error, Error::BadRealm, "{realm}");
    }
}

#[test]
fn an_upload_that_breaks_off_begins_again() {
    let server =
        RegistryServer::start(RegistryLogin::None, None, |number, _, right| match number {
            1 => HttpAnswer {
                end: HttpEnd::Unanswered,
                ..right
            },
            3 => right.only_status(503),
            _ => right,
        });
    let repository = Login::none().repository(&server, patient());
    let sent = Mutex::new(0);
    let progress = &mut |bytes: u64| {
        *sent.lock().unwrap() += bytes;
        ControlFlow::Continue(())
    };
    let digest = BlobDigest::of(&content());
    repository.upload(digest, &content(), progress).unwrap();
    assert_eq!(server.blob(&digest.to_string()), Some(content()));
    assert_eq!(server.requests().len(), 6);
    // What is sent again is no progress.
    assert_eq!(*sent.lock().unwrap(), content().len() as u64);
}

#[test]
fn an_upload_can_be_ended() {
    let server = RegistryServer::honest();
    let repository = Login::none().repository(&server, patient());
    let end = &mut |_: u64| ControlFlow::Break(());
    let digest = BlobDigest::of(&content());
    let error = repository.upload(digest, &content(), end).unwrap_err();
    assert_eq!(error, Error::Closed);
    assert_eq!(server.blob(&digest.to_string()), None);
}

#[test]
fn secrets_are_in_no_message() {
    let server = RegistryServer::start(RegistryLogin::Token(Some(BASIC)), None, |_, _, right| {
        right.with("location", "/?token=bWU6c2VjcmV0")
    });
    let login = Login::at(&server);
    let repository = login.repository(&server, patient());
    let errors = [
        repository.manifest(&image(&server)).unwrap_err(),
        upload(&repository).err().unwrap_or(Error::Closed),
        open_blob(&repository).err().unwrap(),
    ];
    for error in errors {
        let text = format!("{error} {error:?}");
        for secret in ["secret", "bWU6c2VjcmV0", "token-1"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[test]
fn an_empty_blob_is_stored() {
    let server = RegistryServer::honest();
    let repository = Login::none().repository(&server, patient());
    let empty: &[u8] = &[];
    let digest = BlobDigest::of(empty);
    repository
        .upload(digest, &empty.to_vec(), &mut go_on)
        .unwrap();
    assert_eq!(server.blob(&digest.to_string()), Some(Vec::new()));
}
