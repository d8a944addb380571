use std::str::FromStr;

use thiserror::Error;
use ureq::http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{
        ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, IF_RANGE, RANGE, TE, TRAILER,
        TRANSFER_ENCODING, UPGRADE,
    },
};

/// The most headers that are sent with each request.
const MAX_HEADERS: usize = 64;

/// Headers that are sent with each request, such as credentials. They are secret: they are not shown, are sent
/// only to the server of the URL that was given, not to where it redirects, and without encryption only to
/// this machine.
///
/// Their text has one on each line, as `Name: value`. Empty lines and those that begin with `#` are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Headers(HeaderMap);

/// Why a text is not a list of [`Headers`]. No part of it is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseHeadersError {
    /// A line is not `Name: value`.
    #[error("line {line} is not a header: a name, a colon and a value")]
    Malformed {
        /// Counted from 1.
        line: usize,
    },
    /// A header would change what is asked for.
    #[error("line {line} is a header that cannot be set: requests have their own")]
    Reserved {
        /// Counted from 1.
        line: usize,
    },
    /// There are too many.
    #[error("there are more than {MAX_HEADERS} headers")]
    TooMany,
}

/// Headers that decide which bytes are sent, and how.
const RESERVED: [HeaderName; 11] = [
    ACCEPT_ENCODING,
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    HOST,
    IF_RANGE,
    RANGE,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

impl Headers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.0.iter()
    }
}

impl FromStr for Headers {
    type Err = ParseHeadersError;

    fn from_str(text: &str) -> Result<Self, ParseHeadersError> {
        let mut headers = HeaderMap::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let (name, mut value) = parse(text).ok_or(ParseHeadersError::Malformed { line })?;
            if RESERVED.contains(&name) {
                return Err(ParseHeadersError::Reserved { line });
            }
            if headers.len() == MAX_HEADERS {
                return Err(ParseHeadersError::TooMany);
            }
            value.set_sensitive(true);
            headers.append(name, value);
        }
        Ok(Self(headers))
    }
}

fn parse(line: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = line.split_once(':')?;
    Some((name.parse().ok()?, value.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_parsed_and_not_shown() {
        let text = "# comment\n\nAuthorization: Bearer secret\r\nX-Key:a:b\n";
        let headers: Headers = text.parse().unwrap();
        let all: Vec<_> = headers.iter().collect();
        assert_eq!(all.len(), 2);
        assert_eq!(headers.0["authorization"], "Bearer secret");
        assert_eq!(headers.0["x-key"], "a:b");
        assert!(!format!("{headers:?}").contains("secret"));
        assert!("".parse::<Headers>().unwrap().is_empty());
    }

    #[test]
    fn other_texts_are_refused() {
        for (text, expected) in [
            ("a: b\nno header", ParseHeadersError::Malformed { line: 2 }),
            (": value", ParseHeadersError::Malformed { line: 1 }),
            ("na me: value", ParseHeadersError::Malformed { line: 1 }),
            ("name: v\u{1}", ParseHeadersError::Malformed { line: 1 }),
            ("range: bytes=0-1", ParseHeadersError::Reserved { line: 1 }),
            ("\nHost: other", ParseHeadersError::Reserved { line: 2 }),
        ] {
            assert_eq!(text.parse::<Headers>(), Err(expected), "{text:?}");
        }
        let many = "a: b\n".repeat(MAX_HEADERS + 1);
        assert_eq!(many.parse::<Headers>(), Err(ParseHeadersError::TooMany));
    }
}
