//! The options for content on web servers.

use std::{
    error::Error,
    io::{self, Read},
    ops::RangeInclusive,
    path::{Path, PathBuf, absolute},
    str::FromStr,
    sync::Once,
    time::Duration,
};

use anyhow::{Context, Result};
use clap::{Args, ValueHint};
use verimount::{Cache, CacheError, OpenOptions, RemoteOptions, set_fetch_memory};
use verimount_host::{
    doctor::has_system_certificates,
    printable,
    sandbox::{Sandbox, open_again},
};

use super::cache_directory::usual_directory;
use crate::{
    message::{reasons, say},
    options::parse_size,
};

/// How long a read may wait, in seconds.
const TIMEOUTS: RangeInclusive<u32> = 1..=86400;

/// How content on web servers is reached, and where it is kept.
#[derive(Args)]
pub(crate) struct AccessArgs {
    #[command(flatten)]
    cache: CacheArgs,
    /// For URLs: keep nothing on disk
    #[arg(long, conflicts_with_all = ["cache", "cache_size"])]
    no_cache: bool,
    #[command(flatten)]
    session: SessionArgs,
}

/// How content on web servers is reached.
#[derive(Args)]
pub(crate) struct SessionArgs {
    /// For URLs: how long a read waits for the next data, in seconds; then it fails
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = parse_timeout)]
    timeout: u32,
    /// For URLs: how much of what was fetched is kept in memory, at least 4M; readers may wait for more
    #[arg(long, value_name = "SIZE", default_value = "48M", value_parser = parse_size)]
    fetch_memory: u64,
    /// For URLs: accept only server certificates of the authorities in this file (PEM), not those that the
    /// system accepts
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    ca: Option<PathBuf>,
    /// For URLs: send the headers in this file with each request to the server of the content, one "Name: value" on each
    /// line; they are not sent to other servers, such as those of mirrors, nor without encryption
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    header_file: Option<PathBuf>,
}

/// Which cache it is.
#[derive(Args)]
pub(crate) struct CacheArgs {
    /// Directory in which content of URLs is kept; by default verimount in $XDG_CACHE_HOME or ~/.cache
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    cache: Option<PathBuf>,
    /// Size of that cache on disk; by default 10G, or a tenth of the file system if that is less
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    cache_size: Option<u64>,
}

impl AccessArgs {
    /// Adds to `options` how servers are reached and what is kept, if anything is on another machine.
    pub(crate) fn apply_if(&self, is_remote: bool, options: OpenOptions) -> Result<OpenOptions> {
        let options = self.session.apply_if(is_remote, options)?;
        Ok(options.cache(self.cache_if(is_remote)?))
    }

    fn cache_if(&self, is_remote: bool) -> Result<Option<Cache>> {
        if is_remote && !self.no_cache {
            self.cache.open_if_possible()
        } else {
            Ok(None)
        }
    }

    /// Keeps what that takes. The cache is made, if it is missing.
    pub(crate) fn prepare_if(&self, is_remote: bool, sandbox: &mut Sandbox) -> Result<()> {
        if !is_remote {
            return Ok(());
        }
        for file in [&self.session.ca, &self.session.header_file] {
            file.iter().try_for_each(|file| sandbox.open_again(file))?;
        }
        if let Some(cache) = self.cache_if(is_remote)? {
            // The directory that was given has the one with the files in it.
            sandbox.change(cache.path().parent().unwrap_or(cache.path()));
        }
        Ok(())
    }
}

impl SessionArgs {
    /// Adds to `options` how servers are reached, if anything is on another machine.
    pub(crate) fn apply_if(&self, is_remote: bool, options: OpenOptions) -> Result<OpenOptions> {
        Ok(if is_remote {
            options.remote(self.options()?)
        } else {
            options
        })
    }

    pub(crate) fn options(&self) -> Result<RemoteOptions> {
        let mut options = RemoteOptions::default();
        set_fetch_memory(self.fetch_memory);
        options.timeout = Duration::from_secs(self.timeout.into());
        match &self.ca {
            Some(path) => {
                options.authorities = Some(parsed(path)?);
                options.read_authorities_again(reading(path)?);
            }
            None if !has_system_certificates() => say(
                "note: this system has no certificates of authorities: servers are believed by those of Mozilla, as they \
                 were at the release of this program (install the package ca-certificates, or give --ca)",
            ),
            None => {}
        }
        if let Some(path) = &self.header_file {
            options.headers = parsed(path)?;
            options.read_headers_again(reading(path)?);
        }
        Ok(options)
    }
}

impl CacheArgs {
    /// The cache. If none was asked for and the usual one cannot be used, as in many containers, there is none.
    fn open_if_possible(&self) -> Result<Option<Cache>> {
        match self.open() {
            Err(error) if self.cache.is_none() => {
                tell_unusable(&error);
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }

    pub(crate) fn open(&self) -> Result<Cache> {
        let directory = self.cache.clone().map_or_else(usual_directory, Ok);
        Cache::open(&directory.context("cache")?, self.cache_size).context("cache")
    }
}

/// Says why the usual cache is not used, if its owner can mend that; once, as a mount opens it for its sandbox, too.
fn tell_unusable(error: &anyhow::Error) {
    static SAID: Once = Once::new();
    match error.downcast_ref::<CacheError>() {
        None | Some(CacheError::Io { .. }) => {
            tracing::debug!(error = reasons(error), "nothing is kept on disk");
        }
        Some(_) => SAID.call_once(|| {
            say(format_args!(
                "note: nothing is kept on disk: {}",
                reasons(error)
            ));
        }),
    }
}

fn parse_timeout(text: &str) -> Result<u32, String> {
    let seconds = text
        .parse()
        .ok()
        .filter(|seconds| TIMEOUTS.contains(seconds));
    let (first, last) = (TIMEOUTS.start(), TIMEOUTS.end());
    seconds.ok_or_else(|| format!("a timeout is a number of seconds, {first} to {last}"))
}

/// What is in a file.
fn parsed<T>(path: &Path) -> Result<T>
where
    T: FromStr<Err: Error + Send + Sync + 'static>,
{
    let parse = || -> Result<T> { Ok(reading(path)?()?.parse()?) };
    parse().with_context(|| printable(path).to_string())
}

/// Reads the text of a file whenever that is called.
fn reading(path: &Path) -> io::Result<impl Fn() -> io::Result<String> + Send + Sync + 'static> {
    /// Many times the size of a system's list of authorities.
    const MAX_SIZE: u64 = 16 << 20;
    // The working directory is another one later.
    let path = absolute(path)?;
    Ok(move || io::read_to_string(open_again(&path)?.take(MAX_SIZE)))
}
