use clap::Args;
use verimount::OpenOptions;

/// The options for content in registries.
#[derive(Args)]
#[group(skip)]
pub(crate) struct RegistryArgs {
    /// Speak to a registry without encryption, and without credentials
    #[arg(long)]
    plain_http: bool,
}

impl RegistryArgs {
    /// Adds the options for content in registries to `options`.
    pub(crate) fn apply(&self, options: OpenOptions) -> OpenOptions {
        options.plain_http(self.plain_http)
    }
}
