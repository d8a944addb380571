//! Files with random modes, access control lists and capabilities.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs::{self, File},
    os::unix::fs::{lchown, symlink},
    path::Path,
    process::Command,
};

use anyhow::Result;
use rustix::fs::{CWD, FileType, Mode, XattrFlags, chmod, mknodat, setxattr};
use verimount_support::command;
use verimount_testkit::Random;

/// The attributes of which archives have records.
pub(super) const ACCESS: &str = "system.posix_acl_access";
pub(super) const DEFAULT: &str = "system.posix_acl_default";
pub(super) const CAPABILITY: &str = "security.capability";

/// How the names of attributes of users begin.
pub(super) const USERS: &str = "user.";

/// The most files of an archive beside those in directories.
const MAX_MEMBERS: usize = 5;

/// Users and groups without names: GNU tar writes names in the place of numbers.
const IDS: [u32; 4] = [1234, 4711, 70_000, 3_000_000];

/// `cap_net_raw=ep`, as `setcap` stores it.
const CAPABILITY_VALUE: [u8; 20] = [
    1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// What the names of attributes consist of: each archiver escapes other bytes. The last one cannot be in a record that is written
/// as it is.
const PARTS: [&str; 12] = [
    "a", "%", "%20", "%4", " ", "é", "\t", "\n", "\\", "\"", "\u{7f}", "=",
];

/// What archives have in the place of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Text, in which numbers are as in libarchive's: again at the end.
    Text,
    /// The attribute itself.
    Attribute,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    File,
    Fifo,
    Symlink,
}

/// A file.
pub(super) struct Member {
    name: String,
    kind: Kind,
    mode: u32,
    owner: (u32, u32),
    access: Option<List>,
    default: Option<List>,
    is_capable: bool,
    /// Attributes of users.
    attributes: BTreeMap<String, Vec<u8>>,
}

/// An access control list.
struct List(Vec<Entry>);

struct Entry {
    tag: &'static str,
    /// Its number as an attribute.
    number: u16,
    id: Option<u32>,
    rights: u16,
}

/// Some files; those in a directory are behind it. `escapes`: any name of an attribute can be written.
pub(super) fn members(random: &mut Random, escapes: bool) -> Vec<Member> {
    let mut members = Vec::new();
    for number in 0..=random.below(MAX_MEMBERS) {
        let kinds = [
            Kind::File,
            Kind::File,
            Kind::Directory,
            Kind::Directory,
            Kind::Fifo,
            Kind::Symlink,
        ];
        let kind = random.choose(&kinds);
        members.push(Member::some(random, format!("m{number}"), kind, escapes));
        if kind == Kind::Directory {
            members.push(Member::some(
                random,
                format!("m{number}/inside"),
                Kind::File,
                escapes,
            ));
        }
    }
    members
}

/// Makes files. What is in a directory with a default list would inherit it.
pub(super) fn make(members: &[Member], root: &Path) -> Result<()> {
    for member in members {
        member.make(&root.join(&member.name))?;
    }
    for member in members {
        member.describe(&root.join(&member.name))?;
    }
    Ok(())
}

impl Member {
    fn some(random: &mut Random, name: String, kind: Kind, escapes: bool) -> Self {
        let is_directory = kind == Kind::Directory;
        let has_attributes = is_directory || kind == Kind::File;
        Self {
            name,
            kind,
            mode: random.below(0o10000) as u32,
            owner: (random.choose(&IDS), random.choose(&IDS)),
            access: (random.below(4) > 0).then(|| List::some(random)),
            default: (is_directory && random.coin()).then(|| List::some(random)),
            is_capable: kind == Kind::File && random.below(4) == 0,
            attributes: if has_attributes {
                attributes(random, escapes)
            } else {
                BTreeMap::new()
            },
        }
    }

