//! Object stores that are right, wrong and hostile.

use std::{ops::ControlFlow, process::Command, time::Duration};

use verimount_source::{GRANULE, ReadAt, ReadError};
use verimount_testkit::{HttpAnswer, HttpRequest, HttpServer, go_on, noise, tools};

use super::{
    content, patient,
    proxies::{asked, proxy, through},
    read, session,
};
use crate::{
    Error, Session,
    cloud::{Buckets, Cloud, ObjectName, buckets::Environment},
    limits::Limits,
};

const SECRET: &str = "very-secret";

/// A session with these variables in its environment.
fn with(variables: &[(&str, &str)]) -> Session {
    session(patient()).with_buckets(Buckets::new(Environment::of(variables)))
}

/// A session with a key for S3 at this server.
fn s3(server: &HttpServer) -> Session {
    with(&[
        ("AWS_ENDPOINT_URL", &server.url("")),
        ("AWS_REGION", "here"),
        ("AWS_ACCESS_KEY_ID", "me"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
    ])
}

fn name(text: &str) -> ObjectName {
    text.parse().unwrap()
}

fn object() -> ObjectName {
    name("s3://bucket/a/file 1")
}

fn paths(server: &HttpServer) -> Vec<String> {
    let requests = server.requests().into_iter();
    requests.map(|request| request.path).collect()
}

fn assert_reads(session: &Session, name: &ObjectName) {
    let file = session.open_object(name).unwrap();
    let start = GRANULE as usize;
    assert_eq!(
        read(&file, GRANULE, 10).unwrap(),
        content()[start..start + 10]
    );
}

#[test]
fn an_object_is_read_by_one_signed_url() {
    let server = HttpServer::honest(content());
    assert_reads(&s3(&server), &object());
    let paths = paths(&server);
    assert_eq!(paths.len(), 2);
    assert_eq!(paths[0], paths[1]);
    let (path, query) = paths[0].split_once('?').unwrap();
    assert_eq!(path, "/bucket/a/file%201");
    for part in [
        "X-Amz-Credential=me%2F",
        "X-Amz-Expires=900",
        "&X-Amz-Signature=",
    ] {
        assert!(query.contains(part), "{query}");
    }
    for request in server.requests() {
        assert_eq!(request.header("authorization"), None);
        assert!(!request.path.contains(SECRET));
    }
}

#[test]
fn an_expired_url_is_signed_again() {
    for status in [400, 401, 403] {
        let server = HttpServer::start(content(), move |number, _, right| match number {
            1 => right.only_status(status),
            _ => right,
        });
        assert_reads(&s3(&server), &object());
        assert_eq!(server.requests().len(), 3);
    }
}

#[test]
fn refused_credentials_are_not_tried_again() {
    for status in [301, 400, 401, 403] {
        let server = HttpServer::start(content(), move |_, _, right| right.only_status(status));
        let error = s3(&server).open_object(&object()).err();
        let cloud = Cloud::S3;
        assert_eq!(error, Some(Error::Refused { cloud, status }));
        assert_eq!(server.requests().len(), 1);
    }
    let server = HttpServer::start(content(), |_, _, right| right.only_status(404));
    let error = s3(&server).open_object(&object()).err();
    assert_eq!(error, Some(Error::NotFound { status: 404 }));
}

#[test]
fn headers_for_urls_are_not_sent() {
    let server = HttpServer::honest(content());
    let options = crate::RemoteOptions {
        headers: "X-Key: secret".parse().unwrap(),
        ..Default::default()
    };
    let environment = Environment::of(&[
        ("AWS_ENDPOINT_URL", &server.url("")),
        ("AWS_SKIP_SIGNATURE", "true"),
    ]);
    let session = Session::with_limits(options, patient());
    assert_reads(&session.with_buckets(Buckets::new(environment)), &object());
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.header("x-key").is_none())
    );
}

