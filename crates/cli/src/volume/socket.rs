use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::Args;
use verimount::printable;
use verimount::volume::{Server, SocketAccess};

use crate::owner_args::parse_permissions;

/// The socket of an export.
#[derive(Args)]
pub(super) struct SocketArgs {
    /// The Unix socket to create; only its owner may connect, unless the next two options allow
    /// others
    #[arg(id = "socket", long = "socket", value_name = "PATH")]
    path: PathBuf,
    /// The socket's permissions in octal; connecting requires write permission
    #[arg(long, value_name = "MODE", value_parser = parse_permissions)]
    socket_mode: Option<u32>,
    /// The socket's group: a number or a name in /etc/group
    #[arg(long, value_name = "GROUP", value_parser = parse_group)]
    socket_group: Option<u32>,
}

impl SocketArgs {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The socket's path for messages.
    pub(super) fn shown(&self) -> String {
        printable(&self.path).to_string()
    }

    pub(super) fn bind(&self) -> Result<Server> {
        let access = SocketAccess {
            mode: self.socket_mode,
            group: self.socket_group,
        };
        Server::bind_for(&self.path, access).with_context(|| self.shown())
    }
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
