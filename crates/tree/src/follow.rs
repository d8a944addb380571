use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Component, Path},
};

use verimount_source::Scratch;

use crate::{Attr, Error, FileType, NodeId, Tree};

/// How many symbolic links a path may lead through, as in Linux.
const MAX_LINKS: usize = 40;

/// The attributes of the file at a path, as `stat` finds it with the root of the tree as `/`: symbolic links are followed,
/// absolute ones from the root of the tree, and `..` does not lead out of it. Whether a link at the end of the path is
/// followed, too, is up to `follows_last`.
///
/// # Errors
/// Any [`Error`]; [`Error::TooManyLinks`] for more than 40 of them.
pub fn follow(tree: &dyn Tree, path: &Path, follows_last: bool) -> Result<Attr, Error> {
    let mut walked = Walked {
        tree,
        directories: Vec::new(),
        pending: Vec::new(),
    };
    walked.push(path);
    let mut at = tree.attr(NodeId::ROOT)?;
    let mut links = 0;
    while let Some(name) = walked.pending.pop() {
        at = walked.step(&at, &name)?;
        let is_last = walked.pending.is_empty();
        if at.file_type == FileType::Symlink && (follows_last || !is_last) {
            links += 1;
            if links > MAX_LINKS {
                return Err(Error::TooManyLinks);
            }
            let target = tree.readlink(at.node, &mut Scratch::default())?.to_owned();
            let directory = walked.directories.pop().unwrap_or(NodeId::ROOT);
            at = tree.attr(directory)?;
            walked.push(Path::new(OsStr::from_bytes(&target)));
        }
    }
    Ok(at)
}

struct Walked<'t> {
    tree: &'t dyn Tree,
    /// Those that lead to the present file, without itself.
    directories: Vec<NodeId>,
    /// What of the path comes next, the last first.
    pending: Vec<OsString>,
}

impl Walked<'_> {
    /// Puts the components of a path in front of those that come next.
    fn push(&mut self, path: &Path) {
        let components = path.components().rev();
        let names = components.map(|component| component.as_os_str().to_owned());
        self.pending.extend(names);
    }

    /// Where a component leads from the file with these attributes.
    fn step(&mut self, from: &Attr, name: &OsStr) -> Result<Attr, Error> {
        match Path::new(name).components().next() {
            Some(Component::RootDir) => {
                self.directories.clear();
                self.tree.attr(NodeId::ROOT)
            }
            _ if !from.is_directory() => Err(Error::NotADirectory),
            Some(Component::Normal(name)) => {
                let found = self.tree.lookup(from.node, name)?;
                self.directories.push(from.node);
                Ok(found)
            }
            Some(Component::ParentDir) => self
                .tree
                .attr(self.directories.pop().unwrap_or(NodeId::ROOT)),
            _ => Ok(*from),
        }
    }
}