#[test]
fn a_public_object_needs_no_credentials() {
    let server = HttpServer::honest(content());
    let url = server.url("");
    for (text, path, variables) in [
        (
            "s3://bucket/file",
            "/bucket/file",
            vec![("AWS_ENDPOINT_URL", &*url), ("AWS_SKIP_SIGNATURE", "true")],
        ),
        (
            "gs://bucket/file",
            "/bucket/file",
            vec![
                ("GOOGLE_BASE_URL", &*url),
                ("GOOGLE_SKIP_SIGNATURE", "true"),
            ],
        ),
        (
            "az://container/file",
            "/container/file",
            vec![
                ("AZURE_STORAGE_ENDPOINT", &*url),
                ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
                ("AZURE_SKIP_SIGNATURE", "true"),
            ],
        ),
    ] {
        let before = server.requests().len();
        assert_reads(&with(&variables), &name(text));
        assert_eq!(paths(&server)[before..], [path, path]);
    }
}

/// Answers as the metadata service of a machine, too.
fn with_metadata(request: &HttpRequest, right: HttpAnswer) -> HttpAnswer {
    let roles = "/latest/meta-data/iam/security-credentials/";
    let text = match &*request.path {
        "/latest/api/token" => "token",
        path if path == roles => "role",
        path if path.starts_with(roles) => {
            r#"{"AccessKeyId": "instance", "SecretAccessKey": "very-secret", "Token": "session",
                "Expiration": "2999-01-01T00:00:00Z"}"#
        }
        _ => return right,
    };
    HttpAnswer::of(text.as_bytes(), request)
}

#[test]
fn credentials_of_the_machine_are_asked_for_once() {
    let server = HttpServer::start(content(), |_, request, right| with_metadata(request, right));
    let url = server.url("");
    let session = with(&[("AWS_ENDPOINT_URL", &url), ("AWS_METADATA_ENDPOINT", &url)]);
    assert_reads(&session, &object());
    assert_reads(&session, &name("s3://bucket/other"));
    let paths = paths(&server);
    let metadata = paths.iter().filter(|path| path.starts_with("/latest/"));
    assert_eq!(metadata.count(), 3);
    let signed = paths
        .iter()
        .filter(|path| path.contains("&X-Amz-Security-Token=session&"));
    assert_eq!(signed.count(), 4);
}

#[test]
fn settings_that_cannot_be_used_are_named() {
    let reason = |variables: &[(&str, &str)], text| {
        let error = with(variables).open_object(&name(text)).err().unwrap();
        assert!(!error.to_string().contains(SECRET), "{error}");
        error.to_string()
    };
    let missing = reason(&[("AWS_ACCESS_KEY_ID", "me")], "s3://bucket/file");
    assert!(missing.contains("SecretAccessKey"), "{missing}");
    let account = reason(&[], "az://container/file");
    assert!(account.contains("Account"), "{account}");
    let broken = format!(r#"{{"private_key": {{"{SECRET}": 1}}, "client_email": 1}}"#);
    let broken = reason(
        &[("GOOGLE_SERVICE_ACCOUNT_KEY", &broken)],
        "gs://bucket/file",
    );
    assert!(broken.contains("malformed"), "{broken}");
}

/// The variables that are read for a cloud.
struct Variables {
    /// An object of the cloud.
    object: &'static str,
    /// Settings that suffice.
    complete: &'static [(&'static str, &'static str)],
    plain: &'static [&'static str],
    urls: &'static [&'static str],
}

