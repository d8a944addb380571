use std::{collections::BTreeSet, path::PathBuf, str::FromStr, sync::Arc};

use thiserror::Error;
use verimount_names::named;
use verimount_tree::Timestamp;

use crate::Patterns;

/// What of a tree is taken, and what is changed in it. By default, all of it as it is.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What is left out, directories with everything in them; the root never is.
    pub exclude: Patterns,
    /// The modification times.
    pub times: Times,
    /// Owner and group of everything, in the place of those in the tree.
    pub owner: Option<Owner>,
    /// The extended attributes.
    pub attributes: AttributeChoice,
    /// What becomes of the whiteouts in an archive. Those in a directory are files.
    pub whiteouts: Whiteouts,
    /// What becomes of the symbolic links in a directory. Those in an archive are kept.
    pub links: Links,
    /// Whether only names and contents of a directory are taken: everybody may read all files, and only their owner write
    /// them, nobody execute them; and files with several names become several files.
    pub plain: bool,
    /// Paths below a directory that are left out, with all that is in them, and listed by
    /// [`SourceTree::left_out`](crate::SourceTree::left_out).
    pub ignored: BTreeSet<PathBuf>,
    /// A file that is added to a directory.
    pub added: Option<AddedFile>,
}

/// What becomes of symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Links {
    /// They are symbolic links in the image.
    #[default]
    Kept,
    /// What they lead to is in their place, wherever it is.
    Followed,
}

/// A file that is added to the root of a tree. There must be none of its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedFile {
    /// Its name.
    pub name: String,
    /// What is in it.
    pub content: Arc<[u8]>,
}

/// Modification times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Times {
    /// Those of the tree.
    #[default]
    Kept,
    /// This one for everything.
    All(Timestamp),
    /// Those of the tree, and this one for what is later, as `SOURCE_DATE_EPOCH` asks for.
    AtMost(Timestamp),
}

/// Owner and group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

named! {
    /// Which extended attributes are taken. Nobody may do more with a file that has lost its access control list.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum AttributeChoice {
        /// All that the caller can see, access control lists and file capabilities included.
        #[default]
        All = "all",
        /// Those whose names begin with `user.`.
        User = "user",
        /// None.
        None = "none",
    }
}

named! {
    /// What becomes of the whiteouts of a container layer: files that say what is deleted of the layers below.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Whiteouts {
        /// What overlayfs takes for them, so that the image can be a lower layer: `.wh.NAME` becomes the character
        /// device 0:0 with the name NAME, and `.wh..wh..opq` the attributes `trusted.overlay.opaque` and `user.overlay.opaque`
        /// of its directory: for overlays of root and of ordinary users.
        #[default]
        Overlay = "overlay",
        /// They stay files.
        Keep = "keep",
    }
}

/// The text is not an owner and a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("an owner is two numbers of 32 bits with a colon between: UID:GID")]
pub struct InvalidOwner;

impl FromStr for Owner {
    type Err = InvalidOwner;

    fn from_str(text: &str) -> Result<Self, InvalidOwner> {
        let (uid, gid) = text.split_once(':').ok_or(InvalidOwner)?;
        // The last number means none in system calls.
        let parse = |text: &str| text.parse().ok().filter(|id| *id != u32::MAX);
        match (parse(uid), parse(gid)) {
            (Some(uid), Some(gid)) => Ok(Self { uid, gid }),
            _ => Err(InvalidOwner),
        }
    }
}

impl Times {
    /// The time that is taken for one of the tree.
    pub(crate) fn apply(self, time: Timestamp) -> Timestamp {
        match self {
            Self::Kept => time,
            Self::All(all) => all,
            Self::AtMost(latest) => time.min(latest),
        }
    }
}

impl AttributeChoice {
    /// Whether an attribute of this name is taken.
    pub(crate) fn includes(self, name: &[u8]) -> bool {
        match self {
            Self::All => true,
            // The prefix alone, which an archive may have, is no name.
            Self::User => matches!(name.strip_prefix(b"user."), Some([_, ..])),
            Self::None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_users_have_a_name_behind_their_prefix() {
        for (name, is_of_users) in [
            ("user.a", true),
            ("user.", false),
            ("user", false),
            ("trusted.user.a", false),
        ] {
            let includes = |choice: AttributeChoice| choice.includes(name.as_bytes());
            assert_eq!(
                AttributeChoice::ALL.map(includes),
                [true, is_of_users, false],
                "{name}"
            );
        }
    }

    #[test]
    fn owners_are_two_numbers() {
        assert_eq!(
            "0:4294967294".parse(),
            Ok(Owner {
                uid: 0,
                gid: u32::MAX - 1
            })
        );
        for text in [
            "",
            "0",
            "0:",
            ":0",
            "root:root",
            "-1:0",
            "0:4294967295",
            "0:0:0",
        ] {
            assert_eq!(text.parse::<Owner>(), Err(InvalidOwner), "{text}");
        }
    }
}
