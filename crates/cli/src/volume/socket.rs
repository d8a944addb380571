use std::{
    env, fs,
    io::{BufRead, BufReader},
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::net::UnixListener,
    },
    path::PathBuf,
    process,
};

use anyhow::{Context, Result};
use clap::Args;
use verimount_host::{
    mounts::take_inherited,
    printable,
    volume::{Server, SocketAccess},
};

use crate::{message::wrong_usage, owner_args::parse_permissions};

/// The descriptor of the first socket that systemd gives a service, see sd_listen_fds(3).
const FIRST_GIVEN: RawFd = 3;

/// The socket of an export.
#[derive(Args)]
pub(super) struct SocketArgs {
    /// The Unix socket to create; only its owner may connect, unless the next two options allow
    /// others. By default the one that systemd gives a service with a socket unit
    #[arg(id = "socket", long = "socket", value_name = "PATH")]
    path: Option<PathBuf>,
    /// The socket's permissions in octal; connecting requires write permission
    #[arg(long, value_name = "MODE", value_parser = parse_permissions)]
    socket_mode: Option<u32>,
    /// The socket's group: a number or a name in /etc/group
    #[arg(long, value_name = "GROUP", value_parser = parse_group)]
    socket_group: Option<u32>,
}

impl SocketArgs {
    /// A server on it, and its path.
    pub(super) fn bind(&self) -> Result<(Server, PathBuf)> {
        let access = SocketAccess {
            mode: self.socket_mode,
            group: self.socket_group,
        };
        match &self.path {
            Some(path) => {
                let server = Server::bind(path, access);
                Ok((
                    server.with_context(|| printable(path).to_string())?,
                    path.clone(),
                ))
            }
            None => given(),
        }
    }
}

/// A server on the socket that systemd gave this process, and its path.
fn given() -> Result<(Server, PathBuf)> {
    let is_for_this = env::var("LISTEN_PID").is_ok_and(|pid| pid == process::id().to_string());
    let inherited = if is_for_this {
        take_inherited()?
    } else {
        Vec::new()
    };
    let is_first = |descriptor: &OwnedFd| descriptor.as_raw_fd() == FIRST_GIVEN;
    let Some(socket) = inherited.into_iter().find(is_first) else {
        return Err(wrong_usage(
            "give --socket PATH; only a service that systemd starts with a socket unit, and with --foreground, has one",
        ));
    };
    let listener = UnixListener::from(socket);
    listener.set_nonblocking(false)?;
    let address = listener
        .local_addr()
        .context("the socket that systemd gave")?;
    let path = address
        .as_pathname()
        .context("the socket that systemd gave has no path")?;
    Ok((Server::listening(listener), path.to_owned()))
}

fn parse_group(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let groups = fs::File::open("/etc/group").map_err(|error| format!("/etc/group: {error}"))?;
    let mut lines = BufReader::new(groups).lines().map_while(Result::ok);
    lines
        .find_map(|line| group_number(&line, text))
        .ok_or_else(|| "no such group in /etc/group".to_owned())
}

/// The group number in a line of `/etc/group`, if the line is for this group.
fn group_number(line: &str, name: &str) -> Option<u32> {
    let mut fields = line.split(':');
    let is_it = fields.next() == Some(name);
    fields.nth(1).filter(|_| is_it)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups() {
        assert_eq!(parse_group("123"), Ok(123));
        assert_eq!(group_number("kvm:x:104:qemu", "kvm"), Some(104));
        assert_eq!(group_number("kvm:x:104:qemu", "kv"), None);
        assert_eq!(group_number("kvm:x", "kvm"), None);
        assert_eq!(group_number("", ""), None);
    }
}