const VARIABLES: [Variables; 3] = [
    Variables {
        object: "s3://bucket/file",
        complete: &[
            ("AWS_ENDPOINT_URL", "https://192.0.2.1"),
            ("AWS_REGION", "here"),
            ("AWS_ACCESS_KEY_ID", "me"),
            ("AWS_SECRET_ACCESS_KEY", "key"),
        ],
        plain: &[
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_TOKEN",
            "AWS_REGION",
            "AWS_DEFAULT_REGION",
            "AWS_BUCKET",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_ROLE_ARN",
            "AWS_ROLE_SESSION_NAME",
            "AWS_SERVER_SIDE_ENCRYPTION",
            "AWS_SSE_KMS_KEY_ID",
            "AWS_SSE_CUSTOMER_KEY_BASE64",
            "AWS_USER_AGENT",
            "AWS_PROXY_URL",
            "AWS_SKIP_SIGNATURE",
            "AWS_ALLOW_HTTP",
        ],
        urls: &[
            "AWS_ENDPOINT",
            "AWS_ENDPOINT_URL",
            "AWS_ENDPOINT_URL_S3",
            "AWS_ENDPOINT_URL_STS",
            "AWS_METADATA_ENDPOINT",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        ],
    },
    Variables {
        object: "gs://bucket/file",
        complete: &[("GOOGLE_BASE_URL", "https://192.0.2.1")],
        plain: &[
            "GOOGLE_BEARER_TOKEN",
            "GOOGLE_BUCKET",
            "GOOGLE_USER_AGENT",
            "GOOGLE_SKIP_SIGNATURE",
            "GOOGLE_ALLOW_HTTP",
        ],
        urls: &["GOOGLE_BASE_URL"],
    },
    Variables {
        object: "az://container/file",
        complete: &[
            ("AZURE_STORAGE_ENDPOINT", "https://192.0.2.1"),
            ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
        ],
        plain: &[
            "AZURE_STORAGE_ACCOUNT_NAME",
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_ACCESS_KEY",
            "AZURE_STORAGE_SAS_TOKEN",
            "AZURE_STORAGE_SAS_KEY",
            "AZURE_STORAGE_TOKEN",
            "AZURE_CLIENT_ID",
            "AZURE_CLIENT_SECRET",
            "AZURE_TENANT_ID",
            "AZURE_OBJECT_ID",
            "AZURE_MSI_RESOURCE_ID",
            "AZURE_FABRIC_WORKLOAD_HOST",
            "AZURE_FABRIC_SESSION_TOKEN",
            "AZURE_FABRIC_CLUSTER_IDENTIFIER",
            "AZURE_CREDENTIAL_TYPE",
            "AZURE_STORAGE_ENCRYPTION_KEY",
            "AZURE_USE_AZURE_CLI",
        ],
        urls: &[
            "AZURE_ENDPOINT",
            "AZURE_STORAGE_ENDPOINT",
            "AZURE_AUTHORITY_HOST",
            "AZURE_MSI_ENDPOINT",
            "IDENTITY_ENDPOINT",
            "AZURE_FABRIC_TOKEN_SERVICE_URL",
        ],
    },
];

/// How an object is refused if a variable is set to this, besides what makes the other settings complete.
fn refusal(known: &Variables, variable: &str, value: &str) -> String {
    let others = known.complete.iter();
    let others = others.filter(|(name, _)| *name != variable);
    let variables: Vec<_> = others.copied().chain([(variable, value)]).collect();
    let session = with(&variables);
    let errors = [
        session.open_object(&name(known.object)).err(),
        session
            .store_object(&name(known.object), &content(), &mut go_on)
            .err(),
    ];
    let [opening, storing] = errors.map(|error| error.expect(variable).to_string());
    assert_eq!(opening, storing, "{variable}");
    assert_eq!(session.stats().requests, 0, "{variable}");
    opening
}

#[test]
fn values_that_no_header_may_have_are_named_and_not_shown() {
    for known in VARIABLES {
        for variable in known.plain.iter().chain(known.urls) {
            for value in [
                "very-secret\n",
                "very-secret\r",
                "very-\nsecret",
                "very-secret\u{7f}",
                "very-secr\u{e9}t",
            ] {
                let refusal = refusal(&known, variable, value);
                assert!(refusal.contains(&format!("{variable} ")), "{refusal}");
                assert!(!refusal.contains("very-sec"), "{refusal}");
            }
        }
    }
}

#[test]
fn urls_that_cannot_be_parsed_are_named_and_not_shown() {
    for known in VARIABLES {
        for variable in known.urls {
            for value in [
                "http://u:very-secret@[bad",
                "https://u:very-secret@host",
                "very-secret",
                "mailto:very-secret",
                "",
            ] {
                let refusal = refusal(&known, variable, value);
                assert!(refusal.contains(&format!("{variable} ")), "{refusal}");
                assert!(!refusal.contains("very-secret"), "{refusal}");
            }
        }
    }
}

