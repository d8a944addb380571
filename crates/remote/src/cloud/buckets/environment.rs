use std::{env, path::PathBuf, str::FromStr};

use object_store::{aws::AmazonS3ConfigKey, azure::AzureConfigKey, gcp::GoogleConfigKey};

use super::Cloud;
use crate::{Error, RemoteUrl};

/// Variables of the environment, in which clouds have their settings and credentials: their names and values.
#[derive(Clone, Default)]
pub(crate) struct Environment(Vec<(String, Value)>);

/// The value of a variable; `None` if it is not UTF-8.
type Value = Option<String>;

/// What a value that is read must look like. `object_store` panics on some of the others, or quotes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Part of a header or URL: printable ASCII.
    Plain,
    /// A URL without user and password.
    Url,
    /// A path, or the content of a file.
    Any,
}

impl Environment {
    /// Those of this process.
    pub(crate) fn of_process() -> Self {
        let known = |name: &str| Cloud::ALL.iter().any(|cloud| is_of(*cloud, name));
        let all = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok())));
        Self(all.filter(|(name, _)| known(name)).collect())
    }

    #[cfg(test)]
    pub(crate) fn of(variables: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), Some((*value).to_owned()));
        Self(variables.iter().map(owned).collect())
    }

    /// The files with credentials that variables name.
    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let all = Cloud::ALL.into_iter().flat_map(|cloud| {
            let own = self.own(cloud);
            own.filter(move |(name, _)| {
                Shape::of(cloud, &name.to_ascii_lowercase()) == Some(Shape::Any)
            })
        });
        // A key is not named, but given.
        all.filter_map(|(_, value)| value.as_ref().map(PathBuf::from))
            .filter(|path| path.is_file())
    }

    /// Looks at all values that are read for a cloud.
    ///
    /// # Errors
    /// [`Error::CloudSettings`], with the name of the variable and without its value.
    pub(super) fn check(&self, cloud: Cloud) -> Result<(), Error> {
        for (name, value) in self.own(cloud) {
            let shape = Shape::of(cloud, &name.to_ascii_lowercase());
            let defect = shape.and_then(|shape| shape.defect(value.as_deref()));
            if let Some(defect) = defect {
                let reason = format!("{name} {defect}");
                return Err(Error::CloudSettings { cloud, reason });
            }
        }
        Ok(())
    }

    /// The settings of a cloud that its client knows.
    pub(super) fn settings<K: FromStr>(&self, cloud: Cloud) -> impl Iterator<Item = (K, &str)> {
        self.own(cloud).filter_map(|(name, value)| {
            let key = name.to_ascii_lowercase().parse().ok()?;
            Some((key, value.as_deref()?))
        })
    }

    /// Whether a switch is on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        let value = self.0.iter().find(|(own, _)| own == name);
        let value = value.and_then(|(_, value)| Some(value.as_ref()?.to_ascii_lowercase()));
        matches!(value.as_deref(), Some("1" | "true" | "on" | "yes" | "y"))
    }

    fn own(&self, cloud: Cloud) -> impl Iterator<Item = &(String, Value)> {
        self.0.iter().filter(move |(name, _)| is_of(cloud, name))
    }
}

impl Shape {
    /// That of a variable, whose name is in lower case; `None` if nothing reads it.
    fn of(cloud: Cloud, name: &str) -> Option<Self> {
        match cloud {
            Cloud::S3 => name.parse().ok().map(Self::of_s3),
            Cloud::Google => name.parse().ok().map(Self::of_google),
            Cloud::Azure => name.parse().ok().map(Self::of_azure),
        }
    }

