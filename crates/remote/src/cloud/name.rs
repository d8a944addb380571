use std::{fmt, str::FromStr, sync::Arc};

use thiserror::Error;
use verimount_names::printable;

use super::Cloud;

/// The longest name of a bucket, in bytes: that of Google, with dots.
const MAX_BUCKET: usize = 222;

/// The longest key, in bytes, that all clouds accept.
const MAX_KEY: usize = 1024;

/// The name of an object: `s3://BUCKET/KEY`, `gs://BUCKET/KEY` or `az://CONTAINER/KEY`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectName {
    cloud: Cloud,
    /// `BUCKET/KEY`.
    path: Arc<str>,
}

/// Why a text is not an [`ObjectName`]. The text is not repeated, as it may contain secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseObjectNameError {
    /// There is no bucket, or no key.
    #[error("an object is written s3://BUCKET/KEY, gs://BUCKET/KEY or az://CONTAINER/KEY")]
    Malformed,
    /// The bucket has other characters than buckets have, for example those of a user and password.
    #[error("the name of a bucket has letters, digits, dots, dashes and underscores")]
    Bucket,
    /// The key is too long, or has parts that clients change or take for something else.
    #[error(
        "a key has up to {MAX_KEY} bytes, no empty component, neither \".\" nor \"..\", \
         and none of ? # % \\ and control characters"
    )]
    Key,
}

impl ObjectName {
    /// Where it is.
    pub fn cloud(&self) -> Cloud {
        self.cloud
    }

    /// The bucket or container.
    pub fn bucket(&self) -> &str {
        self.parts().0
    }

    /// The key in the bucket.
    pub fn key(&self) -> &str {
        self.parts().1
    }

    /// The last component of the key.
    pub fn file_name(&self) -> &str {
        let path = &*self.path;
        path.rsplit_once('/').map_or(path, |(_, name)| name)
    }

    /// The object beside it whose key is longer by `suffix`.
    ///
    /// # Errors
    /// [`ParseObjectNameError::Key`] if that is not a key.
    pub fn with_suffix(&self, suffix: &str) -> Result<Self, ParseObjectNameError> {
        check_key(&format!("{}{suffix}", self.key()))?;
        Ok(Self {
            cloud: self.cloud,
            path: format!("{}{suffix}", self.path).into(),
        })
    }

    fn parts(&self) -> (&str, &str) {
        self.path.split_once('/').unwrap_or_default()
    }
}

fn cloud_of(text: &str) -> Option<Cloud> {
    Cloud::ALL.into_iter().find(|cloud| {
        let start = text.get(..cloud.scheme().len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(cloud.scheme()))
    })
}

fn check_key(key: &str) -> Result<(), ParseObjectNameError> {
    let is_bad = |character: char| character.is_control() || "?#%\\".contains(character);
    let is_bad_component = |component| matches!(component, "" | "." | "..");
    if key.len() > MAX_KEY || key.contains(is_bad) || key.split('/').any(is_bad_component) {
        Err(ParseObjectNameError::Key)
    } else {
        Ok(())
    }
}

impl FromStr for ObjectName {
    type Err = ParseObjectNameError;

    fn from_str(text: &str) -> Result<Self, ParseObjectNameError> {
        use ParseObjectNameError::{Bucket, Malformed};
        let cloud = cloud_of(text).ok_or(Malformed)?;
        let rest = &text[cloud.scheme().len()..];
        let (bucket, key) = rest.split_once('/').ok_or(Malformed)?;
        if bucket.is_empty() || key.is_empty() {
            return Err(Malformed);
        }
        // Containers of Azure may be called $root and $web.
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b".-_$".contains(&byte);
        if bucket.len() > MAX_BUCKET || !bucket.bytes().all(is_good) || bucket.starts_with('.') {
            return Err(Bucket);
        }
        check_key(key)?;
        Ok(Self {
            cloud,
            path: rest.into(),
        })
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.cloud.scheme(), printable(&*self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_neighbours() {
        let name: ObjectName = "S3://my-bucket/a/app.img".parse().unwrap();
        assert_eq!(name.to_string(), "s3://my-bucket/a/app.img");
        assert_eq!((name.bucket(), name.key()), ("my-bucket", "a/app.img"));
        assert_eq!(name.file_name(), "app.img");
        let beside = name.with_suffix(".verity").unwrap();
        assert_eq!(beside.to_string(), "s3://my-bucket/a/app.img.verity");
        let long: ObjectName = format!("gs://b/{}", "k".repeat(MAX_KEY)).parse().unwrap();
        assert_eq!(long.with_suffix("x"), Err(ParseObjectNameError::Key));
        let root: ObjectName = "az://$root/file with spaces".parse().unwrap();
        assert_eq!(root.cloud(), Cloud::Azure);
    }

    #[test]
    fn other_texts_are_refused() {
        use ParseObjectNameError::{Bucket, Key, Malformed};
        for (text, error) in [
            ("s3:/b/k", Malformed),
            ("file://b/k", Malformed),
            ("s3://bucket", Malformed),
            ("s3://bucket/", Malformed),
            ("s3:///key", Malformed),
            ("s3://key:secret@bucket/k", Bucket),
            ("s3://../k", Bucket),
            ("s3://b/a//b", Key),
            ("s3://b/a/", Key),
            ("s3://b/../c", Key),
            ("s3://b/./c", Key),
            ("s3://b/k?versionId=1", Key),
            ("s3://b/k%41", Key),
            ("s3://b/k\n", Key),
        ] {
            assert_eq!(text.parse::<ObjectName>(), Err(error), "{text}");
        }
    }
}
