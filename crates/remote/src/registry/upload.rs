//! Storing blobs.

use std::{
    io::{self, Read},
    ops::ControlFlow,
    time::Duration,
};

use ureq::{
    SendBody,
    http::{
        HeaderValue, Request, Uri,
        header::{CONTENT_LENGTH, CONTENT_TYPE},
    },
};
use verimount_source::ReadAt;

use super::{BlobDigest, Repository, status::expect};
use crate::{
    Error, RemoteUrl,
    client::{Failure, location},
    fetch::Attempts,
    http::Within,
};

/// How often the upload of a blob is begun at most.
const ATTEMPTS: u32 = 3;

/// How long a registry may take to store a blob that it has all bytes of: some copy and hash it first.
const STORING: Duration = Duration::from_secs(600);

/// How much is read at a time.
const CHUNK: usize = 256 << 10;

impl Repository {
    /// Stores a blob. `progress` is told how many bytes were sent since the last call; it may end the upload.
    ///
    /// An upload that breaks off is begun again, three times at most.
    ///
    /// # Errors
    /// [`Error::Closed`] if `progress` ends it; [`Error::ReadFailed`] if the content cannot be read; others.
    pub fn upload(
        &self,
        digest: BlobDigest,
        content: &dyn ReadAt,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let session = &self.session;
        let mut attempts = Attempts::new(session, session.closing(), session.limits().read);
        let mut sent_at_most = 0;
        for attempt in 1.. {
            let mut content = Content {
                content,
                offset: 0,
                sent_at_most,
                progress: &mut *progress,
                failed: None,
            };
            let uploaded = self.upload_once(digest, &mut content);
            sent_at_most = content.sent_at_most;
            match (content.failed, uploaded) {
                (Some(failed), _) => return Err(failed),
                (None, Ok(())) => break,
                (None, Err(failure)) if attempt == ATTEMPTS => return Err(failure.error),
                (None, Err(failure)) => {
                    // An upload may take long, so that only the pauses are limited.
                    attempts.progress();
                    attempts.again(failure)?;
                }
            }
        }
        Ok(())
    }

    fn upload_once(&self, digest: BlobDigest, content: &mut Content<'_>) -> Result<(), Failure> {
        let place = self.start_upload()?;
        let separator = match place.query() {
            Some(_) => '&',
            None => '?',
        };
        let url = format!("{place}{separator}digest={digest}");
        let mut put = |authorization: Option<&HeaderValue>| {
            content.offset = 0;
            let request = Request::put(&url)
                .header(CONTENT_TYPE, "application/octet-stream")
                .header(CONTENT_LENGTH, content.content.size());
            let (http, within) = (self.session.http(), Within::Answer(STORING));
            let body = SendBody::from_reader(&mut *content);
            http.send(request, authorization, body, within)
        };
        let answer = if self.host.has(&place) {
            self.access.send(put)?
        } else {
            // Another server: it is not told who asks.
            put(None)?
        };
        expect(201, &answer)
    }

    /// Where a blob can be sent to.
    fn start_upload(&self) -> Result<Uri, Failure> {
        let url = self.url("/blobs/uploads/");
        let answer = self.access.send(|authorization| {
            let request = Request::post(&url).header(CONTENT_LENGTH, 0);
            let http = self.session.http();
            http.send(request, authorization, (), Within::Usual)
        })?;
        expect(202, &answer)?;
        let from: Option<RemoteUrl> = url.parse().ok();
        let place = from.and_then(|from| location(&answer, &from));
        // One that is no less private.
        let host = &self.host;
        let is_good = |place: &Uri| host.has(place) || host.trusts(place) || !host.is_private();
        let place = place.map(|place| place.uri().clone()).filter(is_good);
        Ok(place.ok_or(Error::BadLocation)?)
    }
}

/// The bytes of a blob that is being sent.
struct Content<'a> {
    content: &'a dyn ReadAt,
    offset: u64,
    /// How far any attempt has come. Only more than that is progress.
    sent_at_most: u64,
    progress: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
    /// Why it must not go on, whatever the server does.
    failed: Option<Error>,
}

impl Read for Content<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.content.size() - self.offset;
        let len = buf
            .len()
            .min(CHUNK)
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        if let Err(error) = self.content.read_exact_at(&mut buf[..len], self.offset) {
            self.failed = Some(Error::ReadFailed(error.to_string()));
            return Err(io::Error::other("the content cannot be read"));
        }
        self.offset += len as u64;
        let more = self.offset.saturating_sub(self.sent_at_most);
        self.sent_at_most += more;
        if (self.progress)(more).is_break() {
            self.failed = Some(Error::Closed);
            return Err(io::Error::other("it was ended"));
        }
        Ok(len)
    }
}
