use std::{fmt, str::FromStr, sync::Arc};

use thiserror::Error;
use ureq::http::{Uri, uri::Authority};
use verimount_names::printable;

use crate::loopback::is_this_machine;

/// Where a file is on a web server: an absolute `http` or `https` URL without user and password.
///
/// On display it has no query, which may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteUrl(Arc<Uri>);

/// Why a text is not a [`RemoteUrl`]. The text is not repeated, as it may contain secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseUrlError {
    /// It is malformed, or has no host.
    #[error("it is not a valid URL")]
    Malformed,
    /// It has a scheme other than `http` and `https`.
    #[error("only http and https are supported")]
    Scheme,
    /// It has a user or password, which other users would see in the list of processes.
    #[error("a URL with a user or password is not accepted")]
    Credentials,
    /// It has a fragment, which no server is told.
    #[error("a URL ends before `#`: in the name of a file it is written %23")]
    Fragment,
}

impl RemoteUrl {
    /// The last component of its path; it may be empty.
    pub fn file_name(&self) -> &str {
        let path = self.0.path();
        path.rsplit_once('/').map_or(path, |(_, name)| name)
    }

    /// The URL of the file beside this one whose name is longer by `suffix`.
    ///
    /// # Errors
    /// [`ParseUrlError::Malformed`] if the result is not a URL.
    pub fn with_suffix(&self, suffix: &str) -> Result<Self, ParseUrlError> {
        let path = self.0.path();
        let longer = match self.0.query() {
            Some(query) => format!("{path}{suffix}?{query}"),
            None => format!("{path}{suffix}"),
        };
        let mut parts = Uri::clone(&self.0).into_parts();
        let longer = longer.parse().map_err(|_| ParseUrlError::Malformed)?;
        parts.path_and_query = Some(longer);
        let uri = Uri::from_parts(parts).map_err(|_| ParseUrlError::Malformed)?;
        Ok(Self(uri.into()))
    }

    /// Its scheme, host and port; `None` if it has a query.
    pub(crate) fn origin(&self) -> Option<String> {
        self.0.query().is_none().then(|| self.server()).flatten()
    }

    /// Its scheme, host and port.
    pub(crate) fn server(&self) -> Option<String> {
        let (scheme, host) = (self.0.scheme_str()?, self.0.host()?.to_ascii_lowercase());
        let usual = if scheme == "https" { 443 } else { 80 };
        let port = self.0.port_u16().unwrap_or(usual);
        Some(format!("{scheme}://{host}:{port}"))
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.0
    }

    /// Where a redirect from here leads (RFC 3986, 5.2); `None` if that is not a URL. What URLs cannot have in them is escaped, as
    /// clients do: some servers send names of files as they are.
    pub(crate) fn joined(&self, location: &[u8]) -> Option<Self> {
        let location = &escaped(location);
        let location = location.split('#').next().unwrap_or_default();
        let scheme = self.0.scheme_str().unwrap_or_default();
        let authority = self.0.authority()?;
        let (path, query) = match location.split_once('?') {
            Some((path, query)) => (path, format!("?{query}")),
            None => (location, String::new()),
        };
        let text = if let Some((_, rest)) = path.split_once(':')
            && rest.starts_with("//")
        {
            location.to_owned()
        } else if path.starts_with("//") {
            format!("{scheme}:{location}")
        } else {
            let folder = self
                .0
                .path()
                .rsplit_once('/')
                .map_or("", |(folder, _)| folder);
            let path = match path {
                "" => self.0.path().to_owned(),
                path if path.starts_with('/') => without_dots(path),
                path => without_dots(&format!("{folder}/{path}")),
            };
            format!("{scheme}://{authority}{path}{query}")
        };
        text.parse().ok()
    }

    /// Whether both are at one server, reached in the same way.
    pub(crate) fn is_same_server(&self, other: &Self) -> bool {
        let server = |url: &Self| (url.0.scheme().cloned(), url.0.authority().cloned());
        server(self) == server(other)
    }

    /// Whether nobody on the way can read what is sent.
    pub(crate) fn is_confidential(&self) -> bool {
        self.0.scheme_str() == Some("https") || is_this_machine(self.0.host().unwrap_or_default())
    }
}

/// With each byte escaped that is in no URL (RFC 3986, 2), such as those of a space or of letters beyond ASCII.
fn escaped(location: &[u8]) -> String {
    let is_in_urls =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte);
    let escaped = location.iter().map(|&byte| {
        if is_in_urls(byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    });
    escaped.collect()
}

/// Whether there is something behind the host that is no port. The parser takes it for no port at all.
pub(crate) fn has_bad_port(authority: &Authority) -> bool {
    let end = authority.as_str().rsplit_once(':').map(|(_, end)| end);
    let has_port = end.is_some_and(|end| !end.contains(']'));
    has_port && authority.port_u16().is_none()
}

