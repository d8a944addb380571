use std::env;

use super::Cloud;

/// Variables of the environment, in which clouds have their settings and credentials.
#[derive(Clone, Default)]
pub(crate) struct Environment(Vec<(String, String)>);

impl Environment {
    /// Those of this process.
    pub(crate) fn of_process() -> Self {
        let known = |name: &str| Cloud::ALL.iter().any(|cloud| is_of(*cloud, name));
        let all = env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Self(all.filter(|(name, _)| known(name)).collect())
    }

    #[cfg(test)]
    pub(crate) fn of(variables: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self(variables.iter().map(owned).collect())
    }

    /// The settings of a cloud: their names in lower case, and their values.
    pub(super) fn settings(&self, cloud: Cloud) -> impl Iterator<Item = (String, &str)> {
        let own = self.0.iter().filter(move |(name, _)| is_of(cloud, name));
        own.map(|(name, value)| (name.to_ascii_lowercase(), &**value))
    }

    /// Whether a switch is on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        let value = self.0.iter().find(|(own, _)| own == name);
        let value = value.map(|(_, value)| value.to_ascii_lowercase());
        matches!(value.as_deref(), Some("1" | "true" | "on" | "yes" | "y"))
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
        let names =
            |cloud| -> Vec<_> { environment.settings(cloud).map(|(name, _)| name).collect() };
        assert_eq!(names(Cloud::S3), ["aws_region", "aws_allow_http"]);
        assert_eq!(names(Cloud::Google), ["google_base_url", "service_account"]);
        assert!(names(Cloud::Azure).is_empty());
        assert!(environment.is_on("AWS_ALLOW_HTTP"));
        assert!(!environment.is_on("AWS_REGION") && !environment.is_on("AWS_SKIP_SIGNATURE"));
    }
}
