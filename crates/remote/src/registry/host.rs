use std::fmt;

use ureq::http::Uri;

use crate::loopback::is_this_machine;

/// Where Docker Hub answers, which its names do not say.
const DOCKER_HUB: &str = "registry-1.docker.io";

/// A registry: its address, and how it is spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// `HOST` or `HOST:PORT`, as users write it.
    name: String,
    scheme: &'static str,
}

impl Host {
    /// `HOST` or `HOST:PORT`. It is spoken to without encryption if it is this machine, or if `plain_http`
    /// says so.
    pub(crate) fn new(name: &str, plain_http: bool) -> Self {
        let scheme = if plain_http || is_loopback(name) {
            "http"
        } else {
            "https"
        };
        let name = name.to_owned();
        Self { name, scheme }
    }

    /// Whether nobody on the way sees what is sent.
    pub(crate) fn is_private(&self) -> bool {
        self.scheme == "https" || is_loopback(&self.name)
    }

    /// Whether what is for this registry only may be sent to `uri`, to which it has pointed: not if that is
    /// less private.
    pub(crate) fn trusts(&self, uri: &Uri) -> bool {
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        match uri.scheme_str() {
            Some("https") => self.is_private(),
            Some("http") => is_loopback(&self.name) && is_loopback(authority),
            _ => false,
        }
    }

    /// Whether `uri` is on this registry itself.
    pub(crate) fn has(&self, uri: &Uri) -> bool {
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        uri.scheme_str() == Some(self.scheme) && authority.eq_ignore_ascii_case(self.address())
    }

    /// The URL of a path, which begins with a slash.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address())
    }

    /// Whether it is Docker Hub, under any of its names.
    pub(crate) fn is_docker_hub(&self) -> bool {
        ["docker.io", "index.docker.io", DOCKER_HUB].contains(&&*self.name)
    }

    fn address(&self) -> &str {
        if self.is_docker_hub() {
            DOCKER_HUB
        } else {
            &self.name
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

/// Whether `HOST` or `HOST:PORT` is this machine.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => host,
        _ => authority,
    };
    is_this_machine(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn only_this_machine_is_spoken_to_in_plain() {
        for (name, url) in [
            ("localhost:5000", "http://localhost:5000/v2/"),
            ("127.8.0.1", "http://127.8.0.1/v2/"),
            ("[::1]:5000", "http://[::1]:5000/v2/"),
            ("[::1]", "http://[::1]/v2/"),
            ("ghcr.io", "https://ghcr.io/v2/"),
            ("10.0.0.1:5000", "https://10.0.0.1:5000/v2/"),
            ("localhost.example.org", "https://localhost.example.org/v2/"),
            ("127.0.0.1.example.org", "https://127.0.0.1.example.org/v2/"),
            ("docker.io", "https://registry-1.docker.io/v2/"),
        ] {
            assert_eq!(Host::new(name, false).url("/v2/"), url);
        }
        assert_eq!(Host::new("a:5000", true).url("/"), "http://a:5000/");
    }

    #[test]
    fn credentials_stay_private() {
        let (there, here) = (Host::new("ghcr.io", false), Host::new("localhost:1", false));
        assert!(there.trusts(&uri("https://auth.example.org/token")));
        assert!(!there.trusts(&uri("http://ghcr.io/token")));
        // Another user of this machine could listen there.
        assert!(!there.trusts(&uri("http://127.0.0.1:8080/token")));
        assert!(here.trusts(&uri("http://127.0.0.1:8080/token")));
        assert!(!here.trusts(&uri("http://example.org/token")));
        let plain = Host::new("ghcr.io", true);
        assert!(!plain.is_private() && !plain.trusts(&uri("https://ghcr.io/token")));
        assert!(Host::new("localhost", true).is_private());
    }

    #[test]
    fn another_port_or_scheme_is_another_server() {
        let host = Host::new("ghcr.io", false);
        assert!(host.has(&uri("https://GHCR.io/v2/")));
        for other in [
            "http://ghcr.io/",
            "https://ghcr.io:444/",
            "https://io/",
            "/v2/",
        ] {
            assert!(!host.has(&uri(other)), "{other}");
        }
    }
}
