//! What `object_store` does for us: it finds credentials, signs URLs and stores large objects in parts. It is
//! asynchronous, which nothing outside this file knows.

use std::{error::Error as StdError, iter, ops::ControlFlow, sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, MultipartUpload, ObjectStore, ObjectStoreExt, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder},
    azure::{AzureConfigKey, MicrosoftAzureBuilder},
    gcp::{GoogleCloudStorageBuilder, GoogleConfigKey},
    path::Path,
    signer::{Method, Signer, Url},
};
use tokio::runtime::{self, Runtime};
use verimount_source::ReadAt;

use super::{Cloud, environment::Environment, transport::Transport};
use crate::{Error, RemoteUrl, http::Http, limits::Limits};

/// The most parts of an object.
const MAX_PARTS: u64 = 10_000;

/// The size of the parts of objects up to 80 GiB, in bytes. Smaller objects are stored in one request.
const PART: u64 = 8 << 20;

/// Where Google's objects are.
const GOOGLE: &str = "https://storage.googleapis.com";

/// The key of nobody: what is signed with it is not used.
const NO_KEY: &str = "bm9ib2R5";

/// A bucket, with the right to use it. It is shared by all that use its objects.
pub(crate) struct Bucket {
    cloud: Cloud,
    runtime: Runtime,
    transport: Transport,
    store: Arc<dyn ObjectStore>,
    urls: Urls,
}

/// How URLs of objects are made.
enum Urls {
    /// With a signature.
    Signed(Arc<dyn Signer>),
    /// Signed by nobody; the query is replaced: by nothing, or by a token that was given.
    Replaced(Arc<dyn Signer>, Option<String>),
    /// Without a query, from what they begin with.
    Plain(String),
}

impl Bucket {
    /// Its name, with its protocol.
    pub(super) fn name(&self) -> String {
        self.store.to_string()
    }

    /// A bucket, by the settings of an environment. Nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::CloudSettings`].
    pub(super) fn new(
        cloud: Cloud,
        name: &str,
        environment: &Environment,
        http: &Http,
        limits: &Limits,
    ) -> Result<Self, Error> {
        environment.check(cloud)?;
        let allow_http = environment.is_on(&cloud.allow_http());
        let transport = Transport::new(http.clone(), cloud, allow_http);
        let make = match cloud {
            Cloud::S3 => s3,
            Cloud::Google => google,
            Cloud::Azure => azure,
        };
        let (store, urls) = make(name, environment, &transport, retries(limits))
            .map_err(|error| settings_error(cloud, &error))?;
        let runtime = runtime::Builder::new_current_thread().enable_time().build();
        Ok(Self {
            cloud,
            runtime: runtime.map_err(|error| Error::NoThreads(error.to_string()))?,
            transport,
            store,
            urls,
        })
    }

    /// A URL at which an object can be read for this time.
    ///
    /// # Errors
    /// Why there are no credentials, or none that can be used.
    pub(super) fn url(&self, key: &str, lifetime: Duration) -> Result<RemoteUrl, Error> {
        let path = self.path(key)?;
        let sign = |signer: &Arc<dyn Signer>| -> Result<Url, Error> {
            let signed = signer.signed_url(Method::GET, &path, lifetime);
            self.runtime
                .block_on(signed)
                .map_err(|error| self.unsigned(&error))
        };
        let (url, is_secret): (String, bool) = match &self.urls {
            Urls::Signed(signer) => (sign(signer)?.into(), true),
            Urls::Replaced(signer, query) => {
                let mut url = sign(signer)?;
                url.set_query(query.as_deref());
                (url.into(), query.is_some())
            }
            Urls::Plain(start) => (url_below(start, &path), false),
        };
        let url: RemoteUrl = url.parse().map_err(|_| self.bad_url())?;
        if is_secret {
            self.transport.check(&url)?;
        }
        Ok(url)
    }