/// An absolute path without its segments `.` and `..` (RFC 3986, 5.2.4).
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            other => kept.push(other),
        }
        if matches!(segment, "." | "..") && segments.peek().is_none() {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

impl FromStr for RemoteUrl {
    type Err = ParseUrlError;

    fn from_str(text: &str) -> Result<Self, ParseUrlError> {
        if text.contains('#') {
            return Err(ParseUrlError::Fragment);
        }
        let uri: Uri = text.parse().map_err(|_| ParseUrlError::Malformed)?;
        match uri.scheme_str() {
            Some("http" | "https") => {}
            Some(_) => return Err(ParseUrlError::Scheme),
            None => return Err(ParseUrlError::Malformed),
        }
        let authority = uri.authority().ok_or(ParseUrlError::Malformed)?;
        if authority.as_str().contains('@') {
            return Err(ParseUrlError::Credentials);
        }
        if authority.host().is_empty() || has_bad_port(authority) {
            Err(ParseUrlError::Malformed)
        } else {
            Ok(Self(uri.into()))
        }
    }
}

impl fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.0.scheme_str().unwrap_or_default();
        let authority = self
            .0
            .authority()
            .map_or("", |authority| authority.as_str());
        let path = self.0.path();
        write!(f, "{scheme}://{}{}", printable(authority), printable(path))
    }
}

impl fmt::Debug for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_is_the_server() {
        let origin = |text: &str| text.parse::<RemoteUrl>().unwrap().origin();
        for same in ["https://Host/a", "HTTPS://host:443/b", "https://host"] {
            assert_eq!(origin(same).as_deref(), Some("https://host:443"), "{same}");
        }
        for (other, expected) in [
            ("http://host/a", "http://host:80"),
            ("https://host:8443/a", "https://host:8443"),
            ("https://other/a", "https://other:443"),
            ("http://[::1]/a", "http://[::1]:80"),
        ] {
            assert_eq!(origin(other).as_deref(), Some(expected));
        }
        assert_eq!(origin("https://host/a?token=secret"), None);
    }

    fn url(text: &str) -> RemoteUrl {
        text.parse().unwrap()
    }

    #[test]
    fn secrets_are_not_shown() {
        let url = url("https://host:8443/a/app.img?signature=secret");
        assert_eq!(url.to_string(), "https://host:8443/a/app.img");
        assert!(!format!("{url:?}").contains("secret"));
        let refused = "https://user:secret@host/app.img".parse::<RemoteUrl>();
        assert_eq!(refused, Err(ParseUrlError::Credentials));
        let refused = "https://host/app#secret".parse::<RemoteUrl>();
        assert_eq!(refused, Err(ParseUrlError::Fragment));
    }

    #[test]
    fn names_and_neighbours() {
        let url = url("http://host/a/app.img?token=1");
        assert_eq!(url.file_name(), "app.img");
        let beside = url.with_suffix(".verity").unwrap();
        assert_eq!(beside.uri(), "http://host/a/app.img.verity?token=1");
        assert_eq!(beside.file_name(), "app.img.verity");
    }

    #[test]
    fn redirects_are_relative_to_where_they_come_from() {
        for (location, expected) in [
            ("https://other/x?y#z", Some("https://other/x?y")),
            ("//other/x", Some("http://other/x")),
            ("/x/./y", Some("http://host:8/x/y")),
            (
                "x?u=http://other/",
                Some("http://host:8/a/x?u=http://other/"),
            ),
            ("../x", Some("http://host:8/x")),
            ("../../../x/..", Some("http://host:8/")),
            ("?c", Some("http://host:8/a/b?c")),
            ("ftp://other/x", None),
            ("http://me:secret@other/x", None),
            ("http://other:8x/", None),
            ("a b", Some("http://host:8/a/a%20b")),
            ("/é/%20", Some("http://host:8/%C3%A9/%20")),
            ("a{<\\\"", Some("http://host:8/a/a%7B%3C%5C%22")),
            ("http://hé/", None),
        ] {
            let joined = url("http://host:8/a/b?query").joined(location.as_bytes());
            let expected = expected.map(url);
            assert_eq!(joined, expected, "{location}");
        }
    }

    #[test]
    fn secrets_stay_at_their_server() {
        let origin = url("https://host/a");
        for (other, is_same) in [
            ("https://host/b?c", true),
            ("https://HOST/a", true),
            ("http://host/a", false),
            ("https://host:444/a", false),
            ("https://other/a", false),
        ] {
            assert_eq!(origin.is_same_server(&url(other)), is_same, "{other}");
        }
        for (text, is_confidential) in [
            ("https://host/a", true),
            ("http://127.0.0.1:1/a", true),
            ("http://[::1]/a", true),
            ("http://localhost/a", true),
            ("http://host/a", false),
            ("http://127.0.0.1.host/a", false),
        ] {
            assert_eq!(url(text).is_confidential(), is_confidential, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for (text, error) in [
            ("http://", ParseUrlError::Malformed),
            ("/app.img", ParseUrlError::Malformed),
            ("http://host/a b", ParseUrlError::Malformed),
            ("ftp://host/app.img", ParseUrlError::Scheme),
        ] {
            assert_eq!(text.parse::<RemoteUrl>(), Err(error), "{text}");
        }
    }
}
