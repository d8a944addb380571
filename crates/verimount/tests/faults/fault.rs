//! What may be wrong with an answer.

use std::time::Duration;

use verimount_testkit::{HttpAnswer, HttpEnd, HttpPace, HttpRequest, Random};

/// A fault of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection is closed without an answer.
    NoAnswer,
    /// The connection breaks off in the middle.
    Reset,
    /// The answer ends too early.
    Cut,
    /// The answer stops too early, but the connection stays open.
    Stall,
    /// It comes slowly, but in time.
    Slow,
    /// It comes too slowly ever to be complete.
    Trickle,
    /// A byte is wrong.
    Flip,
    /// `Content-Length` is not that of the range.
    WrongLength,
    /// Bytes follow that nobody asked for.
    Surplus,
    /// `Content-Range` names other bytes.
    WrongRange,
    /// `Content-Range` has another size of the file.
    OtherSize,
    /// `Content-Range` has no size, which only the first answer needs.
    NoSize,
    NoContentRange,
    /// The whole file.
    Whole,
    /// 416.
    NotSatisfiable,
    /// Statuses that may pass, and wishes when to come again.
    Busy,
    /// Statuses that do not.
    Refused,
    OtherEtag,
    Encoded,
    /// Announced in chunks, but it is not.
    NoChunks,
    LargeHead,
    /// To the same place.
    RedirectAgain,
    /// To another server, with the same faults.
    RedirectAway,
    /// To where nobody listens.
    RedirectToNobody,
    /// To what is no URL.
    RedirectNowhere,
}

impl Fault {
    pub(crate) const ALL: [Self; 25] = [
        Self::NoAnswer,
        Self::Reset,
        Self::Cut,
        Self::Stall,
        Self::Slow,
        Self::Trickle,
        Self::Flip,
        Self::WrongLength,
        Self::Surplus,
        Self::WrongRange,
        Self::OtherSize,
        Self::NoSize,
        Self::NoContentRange,
        Self::Whole,
        Self::NotSatisfiable,
        Self::Busy,
        Self::Refused,
        Self::OtherEtag,
        Self::Encoded,
        Self::NoChunks,
        Self::LargeHead,
        Self::RedirectAgain,
        Self::RedirectAway,
        Self::RedirectToNobody,
        Self::RedirectNowhere,
    ];

    /// Makes the right answer, from a file of these bytes, wrong.
    pub(crate) fn spoil(
        self,
        mut right: HttpAnswer,
        request: &HttpRequest,
        file: &[u8],
        away: &str,
        random: &mut Random,
    ) -> HttpAnswer {
        let size = file.len();
        let range = request.range.clone().unwrap_or(0..size as u64);
        let (first, last) = (range.start, range.end - 1);
        match self {
            Self::NoAnswer => right.end = HttpEnd::Unanswered,
            Self::Reset => right = cut(right, HttpEnd::Reset, random),
            Self::Cut => right = cut(right, HttpEnd::Closed, random),
            Self::Stall => right = cut(right, HttpEnd::Silent, random),
            Self::Slow => {
                let piece = right.body.len() / 10 + 1;
                right.pace = Some(pace(piece, 10));
            }
            Self::Trickle => right.pace = Some(pace(16, 20)),
            Self::Flip if right.body.is_empty() => {}
            Self::Flip => {
                let at = random.below(right.body.len());
                right.body[at] ^= 1 << random.below(8);
            }
            Self::WrongLength => {
                let wrong = (right.body.len() + 1).saturating_sub(2 * random.below(2));
                right = right.with("content-length", wrong);
                right.end = HttpEnd::Closed;
            }
            Self::Surplus => right.body.extend(b"HTTP/1.1 206 Surplus\r\n\r\n"),
            Self::WrongRange => {
                let shift = 1 + random.below(5000) as u64;
                let wrong = format!("bytes {}-{}/{size}", first + shift, last + shift);
                right = right.with("content-range", wrong);
            }
            Self::OtherSize => {
                let wrong = format!("bytes {first}-{last}/{}", size + 1);
                right = right.with("content-range", wrong);
            }
            Self::NoSize => {
                right = right.with("content-range", format!("bytes {first}-{last}/*"));
            }
            Self::NoContentRange => right = right.without("content-range"),
            Self::Whole => {
                let whole = HttpRequest {
                    range: None,
                    ..request.clone()
                };
                right = HttpAnswer::of(file, &whole);
            }
            Self::NotSatisfiable => {
                right = right.only_status(416);
                right = right.with("content-range", format!("bytes */{size}"));
            }
            Self::Busy => {
                let status = random.choose(&[408, 425, 429, 500, 502, 503, 504]);
                right = right.only_status(status);
                let wishes = [
                    "",
                    "0",
                    "1",
                    "100000",
                    "Sun, 06 Nov 1994 08:49:37 GMT",
                    "soon",
                ];
                match random.choose(&wishes) {
                    "" => {}
                    wish => right = right.with("retry-after", wish),
                }
            }
            Self::Refused => {
                right = right.only_status(random.choose(&[400, 401, 403, 404, 410, 418, 204]));
            }
            // A file keeps to the version of the first answer, also when the server is well again.
            Self::OtherEtag if first == 0 => {}
            Self::OtherEtag => right = right.with("etag", "\"version-2\""),
            Self::Encoded => right = right.with("content-encoding", "gzip"),
            Self::NoChunks => {
                right = right.without("content-length");
                right = right.with("transfer-encoding", "chunked");
                right.end = HttpEnd::Closed;
            }
            Self::LargeHead => right = right.with("x-large", "x".repeat(20_000)),
            Self::RedirectAgain => right = redirect(right, &request.path, random),
            Self::RedirectAway => right = redirect(right, away, random),
            Self::RedirectToNobody => right = redirect(right, "http://127.0.0.1:1/file", random),
            Self::RedirectNowhere => right = redirect(right, "http://[/", random),
        }
        right
    }
}

/// Ends in the middle, or at a place where mistakes are likely.
fn cut(right: HttpAnswer, end: HttpEnd, random: &mut Random) -> HttpAnswer {
    let len = right.body.len();
    let last = len.saturating_sub(1);
    let any = random.below(len + 1);
    // Of silence after all of it nobody takes notice.
    let end_of_all = if end == HttpEnd::Silent { last } else { len };
    let places = [
        0,
        1.min(len),
        any.min(end_of_all),
        any.min(end_of_all),
        last,
        end_of_all,
    ];
    right.cut(random.choose(&places), end)
}

fn pace(piece: usize, milliseconds: u64) -> HttpPace {
    HttpPace {
        piece,
        pause: Duration::from_millis(milliseconds),
    }
}

fn redirect(right: HttpAnswer, to: &str, random: &mut Random) -> HttpAnswer {
    let status = random.choose(&[301, 302, 303, 307, 308]);
    right.only_status(status).with("location", to)
}
