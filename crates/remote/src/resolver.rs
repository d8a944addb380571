//! How the client looks up hosts.

use std::{
    ffi::CString,
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, mpsc},
    thread,
};

use ureq::{
    Error, Timeout,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{ResolvedSocketAddrs, Resolver},
        transport::NextTimeout,
    },
};
use verimount_sys::{LookupError, look_up};

use crate::{helping, loopback::is_this_machine};

/// The most addresses of a host that are tried, which are as many as the client's list holds.
const MAX_ADDRESSES: usize = 16;

/// Asks the system, and tells a host that does not exist from one that cannot be looked up now.
pub(crate) struct SystemResolver {
    look_up: Arc<LookUp>,
}

type LookUp = dyn Fn(&str, u16) -> Result<Vec<SocketAddr>, LookupError> + Send + Sync;

impl Default for SystemResolver {
    fn default() -> Self {
        Self {
            look_up: Arc::new(|host, port| {
                helping::look_up(host, port).unwrap_or_else(|| look_up_here(host, port))
            }),
        }
    }
}

/// Asks the system, by this process.
pub(crate) fn look_up_here(host: &str, port: u16) -> Result<Vec<SocketAddr>, LookupError> {
    match CString::new(host) {
        Ok(host) => look_up(&host, port),
        Err(_) => Err(LookupError::Unknown),
    }
}

impl SystemResolver {
    fn addresses(&self, url: &Uri, timeout: NextTimeout) -> Result<Vec<SocketAddr>, Error> {
        let host = url.host().unwrap_or_default();
        let port = url.port_u16().unwrap_or(match url.scheme_str() {
            Some("https") => 443,
            _ => 80,
        });
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = literal.parse::<IpAddr>() {
            return Ok(vec![(address, port).into()]);
        }
        let mut found = self.in_time(host.to_owned(), port, timeout)?;
        // What is sent there may be secret and is not encrypted, whatever the resolver says.
        if is_this_machine(host) {
            found.retain(|address| address.ip().to_canonical().is_loopback());
        }
        Ok(found)
    }

    /// Looks up a host in a thread of its own, which is left behind if it takes too long.
    fn in_time(
        &self,
        host: String,
        port: u16,
        timeout: NextTimeout,
    ) -> Result<Vec<SocketAddr>, Error> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let look_up = self.look_up.clone();
        thread::Builder::new()
            .name("resolver".to_owned())
            .spawn(move || sender.send(look_up(&host, port)))?;
        match receiver.recv_timeout(*timeout.after) {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(LookupError::Unknown)) => Err(Error::HostNotFound),
            Ok(Err(LookupError::Unavailable)) => Err(io::Error::new(
                io::ErrorKind::HostUnreachable,
                "the name of the host cannot be looked up at present",
            )
            .into()),
            Err(_) => Err(Error::Timeout(Timeout::Resolve)),
        }
    }
}

impl Resolver for SystemResolver {
    fn resolve(
        &self,
        url: &Uri,
        _: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let mut addresses = self.empty();
        for address in self
            .addresses(url, timeout)?
            .into_iter()
            .take(MAX_ADDRESSES)
        {
            addresses.push(address);
        }
        if addresses.is_empty() {
            Err(Error::HostNotFound)
        } else {
            Ok(addresses)
        }
    }
}

impl fmt::Debug for SystemResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemResolver").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error as RemoteError, http::of_client};

    /// The addresses of a URL if its host is looked up with this result.
    fn resolved(
        url: &str,
        found: Result<&'static [&'static str], LookupError>,
    ) -> Result<Vec<String>, RemoteError> {
        let resolver = SystemResolver {
            look_up: Arc::new(move |_, port| {
                let parsed = |ip: &&str| SocketAddr::new(ip.parse().unwrap(), port);
                Ok(found?.iter().map(parsed).collect())
            }),
        };
        let config = ureq::Agent::config_builder().build();
        let timeout = NextTimeout::default();
        let addresses = resolver.resolve(&url.parse().unwrap(), &config, timeout);
        let addresses = addresses.map_err(of_client)?;
        Ok(addresses.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn hosts_are_looked_up_and_addresses_are_not() {
        for (url, expected) in [
            ("http://host/", "192.0.2.1:80"),
            ("https://host/", "192.0.2.1:443"),
            ("https://host:1/", "192.0.2.1:1"),
            ("http://192.0.2.2/", "192.0.2.2:80"),
            ("http://[::2]:1/", "[::2]:1"),
        ] {
            let found = resolved(url, Ok(&["192.0.2.1"]));
            assert_eq!(found, Ok(vec![expected.to_owned()]), "{url}");
        }
    }

    #[test]
    fn localhost_is_nowhere_else() {
        let addresses: &[&str] = &["192.0.2.1", "127.0.0.1", "::1"];
        let local = resolved("http://localhost/", Ok(addresses)).unwrap();
        assert_eq!(local, ["127.0.0.1:80", "[::1]:80"]);
        let elsewhere = resolved("http://LOCALHOST./", Ok(&["192.0.2.1"]));
        assert_eq!(elsewhere, Err(RemoteError::UnknownHost));
        let other = resolved("http://host/", Ok(addresses)).unwrap();
        assert_eq!(other.len(), 3);
    }

    #[test]
    fn a_host_that_does_not_exist_is_told_from_one_that_cannot_be_looked_up() {
        let unknown = resolved("http://host/", Err(LookupError::Unknown)).unwrap_err();
        assert_eq!(unknown, RemoteError::UnknownHost);
        assert!(!unknown.may_pass());
        let unavailable = resolved("http://host/", Err(LookupError::Unavailable)).unwrap_err();
        assert!(
            matches!(unavailable, RemoteError::Unreachable(_)),
            "{unavailable}"
        );
        assert!(unavailable.may_pass());
    }

    #[test]
    fn no_list_of_addresses_is_too_long() {
        let found = resolved("http://host/", Ok(&["192.0.2.1"; 100])).unwrap();
        assert_eq!(found.len(), MAX_ADDRESSES);
    }
}