#[test]
fn signatures_are_not_sent_without_encryption() {
    let session = with(&[
        ("AWS_ENDPOINT_URL", "http://192.0.2.1"),
        ("AWS_ACCESS_KEY_ID", "me"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
    ]);
    let expected = Error::PlainObjectStore { cloud: Cloud::S3 };
    assert_eq!(session.open_object(&object()).err(), Some(expected.clone()));
    let stored = session.store_object(&object(), &content(), &mut go_on);
    assert_eq!(stored, Err(expected));
    assert_eq!(session.stats().requests, 0);
}

/// The key of a service account, made by openssl; `None`, after a note, without it.
fn service_account(server: &HttpServer) -> Option<String> {
    let openssl = tools::find("openssl")?;
    let made = Command::new(openssl)
        .args(["genpkey", "-quiet", "-algorithm", "RSA"])
        .output();
    let made = made.unwrap();
    assert!(made.status.success(), "{made:?}");
    let account = serde_json::json!({
        "private_key": String::from_utf8(made.stdout).unwrap(),
        "private_key_id": "1",
        "client_email": "me@example.org",
        "gcs_base_url": server.url(""),
    });
    Some(account.to_string())
}

#[test]
fn an_object_of_google_is_read() {
    let server = HttpServer::start(content(), |number, _, right| match number {
        1 => right.only_status(400),
        _ => right,
    });
    let Some(account) = service_account(&server) else {
        return;
    };
    let session = with(&[("GOOGLE_SERVICE_ACCOUNT_KEY", &account)]);
    assert_reads(&session, &name("gs://bucket/a/file"));
    let paths = paths(&server);
    assert_eq!(paths.len(), 3);
    for path in paths {
        assert!(
            path.starts_with("/bucket/a/file?X-Goog-Algorithm="),
            "{path}"
        );
        assert!(path.contains("X-Goog-Signature="), "{path}");
    }
}

#[test]
fn an_object_of_azure_is_read() {
    let server = HttpServer::start(content(), |number, _, right| match number {
        1 => right.only_status(403),
        _ => right,
    });
    let url = server.url("");
    let account = [
        ("AZURE_STORAGE_ENDPOINT", &*url),
        ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
    ];
    let key = [
        account[0],
        account[1],
        ("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0"),
    ];
    assert_reads(&with(&key), &name("az://container/a/file"));
    let signed = paths(&server);
    assert_eq!(signed.len(), 3);
    for path in signed {
        assert!(path.starts_with("/container/a/file?"), "{path}");
        assert!(path.contains("&sig=") && path.contains("sp=r"), "{path}");
    }
    let token = [
        account[0],
        account[1],
        ("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=given"),
    ];
    assert_reads(&with(&token), &name("az://container/a/file"));
    assert_eq!(paths(&server)[3], "/container/a/file?sv=1&sig=given");
}

/// Accepts what is stored by the protocol of S3, and gives `content` to readers.
fn storing(content: Vec<u8>) -> HttpServer {
    HttpServer::start(content, |_, request, right| {
        let answer = |text: &str| HttpAnswer::of(text.as_bytes(), request);
        match &*request.method {
            "GET" => right,
            "POST" if request.path.contains("uploads") => answer(
                "<InitiateMultipartUploadResult><UploadId>7</UploadId></InitiateMultipartUploadResult>",
            ),
            "POST" => answer(
                "<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>",
            ),
            _ => answer(""),
        }
    })
}

/// What was sent, without what was only asked for.
fn sent(server: &HttpServer) -> Vec<HttpRequest> {
    let requests = server.requests().into_iter();
    requests.filter(|request| request.method != "GET").collect()
}

#[test]
fn a_small_object_is_stored_at_once() {
    let server = storing(content());
    let mut told = 0;
    let stored = s3(&server).store_object(&object(), &content(), &mut |bytes| {
        told += bytes;
        ControlFlow::Continue(())
    });
    assert_eq!(stored, Ok(()));
    assert_eq!(told, content().len() as u64);
    let sent = sent(&server);
    assert_eq!(sent.len(), 1);
    assert_eq!(
        (&*sent[0].method, &*sent[0].path),
        ("PUT", "/bucket/a/file%201")
    );
    assert!(sent[0].body == content());
    let authorization = sent[0].header("authorization").unwrap();
    assert!(authorization.starts_with("AWS4-HMAC-SHA256 Credential=me/"));
    assert!(!authorization.contains(SECRET));
}

#[test]
fn a_large_object_is_stored_in_parts() {
    let content = noise((8 << 20) + 1000, 1);
    let server = storing(content.clone());
    let stored = s3(&server).store_object(&object(), &content, &mut go_on);
    assert_eq!(stored, Ok(()));
    let sent = sent(&server);
    assert_eq!(sent.len(), 4);
    let parts = [&*sent[1].body, &*sent[2].body].concat();
    assert!(parts == content);
    assert!(sent[3].path.contains("uploadId=7"));
}

#[test]
fn an_upload_that_is_ended_leaves_nothing() {
    let content = noise((8 << 20) + 1000, 1);
    let server = storing(content.clone());
    let stored = s3(&server).store_object(&object(), &content, &mut |_| ControlFlow::Break(()));
    assert_eq!(stored, Err(Error::Closed));
    assert_eq!(sent(&server).last().unwrap().method, "DELETE");

    struct Unreadable;
    impl ReadAt for Unreadable {
        fn size(&self) -> u64 {
            1
        }
        fn read_exact_at(&self, _: &mut [u8], offset: u64) -> Result<(), ReadError> {
            let source = std::io::Error::other("bad sector");
            Err(ReadError::Io {
                offset,
                len: 1,
                source,
            })
        }
    }
    let stored = s3(&server).store_object(&object(), &Unreadable, &mut go_on);
    assert!(matches!(stored, Err(Error::ReadFailed(_))), "{stored:?}");
}

#[test]
fn what_was_not_stored_is_noticed() {
    let server = storing(content());
    let more = noise(content().len() + 1, 1);
    let store = |server: &HttpServer| s3(server).store_object(&object(), &more, &mut go_on);
    let expected = more.len() as u64;
    let actual = expected - 1;
    assert_eq!(store(&server), Err(Error::StoredSize { expected, actual }));
    for (status, error) in [
        (
            403,
            Error::Refused {
                cloud: Cloud::S3,
                status: 403,
            },
        ),
        (404, Error::NotFound { status: 404 }),
    ] {
        let refusing = HttpServer::start(content(), move |_, _, right| right.only_status(status));
        assert_eq!(store(&refusing), Err(error));
    }
}

#[test]
fn a_store_that_is_busy_is_asked_again() {
    let server = HttpServer::start(content(), |number, request, right| {
        match (number, &*request.method) {
            (0, _) => right.only_status(503),
            (_, "PUT") => HttpAnswer::of(b"", request),
            _ => right,
        }
    });
    let stored = s3(&server).store_object(&object(), &content(), &mut go_on);
    assert_eq!(stored, Ok(()));
    assert_eq!(sent(&server).len(), 2);

    let silent = HttpServer::start(content(), |_, _, right| right.only_status(503));
    // Also the time for each attempt, whose answer must arrive.
    let limits = Limits {
        read: Duration::from_secs(1),
        ..patient()
    };
    let session = session(limits).with_buckets(Buckets::new(Environment::of(&[
        ("AWS_ENDPOINT_URL", &silent.url("")),
        ("AWS_ACCESS_KEY_ID", "me"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
    ])));
    let stored = session.store_object(&object(), &content(), &mut go_on);
    assert_eq!(stored, Err(Error::Busy { status: 503 }));
}

#[test]
fn stores_of_this_machine_are_asked_without_a_proxy() {
    let (proxy, server) = (proxy(), HttpServer::honest(content()));
    let session = through(s3(&server), &proxy);
    session.open_object(&object()).unwrap();
    session
        .store_object(&object(), &content(), &mut go_on)
        .unwrap();
    assert!(asked(&proxy).is_empty());
}
