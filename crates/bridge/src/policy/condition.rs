use std::{ffi::OsStr, fmt, str::FromStr};

use rustix::io::Errno;
use serde::Deserialize;

use crate::Caller;

use super::{
    Access, Facts, glob::Paths, magic::Magic, one_or_many::OneOrMany, size::SizeRange, text::Text,
};

/// The longest name of an extended attribute that Linux allows, in bytes.
const XATTR_NAME_MAX: usize = 255;

/// A condition of a rule, in order of the cost of testing it.
#[derive(Debug)]
pub(super) enum Condition {
    Access(Access),
    CallerUid(OneOrMany<u32>),
    CallerGid(OneOrMany<u32>),
    Path(Paths),
    Size(OneOrMany<Text<SizeRange>>),
    OwnerUid(OneOrMany<u32>),
    OwnerGid(OneOrMany<u32>),
    Xattr(OneOrMany<Xattr>),
    Magic(OneOrMany<Magic>),
}

/// An extended attribute that a file must have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Xattr {
    name: Text<XattrName>,
    /// The required value; any value if none is given.
    equals: Option<String>,
}

/// The name of an extended attribute.
#[derive(Debug)]
struct XattrName(String);

impl FromStr for XattrName {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let has_namespace = name
            .split_once('.')
            .is_some_and(|(namespace, name)| !namespace.is_empty() && !name.is_empty());
        if has_namespace && name.len() <= XATTR_NAME_MAX && !name.contains('\0') {
            Ok(Self(name.to_owned()))
        } else {
            Err("allowed is the whole name, as in \"user.kind\", of at most 255 bytes")
        }
    }
}

impl Condition {
    /// Whether it holds.
    pub(super) fn holds(&self, facts: &dyn Facts) -> Result<bool, Errno> {
        Ok(match self {
            Self::Access(access) => facts.access() == *access,
            Self::CallerUid(uids) => is_among(uids, facts.caller().uid),
            Self::CallerGid(gids) => is_among(gids, facts.caller().gid),
            Self::Path(paths) => paths.contain(facts.path()?),
            Self::Size(ranges) => {
                let size = facts.size()?;
                ranges.iter().any(|range| range.0.contains(size))
            }
            Self::OwnerUid(uids) => is_among(uids, facts.owner()?.0),
            Self::OwnerGid(gids) => is_among(gids, facts.owner()?.1),
            Self::Xattr(xattrs) => any(xattrs, |xattr| xattr.is_of(facts))?,
            Self::Magic(magics) => any(magics, |magic| has_magic(facts, magic))?,
        })
    }

    /// Whether it holds for every open of any file by this caller for this access; `None` if that
    /// depends on the file.
    pub(super) fn holds_for(&self, (access, caller): (Access, Caller)) -> Option<bool> {
        match self {
            Self::Access(wanted) => Some(access == *wanted),
            Self::CallerUid(uids) => Some(is_among(uids, caller.uid)),
            Self::CallerGid(gids) => Some(is_among(gids, caller.gid)),
            _ => None,
        }
    }

    /// The actual value, in words, if it does not hold.
    pub(super) fn found(&self, facts: &dyn Facts) -> Result<String, Errno> {
        Ok(match self {
            Self::Access(_) => facts.access().to_string(),
            Self::CallerUid(_) => facts.caller().uid.to_string(),
            Self::CallerGid(_) => facts.caller().gid.to_string(),
            Self::Path(_) => format!("{:?}", facts.path()?),
            Self::Size(_) => facts.size()?.to_string(),
            Self::OwnerUid(_) => facts.owner()?.0.to_string(),
            Self::OwnerGid(_) => facts.owner()?.1.to_string(),
            Self::Xattr(_) => "none such".to_owned(),
            Self::Magic(_) => "something else".to_owned(),
        })
    }
}

fn is_among(values: &OneOrMany<u32>, id: u32) -> bool {
    values.iter().any(|value| *value == id)
}

fn any<T>(
    values: &OneOrMany<T>,
    mut holds: impl FnMut(&T) -> Result<bool, Errno>,
) -> Result<bool, Errno> {
    for value in values.iter() {
        if holds(value)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_magic(facts: &dyn Facts, magic: &Magic) -> Result<bool, Errno> {
    let mut found = vec![0; magic.bytes().len()];
    let len = facts.content(magic.offset(), &mut found)?;
    Ok(found.get(..len) == Some(magic.bytes()))
}

impl Xattr {
    fn name(&self) -> &str {
        let Text(XattrName(name)) = &self.name;
        name
    }

    fn is_of(&self, facts: &dyn Facts) -> Result<bool, Errno> {
        let found = facts.xattr(OsStr::new(self.name()))?;
        Ok(found.is_some_and(|found| {
            let wanted = self.equals.as_ref();
            wanted.is_none_or(|wanted| wanted.as_bytes() == found)
        }))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Access(access) => write!(f, "access is {access}"),
            Self::CallerUid(uids) => write!(f, "caller_uid is {uids}"),
            Self::CallerGid(gids) => write!(f, "caller_gid is {gids}"),
            Self::Path(paths) => write!(f, "path matches {paths}"),
            Self::Size(ranges) => write!(f, "size is in {ranges}"),
            Self::OwnerUid(uids) => write!(f, "owner_uid is {uids}"),
            Self::OwnerGid(gids) => write!(f, "owner_gid is {gids}"),
            Self::Xattr(xattrs) => write!(f, "xattr is {xattrs}"),
            Self::Magic(magics) => write!(f, "magic is {magics}"),
        }
    }
}

impl fmt::Display for Xattr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.equals {
            Some(value) => write!(f, "{} = {value:?}", self.name()),
            None => f.write_str(self.name()),
        }
    }
}
