use std::{
    ffi::{OsStr, OsString},
    ops::ControlFlow,
    sync::Arc,
};

use verimount_source::{ReadAt, Scratch};

use crate::{Attr, Error, FileKind, Inode, Tree, Usage, tree::clamp};

/// A directory that holds one file.
pub struct SingleFile {
    content: Arc<dyn ReadAt>,
    name: OsString,
    attr: Attr,
}

impl SingleFile {
    /// The file's inode.
    pub const FILE: Inode = Inode(2);

    /// A directory with a file of this name and content.
    pub fn new(name: &OsStr, executable: bool, content: Arc<dyn ReadAt>) -> Self {
        let attr = Attr {
            inode: Self::FILE,
            kind: FileKind::File,
            permissions: if executable { 0o755 } else { 0o644 },
            size: content.size(),
        };
        Self {
            content,
            name: name.into(),
            attr,
        }
    }

    fn check_directory(&self, inode: Inode) -> Result<(), Error> {
        match inode {
            Inode::ROOT => Ok(()),
            Self::FILE => Err(Error::NotADirectory),
            _ => Err(Error::NotFound),
        }
    }
}

impl Tree for SingleFile {
    fn attr(&self, inode: Inode) -> Result<Attr, Error> {
        match inode {
            Inode::ROOT => Ok(Attr {
                inode,
                kind: FileKind::Directory,
                permissions: 0o755,
                size: 0,
            }),
            Self::FILE => Ok(self.attr),
            _ => Err(Error::NotFound),
        }
    }

    fn list(
        &self,
        directory: Inode,
        position: u64,
        add: &mut dyn FnMut(&OsStr, &Attr) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.check_directory(directory)?;
        if position == 0 {
            // There is nothing more, whatever it wants.
            let _ = add(&self.name, &self.attr);
        }
        Ok(())
    }

    fn lookup(&self, directory: Inode, name: &OsStr) -> Result<Attr, Error> {
        self.check_directory(directory)?;
        if name == self.name {
            Ok(self.attr)
        } else {
            Err(Error::NotFound)
        }
    }

    fn read<'s>(
        &self,
        inode: Inode,
        offset: u64,
        len: usize,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], Error> {
        match inode {
            Inode::ROOT => Err(Error::IsADirectory),
            Self::FILE => {
                let len = clamp(offset, len, self.content.size());
                match len {
                    0 => Ok(&[]),
                    _ => Ok(self.content.read_borrowed(scratch, offset, len)?),
                }
            }
            _ => Err(Error::NotFound),
        }
    }

    fn readlink<'s>(&self, inode: Inode, _: &'s mut Scratch) -> Result<&'s [u8], Error> {
        self.attr(inode)?;
        Err(Error::NotASymlink)
    }

    fn usage(&self) -> Usage {
        Usage {
            bytes: self.content.size(),
            name_max: 255,
        }
    }
}
