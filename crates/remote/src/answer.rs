//! What the head of an answer says, and whether that is acceptable.

use std::{ops::Range, time::Duration};

use httpdate::parse_http_date;
use ureq::http::{
    HeaderMap, HeaderName,
    header::{
        CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, LAST_MODIFIED, RETRY_AFTER,
        TRANSFER_ENCODING,
    },
};

use crate::{Error, client::Span, limits::MAX_SIZE};

/// What must stay the same as long as a file is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    /// At most [`MAX_SIZE`].
    pub(crate) size: u64,
    etag: Option<String>,
    last_modified: Option<String>,
}

/// The head of an answer to a request for a range.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    status: u16,
    headers: &'a HeaderMap,
}

/// `Content-Range`.
#[derive(Debug, PartialEq, Eq)]
enum ContentRange {
    /// `bytes FIRST-LAST/SIZE`, with an exclusive end here; no size if that is `*`.
    Part(Range<u64>, Option<u64>),
    /// `bytes */SIZE`, in an answer without any part.
    Nothing(u64),
}

impl<'a> Head<'a> {
    pub(crate) fn new(status: u16, headers: &'a HeaderMap) -> Self {
        Self { status, headers }
    }

    /// The version of the file, and its bytes that come, from the answer to a request before the version is known. If the
    /// file has no bytes, the answer has none of it.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub(crate) fn first(&self, asked: &Span) -> Result<(Version, Range<u64>), Error> {
        let is_empty = match self.status {
            200 => self.length()? == Some(0),
            416 => self.content_range() == Some(ContentRange::Nothing(0)),
            _ => false,
        };
        if is_empty {
            return Ok((self.version(0)?, 0..0));
        }
        let (part, size) = self.part()?;
        let size = size.ok_or(Error::NoSize)?;
        self.check_part(&part, &asked.within(size))?;
        Ok((self.version(size)?, part))
    }

    /// The size of the file, from the answer to a request for all of it.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub(crate) fn whole(&self) -> Result<u64, Error> {
        if self.status != 200 {
            return Err(Error::of_status(self.status));
        }
        self.check_encoding()?;
        let size = self.length()?.ok_or(Error::NoSize)?;
        Ok(self.version(size)?.size)
    }

    /// Checks the answer to a later request. Returns whether the file is of the same version, as far as the server says.
    ///
    /// # Errors
    /// What is wrong with the answer; [`Error::Replaced`] for another size.
    pub(crate) fn check(&self, asked: &Range<u64>, version: &Version) -> Result<bool, Error> {
        if let (416, Some(ContentRange::Nothing(size))) = (self.status, self.content_range())
            && size != version.size
        {
            return Err(Error::Replaced);
        }
        let (part, size) = self.part()?;
        if size.is_some_and(|size| size != version.size) {
            return Err(Error::Replaced);
        }
        self.check_part(&part, asked)?;
        Ok(self.is_of(version))
    }

    /// Whether it refuses the range that was asked for.
    pub(crate) fn is_refused_range(&self) -> bool {
        matches!(self.status, 400 | 416)
    }

    /// The size of the file, if an answer without any part of it says it.
    pub(crate) fn size(&self) -> Option<u64> {
        match (self.status, self.content_range()) {
            (200, _) => self.length().ok().flatten(),
            (416, Some(ContentRange::Nothing(size))) => Some(size),
            _ => None,
        }
    }

    /// How long the server asks to wait. It may give a date, which is compared with its own clock.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let text = self.text(RETRY_AFTER)?.trim();
        let seconds = match number(text) {
            Some(seconds) => seconds,
            None => {
                let now = parse_http_date(self.text(DATE)?).ok()?;
                let until = parse_http_date(text).ok()?;
                return Some(until.duration_since(now).unwrap_or_default());
            }
        };
        Some(Duration::from_secs(seconds))
    }

    fn part(&self) -> Result<(Range<u64>, Option<u64>), Error> {
        let status = self.status;
        match status {
            206 => {}
            200 => return Err(Error::NoRanges),
            _ => return Err(Error::of_status(status)),
        }
        self.check_encoding()?;
        match self.content_range() {
            Some(ContentRange::Part(part, size)) => Ok((part, size)),
            _ => Err(Error::NoContentRange),
        }
    }

    fn check_encoding(&self) -> Result<(), Error> {
        let encoding = self.headers.get(CONTENT_ENCODING);
        if encoding.is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            Err(Error::Encoded)
        } else {
            Ok(())
        }
    }

    fn check_part(&self, part: &Range<u64>, asked: &Range<u64>) -> Result<(), Error> {
        if part != asked {
            return Err(Error::WrongRange);
        }
        let expected = part.end - part.start;
        match self.length()? {
            Some(announced) if announced != expected => Err(Error::WrongLength {
                announced,
                expected,
            }),
            _ => Ok(()),
        }
    }

    /// The version of a file of this size.
    ///
    /// # Errors
    /// [`Error::Size`].
    pub(crate) fn version(&self, size: u64) -> Result<Version, Error> {
        if size > MAX_SIZE {
            return Err(Error::Size { size });
        }
        Ok(Version {
            size,
            etag: self.text(ETAG).map(str::to_owned),
            last_modified: self.text(LAST_MODIFIED).map(str::to_owned),
        })
    }

    /// Whether what identifies the version is the same, as far as both have it. A weak ETag counts like
    /// a strong one: that bytes are right is not for a server to say.
    fn is_of(&self, version: &Version) -> bool {
        let differs = |name, known: &Option<String>| match (self.text(name), known) {
            (Some(now), Some(known)) => now != known,
            _ => false,
        };
        !differs(ETAG, &version.etag) && !differs(LAST_MODIFIED, &version.last_modified)
    }

    /// `Content-Length`, which has no meaning in an answer in chunks.
    fn length(&self) -> Result<Option<u64>, Error> {
        if self.headers.contains_key(TRANSFER_ENCODING) {
            return Ok(None);
        }
        let invalid = || Error::Protocol("Content-Length is not a number".to_owned());
        match self.headers.get(CONTENT_LENGTH) {
            None => Ok(None),
            Some(_) => {
                let length = self.text(CONTENT_LENGTH).and_then(number);
                length.map(Some).ok_or_else(invalid)
            }
        }
    }

    fn content_range(&self) -> Option<ContentRange> {
        parse_content_range(self.text(CONTENT_RANGE)?)
    }

    fn text(&self, name: HeaderName) -> Option<&'a str> {
        self.headers.get(name)?.to_str().ok()
    }
}