    fn of_s3(key: AmazonS3ConfigKey) -> Self {
        match key {
            AmazonS3ConfigKey::Endpoint
            | AmazonS3ConfigKey::S3Endpoint
            | AmazonS3ConfigKey::StsEndpoint
            | AmazonS3ConfigKey::MetadataEndpoint
            | AmazonS3ConfigKey::ContainerCredentialsFullUri => Self::Url,
            AmazonS3ConfigKey::WebIdentityTokenFile
            | AmazonS3ConfigKey::ContainerAuthorizationTokenFile => Self::Any,
            _ => Self::Plain,
        }
    }

    fn of_google(key: GoogleConfigKey) -> Self {
        match key {
            GoogleConfigKey::BaseUrl => Self::Url,
            GoogleConfigKey::ServiceAccount
            | GoogleConfigKey::ServiceAccountKey
            | GoogleConfigKey::ApplicationCredentials => Self::Any,
            _ => Self::Plain,
        }
    }

    fn of_azure(key: AzureConfigKey) -> Self {
        match key {
            AzureConfigKey::Endpoint
            | AzureConfigKey::MsiEndpoint
            | AzureConfigKey::AuthorityHost
            | AzureConfigKey::FabricTokenServiceUrl => Self::Url,
            AzureConfigKey::FederatedTokenFile => Self::Any,
            _ => Self::Plain,
        }
    }

    /// What is wrong with a value, after the name of its variable.
    fn defect(self, value: Option<&str>) -> Option<String> {
        let is_printable = |byte: u8| (b' '..=b'~').contains(&byte);
        match (self, value) {
            (_, None) => Some("is not UTF-8".to_owned()),
            (Self::Plain, Some(value)) if !value.bytes().all(is_printable) => Some(
                "has a character that is not printable ASCII, perhaps a line feed at its end"
                    .to_owned(),
            ),
            (Self::Url, Some(value)) => {
                let error = value.parse::<RemoteUrl>().err()?;
                Some(format!("is not usable: {error}"))
            }
            _ => None,
        }
    }
}

fn is_of(cloud: Cloud, name: &str) -> bool {
    // These have names of their own.
    let is_other = match cloud {
        Cloud::S3 => false,
        Cloud::Google => name == "SERVICE_ACCOUNT",
        Cloud::Azure => name == "IDENTITY_ENDPOINT",
    };
    is_other || name.starts_with(cloud.prefix())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_has_its_own_settings() {
        let environment = Environment::of(&[
            ("AWS_REGION", "r"),
            ("AWS_ALLOW_HTTP", "True"),
            ("GOOGLE_BASE_URL", "u"),
            ("SERVICE_ACCOUNT", "f"),
        ]);
        let names = |cloud| -> Vec<_> {
            environment
                .settings(cloud)
                .map(|(name, _): (String, _)| name)
                .collect()
        };
        assert_eq!(names(Cloud::S3), ["aws_region", "aws_allow_http"]);
        assert_eq!(names(Cloud::Google), ["google_base_url", "service_account"]);
        assert!(names(Cloud::Azure).is_empty());
        assert!(environment.is_on("AWS_ALLOW_HTTP"));
        assert!(!environment.is_on("AWS_REGION") && !environment.is_on("AWS_SKIP_SIGNATURE"));
    }

    #[test]
    fn values_that_are_not_read_do_not_matter() {
        let environment = Environment::of(&[("AWS_PS1", "a\nb"), ("AWS_REGION", "here")]);
        assert_eq!(environment.check(Cloud::S3), Ok(()));
        let foreign = Environment::of(&[("AZURE_STORAGE_TOKEN", "a\nb")]);
        assert_eq!(foreign.check(Cloud::S3), Ok(()));
        assert!(foreign.check(Cloud::Azure).is_err());
    }

    #[test]
    fn values_that_are_no_text_are_named() {
        let environment = Environment(vec![("AWS_SECRET_ACCESS_KEY".to_owned(), None)]);
        let error = environment.check(Cloud::S3).unwrap_err().to_string();
        assert!(
            error.contains("AWS_SECRET_ACCESS_KEY is not UTF-8"),
            "{error}"
        );
    }
}
