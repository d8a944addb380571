use std::{
    ffi::CStr,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    ptr,
};

/// Why a host has no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupError {
    /// There is no such host, or none with an address.
    Unknown,
    /// It cannot be found out now.
    Unavailable,
}

/// The addresses of a host, with a port, in the order in which they should be tried. It may take long. The standard
/// library does the same, but does not tell why there are none.
///
/// # Errors
/// [`LookupError`].
pub fn look_up(host: &CStr, port: u16) -> Result<Vec<SocketAddr>, LookupError> {
    let hints = libc::addrinfo {
        ai_flags: 0,
        ai_family: libc::AF_UNSPEC,
        ai_socktype: libc::SOCK_STREAM,
        ai_protocol: 0,
        ai_addrlen: 0,
        ai_addr: ptr::null_mut(),
        ai_canonname: ptr::null_mut(),
        ai_next: ptr::null_mut(),
    };
    let mut list = Addresses(ptr::null_mut());
    // SAFETY: the name is a C string, there is no service, and the hints have only what they may have. All of
    // them live until the call returns, which keeps no pointer to them. It sets `list` if it succeeds.
    let code = unsafe {
        libc::getaddrinfo(
            host.as_ptr(),
            ptr::null(),
            ptr::from_ref(&hints),
            ptr::from_mut(&mut list.0),
        )
    };
    match code {
        0 => Ok(list.with_port(port)),
        libc::EAI_NONAME | libc::EAI_NODATA => Err(LookupError::Unknown),
        _ => Err(LookupError::Unavailable),
    }
}

/// What `getaddrinfo` has found: null, or a list that it has made.
struct Addresses(*mut libc::addrinfo);

impl Addresses {
    fn with_port(&self, port: u16) -> Vec<SocketAddr> {
        let mut found = Vec::new();
        let mut next = self.0;
        // SAFETY: it is null or an entry of the list, which lives as long as `self` and is not changed.
        while let Some(entry) = unsafe { next.as_ref() } {
            // SAFETY: the entry is one of `getaddrinfo`.
            found.extend(unsafe { address(entry, port) });
            next = entry.ai_next;
        }
        found
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the list was made by `getaddrinfo`, and nothing refers to it any longer.
            unsafe { libc::freeaddrinfo(self.0) }
        }
    }
}

/// The address in an entry; `None` if it is of another family.
///
/// # Safety
/// The entry must be one of `getaddrinfo`, whose address is of the family that it says.
unsafe fn address(entry: &libc::addrinfo, port: u16) -> Option<SocketAddr> {
    match entry.ai_family {
        libc::AF_INET => {
            // SAFETY: an address of this family is a `sockaddr_in`, which lives as long as the entry.
            let address = unsafe { entry.ai_addr.cast::<libc::sockaddr_in>().as_ref() }?;
            let ip = Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, port).into())
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family is a `sockaddr_in6`, which lives as long as the entry.
            let address = unsafe { entry.ai_addr.cast::<libc::sockaddr_in6>().as_ref() }?;
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, port, 0, address.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_looked_up() {
        for (host, expected) in [
            (c"192.0.2.1", "192.0.2.1:80"),
            (c"2001:db8::1", "[2001:db8::1]:80"),
        ] {
            let expected = expected.parse().unwrap();
            assert_eq!(look_up(host, 80), Ok(vec![expected]));
        }
        let localhost = look_up(c"localhost", 80).unwrap();
        assert!(!localhost.is_empty());
        assert!(localhost.iter().all(|address| address.ip().is_loopback()));
    }

    #[test]
    fn hosts_that_cannot_be_are_unknown() {
        // No resolver needs to ask anybody for these.
        for host in [c"", c"256.256.256.256.", c"a b"] {
            assert_eq!(look_up(host, 80), Err(LookupError::Unknown), "{host:?}");
        }
    }
}
