//! Which hosts are this machine.

use std::net::IpAddr;

/// Whether a host, as it stands in a URL, is this machine: a loopback address, or `localhost`.
pub(crate) fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => without_root(host).eq_ignore_ascii_case(LOCALHOST),
    }
}

/// Whether a host can only be meant as this machine: also a name below `localhost`, all of which are reserved for
/// loopback addresses (RFC 6761, 6.3). Resolvers differ in whether they know that, so it is no secure way.
pub(crate) fn is_meant_as_this_machine(host: &str) -> bool {
    let below = without_root(host).rsplit_once('.');
    is_this_machine(host) || below.is_some_and(|(_, last)| last.eq_ignore_ascii_case(LOCALHOST))
}

const LOCALHOST: &str = "localhost";

/// A name without the dot that stands for the root of all names.
fn without_root(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_several_names() {
        for (host, is, is_meant) in [
            ("localhost", true, true),
            ("LocalHost.", true, true),
            ("127.0.0.1", true, true),
            ("127.8.9.10", true, true),
            ("[::1]", true, true),
            ("[::ffff:127.0.0.1]", true, true),
            ("registry.localhost", false, true),
            ("a.b.LOCALHOST.", false, true),
            ("notlocalhost", false, false),
            ("localhost.example.org", false, false),
            ("127.0.0.1.example.org", false, false),
            ("128.0.0.1", false, false),
            ("[::2]", false, false),
            ("", false, false),
        ] {
            assert_eq!(is_this_machine(host), is, "{host}");
            assert_eq!(is_meant_as_this_machine(host), is_meant, "{host}");
        }
    }
}
