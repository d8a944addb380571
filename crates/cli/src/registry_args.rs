use clap::Args;
use verimount::Location;

/// The options for content in registries.
#[derive(Args)]
#[group(skip)]
pub(crate) struct RegistryArgs {
    /// Speak to a registry without encryption, and without credentials
    #[cfg(feature = "remote")]
    #[arg(long)]
    pub(crate) plain_http: bool,
}

impl RegistryArgs {
    /// A location, read as these options say.
    pub(crate) fn apply(&self, location: &Location) -> Location {
        let location = location.clone();
        #[cfg(feature = "remote")]
        let location = location.with_plain_http(self.plain_http);
        location
    }
}
