//! Options as in fstab: `name=value` and `name`, separated by commas. They stand for the long options
//! of the commands that mount, so there is only one parser for their values.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
};

use clap::{Arg, CommandFactory, error::ErrorKind};
use verimount_host::printable;

use crate::Cli;

/// Options that mount(8) and systemd act on, or that every mount complies with: mount(8) passes `rw` for
/// everything that is not `ro`, no mount sets times of access itself, and those without the option `suid`
/// or `dev` of their own are always `nosuid` and `nodev`.
const WITHOUT_EFFECT: &[&str] = &[
    "_netdev", "async", "comment", "defaults", "exec", "loud", "nofail", "rw", "silent",
];

/// Those that have none with `no` before them, either.
const WITHOUT_EFFECT_OR_NO: &[&str] = &[
    "atime",
    "auto",
    "dev",
    "diratime",
    "group",
    "lazytime",
    "owner",
    "relatime",
    "strictatime",
    "suid",
    "user",
    "users",
];

/// What a command mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Image,
    Bridge,
    Volume,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Image, Self::Bridge, Self::Volume];

    /// The words that begin its command line.
    pub(crate) fn command(self) -> &'static [&'static str] {
        match self {
            Self::Image => &["mount"],
            Self::Bridge => &["bridge"],
            Self::Volume => &["volume", "mount"],
        }
    }

    /// The long option for `ro`, if it takes one.
    fn read_only(self) -> Option<&'static str> {
        match self {
            Self::Image => None,
            Self::Bridge => Some("--read-only"),
            Self::Volume => Some("--mode=read-only"),
        }
    }

    /// Whether the command has a long option of this name.
    fn has_option(self, name: &str) -> bool {
        let program = Cli::command();
        let command = self
            .command()
            .iter()
            .try_fold(&program, |command, word| command.find_subcommand(word));
        command.is_some_and(|command| {
            let mut names = command
                .get_arguments()
                .filter_map(Arg::get_long_and_visible_aliases);
            names.any(|names| names.contains(&name))
        })
    }
}

/// An option of a list.
pub(crate) struct ListedOption {
    /// Where it is in its list, from 1.
    place: usize,
    name: OsString,
    value: Option<OsString>,
}

impl ListedOption {
    /// The options of a list.
    pub(crate) fn parse(list: &OsStr) -> Vec<Self> {
        let parts = split(list.as_bytes());
        let places = parts.into_iter().zip(1..);
        let given = places.filter(|(part, _)| !part.is_empty());
        given.map(|(part, place)| Self::new(part, place)).collect()
    }

    fn new(part: Vec<u8>, place: usize) -> Self {
        let mut sides = part.splitn(2, |byte| *byte == b'=');
        let mut next = || sides.next().map(|side| OsString::from_vec(side.to_vec()));
        Self {
            place,
            name: next().unwrap_or_default(),
            value: next(),
        }
    }

    /// Whether it is this one, without a value.
    pub(crate) fn is_flag(&self, name: &str) -> bool {
        self.name == name && self.value.is_none()
    }

    /// The long option that it stands for; `None` if it has no effect.
    ///
    /// # Errors
    /// The command does not know it.
    pub(crate) fn long(&self, kind: Kind) -> Result<Option<OsString>, UnknownOption> {
        let unknown = || UnknownOption {
            place: self.place,
            name: printable(&self.name).to_string(),
            command: kind.command().join(" "),
        };
        let given = self.name.to_str().ok_or_else(unknown)?;
        if self.is_flag("ro") {
            return Ok(kind.read_only().map(OsString::from));
        }
        // As mount(8) writes some of them.
        let name = given.replace('_', "-");
        if !kind.has_option(&name) {
            return if is_without_effect(given) {
                Ok(None)
            } else {
                Err(unknown())
            };
        }
        let mut long = OsString::from(format!("--{name}"));
        if let Some(value) = &self.value {
            long.push("=");
            long.push(value);
        }
        Ok(Some(long))
    }
}

/// An option that is not one of the command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownOption {
    place: usize,
    name: String,
    command: String,
}

impl From<UnknownOption> for clap::Error {
    fn from(option: UnknownOption) -> Self {
        let UnknownOption {
            place,
            name,
            command,
        } = option;
        let cure = match name.as_str() {
            "remount" => "mount -o remount,bind changes the flags of a mount".to_owned(),
            _ => format!("verimount {command} --help shows the options"),
        };
        let text = format!("option {place} of the list, {name}, is unknown: {cure}\n");
        Self::raw(ErrorKind::UnknownArgument, text)
    }
}

fn is_without_effect(name: &str) -> bool {
    let without_no = name.strip_prefix("no").unwrap_or(name);
    name.starts_with("x-")
        || name.starts_with("X-")
        || WITHOUT_EFFECT.contains(&name)
        || WITHOUT_EFFECT_OR_NO.contains(&without_no)
}

