use std::{
    ffi::{OsStr, OsString},
    sync::Arc,
};

use verimount_source::{ReadAt, Scratch};

use crate::{Attr, Directory, Entry, Error, FileKind, Inode, Tree, Usage, tree::clamp};

/// A directory that holds one file.
pub struct SingleFile {
    content: Arc<dyn ReadAt>,
    directory: Arc<Directory>,
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
        let name = OsString::from(name).into_boxed_os_str();
        Self {
            content,
            directory: Arc::new(Directory::new(vec![Entry { name, attr }])),
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
            Self::FILE => Ok(self.directory.entries()[0].attr),
            _ => Err(Error::NotFound),
        }
    }

    fn directory(&self, inode: Inode) -> Result<Arc<Directory>, Error> {
        match inode {
            Inode::ROOT => Ok(self.directory.clone()),
            Self::FILE => Err(Error::NotADirectory),
            _ => Err(Error::NotFound),
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

    fn usage(&self) -> Usage {
        Usage {
            bytes: self.content.size(),
            name_max: 255,
        }
    }
}
