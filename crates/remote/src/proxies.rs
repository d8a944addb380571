//! Which proxy a request goes through.

use std::{env, ffi::OsString};

use ureq::{Proxy, ProxyProtocol, http::Uri};

use crate::{Error, loopback::is_meant_as_this_machine};

/// Where the proxies for a scheme are looked for: the first of these variables that is set counts.
const FOR_HTTPS: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
const FOR_HTTP: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// Hosts that are reached without them.
const FOR_NONE: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The proxies that the environment names, for each scheme: an error if one cannot be used, as going around it
/// would not be what was asked for.
pub(crate) struct Proxies {
    https: Result<Option<Proxy>, Error>,
    http: Result<Option<Proxy>, Error>,
}

impl Proxies {
    /// Those of this process's environment.
    pub(crate) fn of_environment() -> Self {
        Self::of(|name| env::var_os(name))
    }

    /// Those of an environment, which `value` tells.
    pub(crate) fn of(value: impl Fn(&str) -> Option<OsString>) -> Self {
        let exceptions = FOR_NONE.iter().find_map(|name| value(name));
        let exceptions = exceptions.unwrap_or_default();
        let exceptions = exceptions.to_string_lossy();
        let first = |names: [&'static str; 4]| {
            let mut set = names.iter().filter_map(|name| Some((*name, value(name)?)));
            match set.next() {
                Some((variable, value)) if !value.is_empty() => value
                    .to_str()
                    .and_then(|text| proxy(text, &exceptions))
                    .map(Some)
                    .ok_or(Error::Proxy { variable }),
                _ => Ok(None),
            }
        };
        Self {
            https: first(FOR_HTTPS),
            http: first(FOR_HTTP),
        }
    }

    /// The proxy for a URL. There is never one for this machine: a proxy would read what is sent, and look for the
    /// host on its own machine.
    ///
    /// # Errors
    /// [`Error::Proxy`].
    pub(crate) fn of_url(&self, url: &Uri) -> Result<Option<Proxy>, Error> {
        if is_meant_as_this_machine(url.host().unwrap_or_default()) {
            return Ok(None);
        }
        match url.scheme_str() {
            Some("https") => self.https.clone(),
            _ => self.http.clone(),
        }
    }
}

/// The proxy that a text names; `None` if it is malformed, or of a kind that the client does not know.
fn proxy(text: &str, exceptions: &str) -> Option<Proxy> {
    let named = Proxy::new(text).ok()?;
    if !matches!(named.protocol(), ProxyProtocol::Http | ProxyProtocol::Https) {
        return None;
    }
    let mut proxy = Proxy::builder(named.protocol())
        .host(named.host())
        .port(named.port());
    if let Some(user) = named.username() {
        proxy = proxy.username(user);
    }
    if let Some(password) = named.password() {
        proxy = proxy.password(password);
    }
    let exceptions = exceptions.split(',').map(str::trim);
    for exception in exceptions.filter(|exception| !exception.is_empty()) {
        proxy = proxy.no_proxy(exception);
    }
    proxy.build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The proxies of an environment with these variables.
    fn with(variables: &[(&str, &str)]) -> Proxies {
        Proxies::of(|name| {
            let mut found = variables.iter();
            let (_, value) = found.find(|(own, _)| *own == name)?;
            Some(value.into())
        })
    }

    /// The host of the proxy for a URL, `-` without one, or the variable that cannot be used.
    fn chosen(proxies: &Proxies, url: &str) -> String {
        match proxies.of_url(&url.parse().unwrap()) {
            Ok(Some(proxy)) if proxy.is_no_proxy(&url.parse().unwrap()) => "-".to_owned(),
            Ok(Some(proxy)) => proxy.host().to_owned(),
            Ok(None) => "-".to_owned(),
            Err(Error::Proxy { variable }) => variable.to_owned(),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn each_scheme_has_its_own_proxy() {
        for (variables, https, http) in [
            (&[][..], "-", "-"),
            (&[("HTTPS_PROXY", "http://s")], "s", "-"),
            (&[("http_proxy", "p:3128")], "-", "p"),
            (&[("ALL_PROXY", "http://a")], "a", "a"),
            (
                &[("ALL_PROXY", "http://a"), ("https_proxy", "http://s")],
                "s",
                "a",
            ),
            (&[("ALL_PROXY", "http://a"), ("HTTP_PROXY", "")], "a", "-"),
        ] {
            let proxies = with(variables);
            assert_eq!(chosen(&proxies, "https://host/"), https, "{variables:?}");
            assert_eq!(chosen(&proxies, "http://host/"), http, "{variables:?}");
        }
    }

    #[test]
    fn exceptions_and_this_machine_have_none() {
        let proxies = with(&[
            ("ALL_PROXY", "http://p"),
            ("NO_PROXY", "own.org, .below.org"),
        ]);
        for (host, expected) in [
            ("host", "p"),
            ("own.org", "-"),
            ("a.below.org", "-"),
            ("localhost:1", "-"),
            ("registry.localhost", "-"),
            ("127.0.0.2", "-"),
            ("[::1]:1", "-"),
        ] {
            for scheme in ["http", "https"] {
                let url = format!("{scheme}://{host}/");
                assert_eq!(chosen(&proxies, &url), expected, "{url}");
            }
        }
    }

    #[test]
    fn unusable_proxies_are_named_and_not_shown() {
        for value in [
            "socks5://u:secret@p",
            "ftp://u:secret@p",
            "http://u:secret@",
            "secret secret",
        ] {
            let proxies = with(&[("HTTPS_PROXY", value)]);
            assert_eq!(chosen(&proxies, "https://host/"), "HTTPS_PROXY", "{value}");
            let error = proxies.of_url(&"https://host/".parse().unwrap());
            assert!(!error.unwrap_err().to_string().contains("secret"));
            // Nothing that does not need it fails.
            assert_eq!(chosen(&proxies, "http://host/"), "-");
            assert_eq!(chosen(&proxies, "https://localhost/"), "-");
        }
    }

    #[test]
    fn users_of_proxies_are_kept() {
        let proxies = with(&[("HTTPS_PROXY", "https://me:s%40@[::2]:8080")]);
        let proxy = proxies.of_url(&"https://host/".parse().unwrap());
        let proxy = proxy.unwrap().unwrap();
        assert_eq!(
            (proxy.username(), proxy.password()),
            (Some("me"), Some("s@"))
        );
        assert_eq!((proxy.host(), proxy.port()), ("[::2]", 8080));
        assert_eq!(proxy.protocol(), ProxyProtocol::Https);
    }
}
