use std::time::SystemTime;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use verimount_bridge::BridgeStatus;
use verimount_content::Pin;
use verimount_mount::Daemon;
use verimount_sandbox::{Held, held};

use crate::{ImageStatus, Requests, VolumeStatus};

/// The longest source in a status, in bytes: more than any path has, unless most of it is escaped.
/// Whatever JSON escapes, the status of a bridge then fits into the answer of an ioctl, 16383 bytes.
const MAX_SOURCE: usize = 6000;

/// The status of a mount or an export: what it serves, and its statistics.
///
/// Programs of other versions read it: they ignore unknown fields, and take missing fields as zero or
/// absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// [`Status::VERSION`] of the program that wrote it.
    pub version: u32,
    /// What is served, by which process, and how its content is verified.
    #[serde(flatten)]
    pub served: Served,
    /// The number of requests of each kind.
    pub requests: Requests,
    /// For an image or a file: requests that failed because a block did not match. For a volume: blocks
    /// that were read and did not match.
    pub mismatches: u64,
    /// The fields of this kind.
    #[serde(flatten)]
    pub kind: Kind,
}

/// The part of a [`Status`] that depends on what is served.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// An image.
    Image(ImageStatus),
    /// A sealed file, as one file.
    File(ImageStatus),
    /// A mirrored directory.
    Bridge(BridgeStatus),
    /// A volume, mounted or exported.
    Volume(VolumeStatus),
    /// A kind of a newer program.
    #[default]
    #[serde(other)]
    Unknown,
}

/// What is served, by which process, and how its content is verified.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Served {
    /// The source, as [`printable`](verimount_names::printable) shows it.
    pub source: String,
    /// For an image or a file: how its content is verified.
    pub pin: Option<Pin>,
    /// The process that serves it.
    pub daemon: Option<Daemon>,
    /// Since when it is served, in seconds since 1970.
    pub since: u64,
    /// What the process has given up; `None` if nothing.
    pub sandbox: Option<Held>,
}

impl Status {
    /// The version of the format. It is increased when a field changes its meaning, but not for new
    /// fields.
    pub const VERSION: u32 = 1;

    /// The value of a mount's extended attribute, and the answer of an export.
    pub(crate) fn to_json(&self) -> Result<Vec<u8>, Errno> {
        serde_json::to_vec(self).map_err(|_| Errno::IO)
    }

    /// Whether there was a mismatch, or a failure has made a volume read-only.
    pub fn is_bad(&self) -> bool {
        let has_failed = matches!(&self.kind, Kind::Volume(volume) if volume.failure.is_some());
        self.mismatches > 0 || has_failed
    }

    /// The file digest or root hash of an image or a file, if it is verified.
    pub fn digest(&self) -> Option<&str> {
        match &self.kind {
            Kind::Image(image) | Kind::File(image) => image.digest.as_deref(),
            _ => None,
        }
    }

    /// The size of what is served in bytes, where it has one.
    pub fn size(&self) -> Option<u64> {
        match &self.kind {
            Kind::Image(image) | Kind::File(image) => Some(image.size),
            Kind::Volume(volume) => Some(volume.size),
            Kind::Bridge(_) | Kind::Unknown => None,
        }
    }
}

impl Kind {
    /// Its name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Image(_) => "image",
            Self::File(_) => "file",
            Self::Bridge(_) => "bridge",
            Self::Volume(_) => "volume",
            Self::Unknown => "unknown",
        }
    }
}

impl Served {
    /// Served by this process since now.
    pub fn new(source: String, pin: Option<Pin>) -> Self {
        Self {
            source: end_of(source, MAX_SOURCE),
            pin,
            daemon: Daemon::current(),
            since: now(),
            sandbox: held().cloned(),
        }
    }
}

/// The time, in seconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    since.as_secs()
}