/// The parts between commas. A backslash before a comma or a backslash makes that an ordinary character.
fn split(list: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = vec![Vec::new()];
    let mut bytes = list.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let escaped = bytes.next_if(|next| byte == b'\\' && matches!(next, b',' | b'\\'));
        match (byte, escaped) {
            (b',', _) => parts.push(Vec::new()),
            (byte, escaped) => parts
                .last_mut()
                .expect("there is always one")
                .push(escaped.unwrap_or(byte)),
        }
    }
    parts
}

/// Replaces each `-o LIST` of a command that mounts by the long options that it stands for.
///
/// # Errors
/// An option is unknown.
pub(crate) fn expanded(arguments: Vec<OsString>) -> Result<Vec<OsString>, clap::Error> {
    let words = arguments.get(1..).unwrap_or_default();
    let Some(kind) = Kind::ALL.into_iter().find(|kind| is_of(words, *kind)) else {
        return Ok(arguments);
    };
    let mut expanded = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            expanded.push(argument);
            break;
        }
        let Some(attached) = argument.as_bytes().strip_prefix(b"-o") else {
            expanded.push(argument);
            continue;
        };
        let list = match attached {
            [] => arguments.next(),
            list => Some(OsStr::from_bytes(list).to_owned()),
        };
        match list {
            Some(list) => expanded.append(&mut long_options(&list, kind)?),
            // The parser of arguments says that there is none.
            None => expanded.push(argument),
        }
    }
    expanded.extend(arguments);
    Ok(expanded)
}

fn long_options(list: &OsStr, kind: Kind) -> Result<Vec<OsString>, UnknownOption> {
    let options = ListedOption::parse(list);
    let long = options.iter().map(|option| option.long(kind));
    long.filter_map(Result::transpose).collect()
}

/// Whether a command line, without the program, is for this command.
fn is_of(words: &[OsString], kind: Kind) -> bool {
    let command = kind.command();
    words.len() >= command.len() && words.iter().zip(command).all(|(word, name)| word == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `line` in words, expanded.
    fn line(line: &str) -> Result<String, String> {
        let arguments = line.split(' ').map(OsString::from).collect();
        let expanded = expanded(arguments).map_err(|error| error.to_string())?;
        Ok(expanded.join(OsStr::new(" ")).into_string().unwrap())
    }

    #[test]
    fn lists_stand_for_long_options() {
        for (given, expected) in [
            ("v mount a b -o unpinned", "v mount a b --unpinned"),
            (
                "v mount -o digest=sha256:ab,allow_other -ouid=1 a b",
                "v mount --digest=sha256:ab --allow-other --uid=1 a b",
            ),
            (
                "v mount -o ,,rw,x-y.z=1,noexec, a b",
                "v mount --noexec a b",
            ),
            ("v mount -osuid,dev a b", "v mount --suid --dev a b"),
            ("v bridge -osuid,nodev a b", "v bridge a b"),
            ("v mount -o ro,key=a=b a b", "v mount --key=a=b a b"),
            (
                "v bridge -o ro,no-xattr a b",
                "v bridge --read-only --no-xattr a b",
            ),
            (
                "v volume mount a b -o ro",
                "v volume mount a b --mode=read-only",
            ),
            ("v mount a b -o", "v mount a b -o"),
            // Not for these commands, and not where only operands follow.
            ("v volume check a -o ro", "v volume check a -o ro"),
            ("v mount --unpinned -- -o b", "v mount --unpinned -- -o b"),
            ("v", "v"),
        ] {
            assert_eq!(line(given).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn unknown_options_are_named_with_their_place() {
        for (given, place, name) in [
            ("v mount a b -o rw,unpinned,diggest=x,ro", 3, "diggest"),
            ("v mount a b -o no-xattr", 1, "no-xattr"),
            ("v bridge a b -o unpinned", 1, "unpinned"),
            ("v mount a b -o =", 1, ""),
            ("v mount a b -o help", 1, "help"),
            ("v mount a b -o remount", 1, "remount"),
            ("v mount a b -o ro=1", 1, "ro"),
            ("v mount a b -o \x1b[m", 1, "\\x1b[m"),
        ] {
            let error = line(given).unwrap_err();
            let expected = format!("option {place} of the list, {name}, is unknown");
            assert!(error.contains(&expected), "{error}");
        }
    }

    #[test]
    fn a_backslash_keeps_a_comma() {
        for (list, expected) in [
            ("key=a\\,b,ro", "key=a,b ro"),
            ("key=a\\\\,b", "key=a\\ b"),
            ("key=a\\b\\", "key=a\\b\\"),
        ] {
            let parts = split(list.as_bytes()).join(&b' ');
            assert_eq!(parts, expected.as_bytes());
        }
    }
}