    /// Stores an object, which appears when it is complete. `progress` is told how many bytes were stored since
    /// the last call; it may end the upload.
    ///
    /// # Errors
    /// [`Error::Closed`] if `progress` ends it; [`Error::ReadFailed`] if the content cannot be read; others.
    pub(super) fn store(
        &self,
        key: &str,
        content: &dyn ReadAt,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let path = self.path(key)?;
        let size = content.size();
        if size <= PART {
            let bytes = read(content, 0, size)?;
            self.wait(self.store.put(&path, bytes.into()))?;
            return told(progress, size);
        }
        let mut upload = self.wait(self.store.put_multipart(&path))?;
        let stored = self
            .store_parts(&mut *upload, content, progress)
            .and_then(|()| self.wait(upload.complete()));
        if stored.is_err() {
            // What has failed is reported, not this.
            let _ = self.wait(upload.abort());
        }
        stored.map(|_| ())
    }

    fn store_parts(
        &self,
        upload: &mut dyn MultipartUpload,
        content: &dyn ReadAt,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let size = content.size();
        let part = part_len(size);
        let mut offset = 0;
        while offset < size {
            let len = part.min(size - offset);
            let bytes = read(content, offset, len)?;
            self.wait(upload.put_part(bytes.into()))?;
            offset += len;
            told(progress, len)?;
        }
        Ok(())
    }

    fn path(&self, key: &str) -> Result<Path, Error> {
        Path::parse(key).map_err(|_| self.bad_url())
    }

    fn wait<T>(&self, work: impl Future<Output = object_store::Result<T>>) -> Result<T, Error> {
        let done = self.runtime.block_on(work);
        done.map_err(|error| match self.transport.take_failure() {
            Some(Error::Forbidden { status }) => self.refused(status),
            Some(failure) => failure,
            None => settings_error(self.cloud, &error),
        })
    }

    /// Why a URL could not be signed.
    fn unsigned(&self, error: &object_store::Error) -> Error {
        match self.transport.take_failure() {
            Some(failure @ Error::NoCloudCredentials { .. }) => failure,
            Some(failure) if failure.may_pass() => failure,
            // A file that a service of credentials does not have is not the object.
            Some(Error::NotFound { status } | Error::Forbidden { status }) => self.refused(status),
            Some(failure) => Error::CloudSettings {
                cloud: self.cloud,
                reason: failure.to_string(),
            },
            None => settings_error(self.cloud, error),
        }
    }

    pub(super) fn refused(&self, status: u16) -> Error {
        Error::Refused {
            cloud: self.cloud,
            status,
        }
    }

    fn bad_url(&self) -> Error {
        Error::CloudSettings {
            cloud: self.cloud,
            reason: "they make no valid URL".to_owned(),
        }
    }
}

type Made = object_store::Result<(Arc<dyn ObjectStore>, Urls)>;

fn s3(
    bucket: &str,
    environment: &Environment,
    transport: &Transport,
    retries: RetryConfig,
) -> Made {
    let mut builder = environment
        .settings(Cloud::S3)
        .fold(AmazonS3Builder::new(), |builder, (key, value)| {
            builder.with_config(key, value)
        });
    let is_public = environment.is_on(&Cloud::S3.skip_signature());
    if is_public {
        builder = builder
            .with_access_key_id("nobody")
            .with_secret_access_key("nobody");
    }
    let builder = builder.with_bucket_name(bucket).with_retry(retries);
    let store: Arc<AmazonS3> = builder
        .with_http_connector(transport.clone())
        .build()?
        .into();
    let urls = if is_public {
        Urls::Replaced(store.clone(), None)
    } else {
        Urls::Signed(store.clone())
    };
    Ok((store, urls))
}

fn google(
    bucket: &str,
    environment: &Environment,
    transport: &Transport,
    retries: RetryConfig,
) -> Made {
    let builder = environment
        .settings(Cloud::Google)
        .fold(GoogleCloudStorageBuilder::new(), |builder, (key, value)| {
            builder.with_config(key, value)
        });
    let base = builder.get_config_value(&GoogleConfigKey::BaseUrl);
    let builder = builder.with_bucket_name(bucket).with_retry(retries);
    let store = Arc::new(builder.with_http_connector(transport.clone()).build()?);
    let urls = if environment.is_on(&Cloud::Google.skip_signature()) {
        let base = base.unwrap_or_else(|| GOOGLE.to_owned());
        Urls::Plain(format!("{}/{bucket}", base.trim_end_matches('/')))
    } else {
        Urls::Signed(store.clone())
    };
    Ok((store, urls))
}

