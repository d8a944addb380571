//! What goes through a proxy.

use verimount_source::GRANULE;
use verimount_testkit::{HttpServer, RegistryLogin, RegistryServer};

use super::{
    content, patient, reads,
    registry::{BASIC, Login, image, upload},
    session,
};
use crate::{Error, RemoteOptions, Session, proxies::Proxies, registry::BlobDigest};

/// A proxy that connects nobody, and records who asks.
pub(super) fn proxy() -> HttpServer {
    HttpServer::start("", |_, _, right| right.only_status(403))
}

/// Has everything sent through a proxy that may be.
pub(super) fn through(session: Session, proxy: &HttpServer) -> Session {
    let url = proxy.url("");
    session.with_proxies(Proxies::of(|name| {
        (name == "ALL_PROXY").then(|| url.clone().into())
    }))
}

/// With whom the proxy was asked to connect.
pub(super) fn asked(proxy: &HttpServer) -> Vec<String> {
    let requests = proxy.requests().into_iter();
    requests
        .map(|request| format!("{} {}", request.method, request.path))
        .collect()
}

#[test]
fn other_machines_are_reached_through_a_proxy() {
    for (url, expected) in [
        ("http://host.example/file", "CONNECT host.example:80"),
        ("https://host.example:81/file", "CONNECT host.example:81"),
    ] {
        let proxy = proxy();
        let session = through(session(patient()), &proxy);
        let error = session.open(&url.parse().unwrap()).err();
        assert!(matches!(error, Some(Error::Unreachable(_))), "{error:?}");
        let asked = asked(&proxy);
        assert!(
            !asked.is_empty() && asked.iter().all(|one| one == expected),
            "{asked:?}"
        );
    }
}

#[test]
fn files_of_this_machine_are_read_without_a_proxy() {
    let (proxy, server) = (proxy(), HttpServer::honest(content()));
    let port = server.url("").rsplit_once(':').unwrap().1.to_owned();
    for host in ["127.0.0.1", "localhost"] {
        let options = RemoteOptions {
            headers: "Authorization: Bearer secret".parse().unwrap(),
            ..Default::default()
        };
        let session = through(Session::with_limits(options, patient()), &proxy);
        let url = format!("http://{host}:{port}/file");
        let file = session.open(&url.parse().unwrap()).unwrap();
        reads(&file, GRANULE, 10);
    }
    assert!(asked(&proxy).is_empty());
}

#[test]
fn registries_and_tokens_of_this_machine_are_asked_without_a_proxy() {
    let proxy = proxy();
    let server = RegistryServer::start(RegistryLogin::Token(Some(BASIC)), None, |_, _, it| it);
    let session = through(session(patient()), &proxy);
    let login = Login::at(&server);
    let repository = login.repository_in(&session, &server);
    let digest = BlobDigest::of(&content());
    assert!(!repository.has_blob(digest).unwrap());
    upload(&repository).unwrap();
    assert!(repository.has_blob(digest).unwrap());
    assert!(asked(&proxy).is_empty());
}

#[test]
fn where_a_redirect_leads_may_need_a_proxy() {
    let (proxy, server) = (
        proxy(),
        RegistryServer::start(RegistryLogin::None, None, |_, _, right| {
            right
                .only_status(307)
                .with("location", "http://host.example/")
        }),
    );
    let session = through(session(patient()), &proxy);
    let repository = Login::none().repository_in(&session, &server);
    let error = repository.manifest(&image(&server)).unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
    let url = format!("http://{}/file", server.host());
    let error = session.open(&url.parse().unwrap()).err();
    assert!(matches!(error, Some(Error::Unreachable(_))), "{error:?}");
    let asked = asked(&proxy);
    assert!(asked.len() >= 2, "{asked:?}");
    assert!(
        asked.iter().all(|one| one == "CONNECT host.example:80"),
        "{asked:?}"
    );
}