    fn make(&self, path: &Path) -> Result<()> {
        match self.kind {
            Kind::Directory => fs::create_dir(path)?,
            Kind::File => drop(File::create(path)?),
            Kind::Fifo => mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0)?,
            Kind::Symlink => symlink("target", path)?,
        }
        Ok(())
    }

    /// Has the kernel give it all that it has, the lists after the mode.
    fn describe(&self, path: &Path) -> Result<()> {
        lchown(path, Some(self.owner.0), Some(self.owner.1))?;
        if self.kind == Kind::Symlink {
            return Ok(());
        }
        if self.is_capable {
            setxattr(path, CAPABILITY, &CAPABILITY_VALUE, XattrFlags::empty())?;
        }
        for (name, value) in &self.attributes {
            setxattr(path, name, value, XattrFlags::empty())?;
        }
        chmod(path, Mode::from_raw_mode(self.mode))?;
        for (attribute, list) in self.lists() {
            list.set(path, attribute)?;
        }
        Ok(())
    }

    fn lists(&self) -> impl Iterator<Item = (&'static str, &List)> {
        let access = self.access.iter().map(|list| (ACCESS, list));
        access.chain(self.default.iter().map(|list| (DEFAULT, list)))
    }

    /// As the writers' input has it.
    pub(super) fn line(&self, form: Form) -> String {
        let kind = match self.kind {
            Kind::Directory => "directory",
            Kind::File => "file",
            Kind::Fifo => "fifo",
            Kind::Symlink => "symlink",
        };
        let (uid, gid) = self.owner;
        let mut line = format!("{} {kind} {:o} {uid} {gid}", self.name, self.mode);
        let mut add = |key: &str, value: &[u8]| {
            let digits = |bytes: &[u8]| -> String {
                let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
                digits.collect()
            };
            let _ = write!(line, " {}={}", digits(key.as_bytes()), digits(value));
        };
        for (name, value) in &self.attributes {
            add(&format!("SCHILY.xattr.{name}"), value);
        }
        if self.is_capable {
            add(&format!("SCHILY.xattr.{CAPABILITY}"), &CAPABILITY_VALUE);
        }
        for (attribute, list) in self.lists() {
            match form {
                Form::Text => add(
                    &attribute.replace("system.posix_acl_", "SCHILY.acl."),
                    list.text(true).as_bytes(),
                ),
                Form::Attribute => add(&format!("SCHILY.xattr.{attribute}"), &list.value()),
            }
        }
        line
    }
}

/// Some attributes with odd names and values.
fn attributes(random: &mut Random, escapes: bool) -> BTreeMap<String, Vec<u8>> {
    let parts = &PARTS[..PARTS.len() - usize::from(!escapes)];
    let count = random.below(4);
    let attribute = |_| {
        let name: String = (0..=random.below(5))
            .map(|_| random.choose(parts))
            .collect();
        let value = (0..random.below(20))
            .map(|_| random.below(256) as u8)
            .collect();
        (format!("{USERS}{name}"), value)
    };
    (0..count).map(attribute).collect()
}

impl List {
    /// Often a minimal one, and sometimes one without the mask that it needs.
    fn some(random: &mut Random) -> Self {
        let mut list = Self(Vec::new());
        list.add(random, ("user", 0x01), None);
        list.add_named(random, ("user", 0x02));
        list.add(random, ("group", 0x04), None);
        list.add_named(random, ("group", 0x08));
        if random.below(4) > 0 {
            list.add(random, ("mask", 0x10), None);
        }
        list.add(random, ("other", 0x20), None);
        list
    }

    fn add(&mut self, random: &mut Random, (tag, number): (&'static str, u16), id: Option<u32>) {
        let rights = random.below(8) as u16;
        self.0.push(Entry {
            tag,
            number,
            id,
            rights,
        });
    }

    fn add_named(&mut self, random: &mut Random, tag: (&'static str, u16)) {
        for id in IDS {
            if random.below(8) == 0 {
                self.add(random, tag, Some(id));
            }
        }
    }

    /// Whether it names somebody without a mask. The kernel refuses such lists, and `setfacl` completes them.
    fn lacks_mask(&self) -> bool {
        let mut entries = self.0.iter();
        entries.any(|entry| entry.id.is_some()) && self.0.iter().all(|entry| entry.tag != "mask")
    }

    /// With each number again at the end of its entry, as libarchive writes it, or not.
    fn text(&self, twice: bool) -> String {
        let entries = self.0.iter().map(|entry| {
            let id = entry.id.map_or(String::new(), |id| id.to_string());
            let right = |bit, letter| if entry.rights & bit == 0 { '-' } else { letter };
            let rights = [right(4, 'r'), right(2, 'w'), right(1, 'x')];
            let rights: String = rights.into_iter().collect();
            let end = entry
                .id
                .filter(|_| twice)
                .map_or(String::new(), |id| format!(":{id}"));
            format!("{}:{id}:{rights}{end}", entry.tag)
        });
        entries.collect::<Vec<_>>().join(",")
    }

    /// The value of the attribute.
    fn value(&self) -> Vec<u8> {
        let mut value = 2_u32.to_le_bytes().to_vec();
        for entry in &self.0 {
            value.extend(entry.number.to_le_bytes());
            value.extend(entry.rights.to_le_bytes());
            value.extend(entry.id.unwrap_or(u32::MAX).to_le_bytes());
        }
        value
    }

    fn set(&self, path: &Path, attribute: &str) -> Result<()> {
        if !self.lacks_mask() {
            return Ok(setxattr(
                path,
                attribute,
                &self.value(),
                XattrFlags::empty(),
            )?);
        }
        let mut set = Command::new("setfacl");
        if attribute == DEFAULT {
            set.arg("--default");
        }
        command::run(set.arg("--modify").arg(self.text(false)).arg(path))
    }
}
