mod bucket;
mod environment;
mod object;
mod transport;

use std::{collections::HashMap, env, path::PathBuf, sync::Arc};

use verimount_sync::Mutex;

use self::bucket::Bucket;
pub(crate) use self::{environment::Environment, object::Object};
use super::{Cloud, ObjectName};
use crate::{Error, http::Http, limits::Limits};

/// The buckets that a session uses, each with the credentials that were found for it.
#[derive(Default)]
pub(crate) struct Buckets {
    /// By default that of the process.
    environment: Option<Environment>,
    known: Mutex<HashMap<(Cloud, String), Arc<Bucket>>>,
}

/// The files with credentials of clouds: those that the environment names, and where Google's tools leave theirs.
pub(crate) fn credential_files() -> impl Iterator<Item = PathBuf> {
    let google = ".config/gcloud/application_default_credentials.json";
    let google = env::var_os("HOME").map(|home| PathBuf::from(home).join(google));
    let named: Vec<_> = Environment::of_process().files().collect();
    named.into_iter().chain(google.filter(|file| file.exists()))
}

impl Buckets {
    #[cfg(test)]
    pub(crate) fn new(environment: Environment) -> Self {
        Self {
            environment: Some(environment),
            known: Mutex::default(),
        }
    }

    /// The object with this name.
    ///
    /// # Errors
    /// [`Error::CloudSettings`].
    pub(crate) fn object(
        &self,
        name: &ObjectName,
        http: &Http,
        limits: &Limits,
    ) -> Result<Object, Error> {
        Ok(Object::new(self.bucket(name, http, limits)?, name))
    }

    fn bucket(
        &self,
        name: &ObjectName,
        http: &Http,
        limits: &Limits,
    ) -> Result<Arc<Bucket>, Error> {
        // Nothing is sent while it is held.
        let mut known = self.known.lock();
        let key = (name.cloud(), name.bucket().to_owned());
        if let Some(bucket) = known.get(&key) {
            return Ok(bucket.clone());
        }
        let environment = match &self.environment {
            Some(environment) => environment.clone(),
            None => Environment::of_process(),
        };
        let bucket = Bucket::new(name.cloud(), name.bucket(), &environment, http, limits)?;
        Ok(known.entry(key).or_insert(bucket.into()).clone())
    }
}
