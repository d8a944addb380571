use std::{fmt, sync::Arc};

use verimount_remote::{RemoteUrl, cloud::ObjectName, registry::Reference};
use verimount_source::Fetch;

use super::{Access, Manifest, registry::RegistryImage};
use crate::{
    Error, Location, LocationError,
    fault::Fault,
    location::{Kind, begins_with},
};

/// Where content is that is not on this machine.
#[derive(Clone)]
pub enum FarLocation {
    /// A file on a web server.
    Url(RemoteUrl),
    /// Content in a registry, or its seal.
    Registry(RegistryImage),
    /// An object in a cloud.
    Object(ObjectName),
}

impl FarLocation {
    /// The location that a text means which begins with a [scheme](crate::location::SCHEMES).
    pub(crate) fn parse(text: &str) -> Result<Self, LocationError> {
        if Reference::is_meant(text) {
            return parsed(text).map(|name| Self::Registry(RegistryImage::new(name)));
        }
        if begins_with(text, "http") {
            parsed(text).map(Self::Url)
        } else if cfg!(feature = "clouds") {
            parsed(text).map(Self::Object)
        } else {
            Err(LocationError(
                "this program was built without support for object stores".to_owned(),
            ))
        }
    }

    /// The digest that it names its content by.
    pub(crate) fn named_digest(&self) -> Option<String> {
        match self {
            Self::Registry(image) => Some(image.reference().digest()?.to_string()),
            Self::Url(_) | Self::Object(_) => None,
        }
    }

    /// The registry that it is in, if it is in one.
    pub fn registry(&self) -> Option<&str> {
        match self {
            Self::Registry(image) => Some(image.reference().registry()),
            Self::Url(_) | Self::Object(_) => None,
        }
    }

    /// A URL on the server that gets headers which a user has given; object stores get none.
    pub(crate) fn server(&self, access: &Access) -> Option<RemoteUrl> {
        match self {
            Self::Url(url) => Some(url.clone()),
            Self::Registry(image) => {
                let url = image.reference().repository_url(access.plain_http);
                url.parse().ok()
            }
            Self::Object(_) => None,
        }
    }

    /// The name of where it comes from, which no other origin has, if whoever may read it may read all that is there: a web server
    /// that wants no credentials, or a repository of a registry. Buckets may have rules for single objects.
    pub(crate) fn origin(&self, access: &Access) -> Option<String> {
        match self {
            Self::Url(url) => access.session.public_origin(url),
            Self::Registry(image) => Some(image.reference().repository_url(access.plain_http)),
            Self::Object(_) => None,
        }
    }

    /// The last component of its name.
    pub(crate) fn file_name(&self) -> &str {
        match self {
            Self::Url(url) => url.file_name(),
            Self::Registry(image) => image.reference().image_name(),
            Self::Object(name) => name.file_name(),
        }
    }

    /// The file beside it whose name has this at its end.
    pub(crate) fn with_suffix(&self, suffix: &str) -> Option<Self> {
        match self {
            Self::Url(url) => url.with_suffix(suffix).ok().map(Self::Url),
            Self::Registry(_) => None,
            Self::Object(name) => name.with_suffix(suffix).ok().map(Self::Object),
        }
    }

    /// What the registry says of the image, if it is in one.
    pub(crate) fn manifest(&self, access: &Access) -> Result<Option<Manifest>, Error> {
        match self {
            Self::Registry(image) => image.find(access).map(Some),
            _ => Ok(None),
        }
    }

    /// Its seal, if that is a layer of its own in the same registry.
    pub(crate) fn own_seal(&self, manifest: &Manifest) -> Option<Self> {
        match self {
            Self::Registry(image) if manifest.has_seal() => Some(Self::Registry(image.seal())),
            _ => None,
        }
    }

    /// Opens what a manifest says of it.
    pub(crate) fn open_layer(&self, manifest: &Manifest) -> Result<Option<Arc<dyn Fetch>>, Error> {
        match self {
            Self::Registry(image) => Ok(Some(image.open(manifest)?)),
            _ => Ok(None),
        }
    }

    /// Opens it for reading.
    pub(crate) fn open(&self, access: &Access) -> Result<Arc<dyn Fetch>, Error> {
        let failed = |error: verimount_remote::Error| Fault::io(self.clone(), error.into());
        Ok(match self {
            Self::Url(url) => match &access.whole_files {
                Some(files) => {
                    let file = files.open(url, &access.session);
                    file.map_err(|error| Fault::io(self.clone(), error))?
                }
                None => access.session.open(url).map_err(failed)?,
            },
            Self::Registry(image) => image.open(&image.find(access)?)?,
            Self::Object(name) => access.session.open_object(name).map_err(failed)?,
        })
    }
}

fn parsed<T: std::str::FromStr<Err: fmt::Display>>(text: &str) -> Result<T, LocationError> {
    text.parse()
        .map_err(|error: T::Err| LocationError(error.to_string()))
}

impl From<FarLocation> for Location {
    fn from(far: FarLocation) -> Self {
        Self(Kind::Far(far))
    }
}

impl fmt::Display for FarLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => url.fmt(f),
            Self::Registry(image) => image.fmt(f),
            Self::Object(name) => name.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_name_and_a_sidecar() {
        let url: Location = "HTTPS://host/a/app.img?token=secret".parse().unwrap();
        assert_eq!(url.path(), None);
        assert_eq!(url.file_name(), "app.img");
        assert_eq!(url.to_string(), "https://host/a/app.img");
        let sidecar = url.sidecar().unwrap();
        assert_eq!(
            format!("{sidecar:?}"),
            "Location(https://host/a/app.img.verity)"
        );
        let refused = Location::try_from("http://me:secret@host/a").unwrap_err();
        assert!(!refused.to_string().contains("secret"));
    }

    #[test]
    fn an_object_has_a_name_and_a_sidecar() {
        let object = Location::try_from("S3://bucket/a/app.img");
        if cfg!(not(feature = "clouds")) {
            let refused = object.unwrap_err().to_string();
            return assert!(refused.contains("built without"), "{refused}");
        }
        let object = object.unwrap();
        assert!(object.is_remote());
        assert_eq!(object.file_name(), "app.img");
        let sidecar = object.sidecar().unwrap();
        assert_eq!(sidecar.to_string(), "s3://bucket/a/app.img.verity");
        let refused = Location::try_from("s3://me:secret@bucket/a").unwrap_err();
        assert!(!refused.to_string().contains("secret"));
    }
}