fn parse_content_range(text: &str) -> Option<ContentRange> {
    let (part, size) = text.strip_prefix("bytes ")?.split_once('/')?;
    if part == "*" {
        return number(size).map(ContentRange::Nothing);
    }
    let (first, last) = part.split_once('-')?;
    let part = number(first)?..number(last)?.checked_add(1)?;
    let size = match size {
        "*" => None,
        size => Some(number(size)?),
    };
    let is_inside = part.start < part.end && size.is_none_or(|size| part.end <= size);
    is_inside.then_some(ContentRange::Part(part, size))
}

/// Digits only: `parse` would also accept a sign.
fn number(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_how_long_to_wait() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let later = "Sun, 06 Nov 1994 08:50:07 GMT";
        for (headers, expected) in [
            (vec![("retry-after", "120")], Some(120)),
            (vec![("retry-after", later), ("date", date)], Some(30)),
            (vec![("retry-after", date), ("date", later)], Some(0)),
            (vec![("retry-after", later)], None),
            (vec![("retry-after", "soon"), ("date", date)], None),
            (vec![], None),
        ] {
            let named = headers.iter().map(|(name, value)| {
                let name = HeaderName::from_static(name);
                (name, value.parse().unwrap())
            });
            let headers: HeaderMap = named.collect();
            let wait = Head::new(503, &headers).retry_after();
            assert_eq!(wait, expected.map(Duration::from_secs), "{headers:?}");
        }
    }

    #[test]
    fn content_ranges() {
        for (text, expected) in [
            ("bytes 0-9/10", Some(ContentRange::Part(0..10, Some(10)))),
            ("bytes 5-5/*", Some(ContentRange::Part(5..6, None))),
            ("bytes */7", Some(ContentRange::Nothing(7))),
            ("bytes 0-10/10", None),
            ("bytes 9-8/10", None),
            ("bytes +0-9/10", None),
            ("bytes -9/10", None),
            ("bytes 0-18446744073709551615/*", None),
            ("bytes 0-99999999999999999999/*", None),
            ("items 0-9/10", None),
            ("bytes */*", None),
            ("", None),
        ] {
            assert_eq!(parse_content_range(text), expected, "{text}");
        }
    }

    #[test]
    fn an_answer_in_chunks_has_no_length() {
        for (chunked, expected) in [(false, Some(5)), (true, None)] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_LENGTH, "5".parse().unwrap());
            if chunked {
                headers.insert(TRANSFER_ENCODING, "chunked".parse().unwrap());
            }
            assert_eq!(Head::new(200, &headers).size(), expected);
        }
    }
}
