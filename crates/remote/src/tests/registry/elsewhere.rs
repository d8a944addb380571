//! Where registries send those who ask: nobody there is told who that is.

use super::*;

#[test]
fn storage_elsewhere_is_not_told_who_asks() {
    let storage = HttpServer::honest(content());
    let server = RegistryServer::start(
        RegistryLogin::Token(Some(BASIC)),
        Some(storage.url("/blob?signature=secret&digest=")),
        |_, _, right| right,
    );
    fill(&server);
    let login = Login::at(&server);
    let repository = login.repository(&server, patient());
    let file = open_blob(&repository).unwrap();
    reads(&file, GRANULE, 1000);
    let requests = storage.requests();
    assert!(!requests.is_empty());
    for request in requests {
        assert_eq!(request.header("authorization"), None);
        assert_eq!(request.header("cookie"), None);
    }
}

#[test]
fn only_what_is_found_at_the_end_of_redirects_is_there() {
    for (status, expected) in [
        (200, Ok(true)),
        (403, Ok(false)),
        (404, Ok(false)),
        (204, Ok(false)),
        (304, Ok(false)),
        (302, Err(Error::Redirects)),
    ] {
        let storage = HttpServer::start("", move |_, _, right| right.only_status(status));
        let server = RegistryServer::start(
            RegistryLogin::None,
            Some(storage.url("/blob?digest=")),
            |_, _, right| right,
        );
        fill(&server);
        let repository = Login::none().repository(&server, patient());
        assert_eq!(repository.has_blob(BlobDigest::of(&content())), expected);
    }
}

#[test]
fn a_redirect_is_no_blob() {
    for status in [300, 301, 302, 303, 304, 307, 308] {
        let server = RegistryServer::start(RegistryLogin::None, None, move |_, _, right| {
            right.only_status(status)
        });
        fill(&server);
        let repository = Login::none().repository(&server, patient());
        let found = repository.has_blob(BlobDigest::of(&content()));
        assert!(found.is_err(), "{status}: {found:?}");
    }
}

#[test]
fn storage_elsewhere_cannot_ask_for_credentials() {
    for login in [RegistryLogin::Token(Some(BASIC)), RegistryLogin::None] {
        let thief = HttpServer::honest("{\"token\": \"1\"}");
        let realm = format!("Bearer realm=\"{}\"", thief.url("/token"));
        let storage = HttpServer::start(content(), move |_, _, right| {
            right.only_status(401).with("www-authenticate", &realm)
        });
        let server = RegistryServer::start(login, Some(storage.url("/")), |_, _, right| right);
        fill(&server);
        let login = Login::at(&server);
        let repository = login.repository(&server, patient());
        let error = open_blob(&repository).err();
        assert_eq!(error, Some(Error::Forbidden { status: 401 }));
        assert_eq!(repository.has_blob(BlobDigest::of(&content())), Ok(false));
        assert!(thief.requests().is_empty());
    }
}

#[test]
fn an_upload_elsewhere_is_not_told_who_asks() {
    let elsewhere = HttpServer::start("", |_, _, right| right.only_status(201));
    let place = elsewhere.url("/upload?a=b");
    let script = move |_, request: &HttpRequest, right: HttpAnswer| match &*request.method {
        "POST" if right.status == 202 => right.with("location", &place),
        _ => right,
    };
    let server = RegistryServer::start(RegistryLogin::Basic(BASIC), None, script);
    let login = Login::at(&server);
    let repository = login.repository(&server, patient());
    upload(&repository).unwrap();
    let request = elsewhere.requests().remove(0);
    assert_eq!(request.header("authorization"), None);
    assert_eq!(request.body, content());
    let digest = BlobDigest::of(&content());
    assert_eq!(request.path, format!("/upload?a=b&digest={digest}"));
}

/// RFC 9110, 10.2.2.

#[test]
fn a_place_for_uploads_may_be_relative() {
    let script = |_, request: &HttpRequest, mut right: HttpAnswer| {
        if request.method == "POST" {
            let mut headers = right.headers.iter_mut();
            let (_, place) = headers.find(|(name, _)| name == "location").unwrap();
            *place = place.rsplit_once('/').unwrap().1.to_owned();
        }
        right
    };
    let server = RegistryServer::start(RegistryLogin::None, None, script);
    upload(&Login::none().repository(&server, patient())).unwrap();
    let digest = BlobDigest::of(&content());
    assert!(server.blob(&digest.to_string()).is_some());
}

#[test]
fn places_for_uploads_that_lead_nowhere_are_refused() {
    for place in [
        "",
        "ftp://127.0.0.1/",
        "http://",
        "http://me:pass@127.0.0.1/",
    ] {
        let server = RegistryServer::start(RegistryLogin::None, None, move |_, _, right| {
            right.with("location", place)
        });
        let repository = Login::none().repository(&server, patient());
        assert_eq!(upload(&repository), Err(Error::BadLocation), "{place}");
    }
}

#[test]
fn where_a_manifest_is_redirected_nobody_is_told_who_asks() {
    let elsewhere = HttpServer::honest(manifest().to_bytes());
    let location = elsewhere.url("/manifest");
    let login = RegistryLogin::Basic(BASIC);
    let server = RegistryServer::start(login, None, move |_, request, right| {
        if right.status == 200 && request.path.contains("/manifests/") {
            right.only_status(307).with("location", &location)
        } else {
            right
        }
    });
    fill(&server);
    let login = Login::at(&server);
    let repository = login.repository(&server, patient());
    let (found, _) = repository.manifest(&image(&server)).unwrap();
    assert_eq!(found, manifest());
    let requests = elsewhere.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].header("authorization"), None);
}