fn azure(
    container: &str,
    environment: &Environment,
    transport: &Transport,
    retries: RetryConfig,
) -> Made {
    let builder = environment
        .settings(Cloud::Azure)
        .fold(MicrosoftAzureBuilder::new(), |builder, (key, value)| {
            builder.with_config(key, value)
        });
    let value = |key| builder.get_config_value(&key);
    let is_public = environment.is_on(&Cloud::Azure.skip_signature());
    let has_key = value(AzureConfigKey::AccessKey).is_some();
    let token = value(AzureConfigKey::SasKey).filter(|_| !is_public && !has_key);
    let builder = builder.with_container_name(container).with_retry(retries);
    let builder = builder.with_http_connector(transport.clone());
    let store = Arc::new(builder.clone().build()?);
    if !is_public && token.is_none() {
        return Ok((store.clone(), Urls::Signed(store)));
    }
    let signer = builder
        .with_skip_signature(false)
        .with_credential_type("access_key")
        .with_access_key(NO_KEY)
        .build()?;
    let token = token.map(|token| token.trim_start_matches('?').to_owned());
    Ok((store, Urls::Replaced(Arc::new(signer), token)))
}

/// The URL of an object without a signature.
fn url_below(start: &str, path: &Path) -> String {
    match Url::parse(start) {
        Ok(mut url) => {
            if let Ok(mut segments) = url.path_segments_mut() {
                segments.extend(path.as_ref().split('/'));
            }
            url.into()
        }
        // It is refused as no URL.
        Err(_) => String::new(),
    }
}

/// Retries of requests for credentials and of uploads.
fn retries(limits: &Limits) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: limits.first_pause,
            max_backoff: limits.longest_pause,
            base: 2.0,
        },
        retry_timeout: limits.read,
        ..RetryConfig::default()
    }
}

/// What is wrong with settings. A file of credentials that cannot be parsed may be quoted in the reason, which is
/// not shown then.
fn settings_error(cloud: Cloud, error: &object_store::Error) -> Error {
    let mut causes = iter::successors(error.source(), |cause| (**cause).source());
    let reason = if causes.any(<dyn StdError>::is::<serde_json::Error>) {
        "a file with credentials is malformed".to_owned()
    } else {
        match error {
            object_store::Error::Generic { source, .. } => source.to_string(),
            other => other.to_string(),
        }
    };
    Error::CloudSettings { cloud, reason }
}

fn read(content: &dyn ReadAt, offset: u64, len: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; len as usize];
    match content.read_exact_at(&mut bytes, offset) {
        Ok(()) => Ok(bytes),
        Err(error) => Err(Error::ReadFailed(error.to_string())),
    }
}

/// The size of all parts but the last, in whole MiB.
fn part_len(size: u64) -> u64 {
    size.div_ceil(MAX_PARTS).next_multiple_of(1 << 20).max(PART)
}

fn told(progress: &mut dyn FnMut(u64) -> ControlFlow<()>, bytes: u64) -> Result<(), Error> {
    match progress(bytes) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Closed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_object_has_few_enough_parts() {
        assert_eq!(part_len(PART + 1), PART);
        assert_eq!(part_len(80 << 30), 9 << 20);
        for size in [PART, 80_000 << 20, 5 << 40] {
            assert!(size.div_ceil(part_len(size)) <= MAX_PARTS, "{size}");
        }
    }

    #[test]
    fn a_malformed_file_of_credentials_is_not_quoted() {
        let parsed = serde_json::from_str::<u32>("\"secret\"");
        let error = object_store::Error::Generic {
            store: "store",
            source: parsed.unwrap_err().into(),
        };
        assert!(error.to_string().contains("secret"));
        let error = settings_error(Cloud::Google, &error);
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn names_are_encoded_in_urls() {
        let url = url_below("http://host:1/bucket", &Path::parse("a b/ü").unwrap());
        assert_eq!(url, "http://host:1/bucket/a%20b/%C3%BC");
    }
}