/// A text; if it has more than `most` bytes, an ellipsis and its end.
pub(crate) fn end_of(text: String, most: usize) -> String {
    let Some(longest) = text.len().checked_sub(most).filter(|&more| more > 0) else {
        return text;
    };
    let mut ends = text.char_indices().map(|(start, _)| start);
    let start = ends.find(|&start| start >= longest);
    format!("…{}", &text[start.unwrap_or(text.len())..])
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, os::unix::ffi::OsStringExt};

    use verimount_bridge::PassthroughStatus;
    use verimount_names::printable;

    use super::*;
    use crate::PolicyFile;

    /// The longest paths, of bytes that are escaped most, and the longest reasons.
    #[test]
    fn the_status_of_a_bridge_fits_into_an_ioctls_answer() {
        let path = OsString::from_vec(vec![b'\\'; 4096]);
        let policy = PolicyFile::loaded(path.as_ref());
        policy.failed(&"\"".repeat(4096));
        let bridge = BridgeStatus {
            policy: Some(policy.status()),
            passthrough: PassthroughStatus {
                refusal: Some(Errno::OPNOTSUPP.to_string()),
                ..PassthroughStatus::default()
            },
            ..BridgeStatus::default()
        };
        let sandbox = Held {
            landlock: u32::MAX,
            // Their names are at most 18 bytes long.
            capabilities: vec!["linux_immutable___".to_owned(); 15],
            ..Held::default()
        };
        let status = Status {
            served: Served {
                sandbox: Some(sandbox),
                ..Served::new(printable(&path).to_string(), None)
            },
            kind: Kind::Bridge(bridge),
            ..image()
        };
        assert!(status.served.source.starts_with('…'));
        assert!(status.served.source.ends_with(r"\\"));
        let len = status.to_json().unwrap().len();
        assert!((14_000..16_000).contains(&len), "{len}");
        let usual = Served::new("/".repeat(4096), None);
        assert_eq!(usual.source, "/".repeat(4096));
    }

    fn image() -> Status {
        Status {
            version: Status::VERSION,
            served: Served::new("app.img".to_owned(), Some(Pin::Key { id: "7".to_owned() })),
            requests: Requests::from([("read".to_owned(), u64::MAX)]),
            mismatches: 2,
            kind: Kind::Image(ImageStatus {
                size: 3,
                ..ImageStatus::default()
            }),
        }
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        for kind in [
            image().kind,
            Kind::File(ImageStatus::default()),
            Kind::Bridge(BridgeStatus::default()),
            Kind::Volume(VolumeStatus::default()),
        ] {
            let status = Status { kind, ..image() };
            let json = status.to_json().unwrap();
            assert_eq!(serde_json::from_slice::<Status>(&json).unwrap(), status);
        }
    }

    #[test]
    fn a_newer_program_is_understood() {
        let newer = r#"{
            "version": 9, "source": "x", "kind": "image", "size": 3, "mismatches": 2, "colour": "red",
            "pin": {"by": "oracle", "name": "y"}, "requests": {"teleport": 4}
        }"#;
        let status: Status = serde_json::from_str(newer).unwrap();
        assert_eq!(status.version, 9);
        assert_eq!(status.served.pin, Some(Pin::Unknown));
        assert_eq!(status.requests["teleport"], 4);
        assert_eq!((status.mismatches, status.size()), (2, Some(3)));
        let newer = r#"{"version": 9, "source": "x", "kind": "archive", "size": 3}"#;
        let status: Status = serde_json::from_str(newer).unwrap();
        assert_eq!(
            (status.kind, status.served.source.as_str()),
            (Kind::Unknown, "x")
        );
    }

    #[test]
    fn an_older_program_is_understood() {
        let status: Status = serde_json::from_str(r#"{"kind": "volume", "size": 3}"#).unwrap();
        assert_eq!((status.version, status.mismatches), (0, 0));
        assert_eq!((status.size(), status.served.daemon), (Some(3), None));
        assert!(!status.is_bad());
    }
}
