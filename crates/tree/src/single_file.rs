use std::{
    ffi::{OsStr, OsString},
    sync::Arc,
};

use verimount_source::{ReadAt, Scratch};

use crate::{
    AddEntry, Attr, Cursor, DirEntry, Error, FileType, Measurement, NodeId, Ownership, Permissions,
    StoredFile, Tree, Usage, part_inside,
};

/// The permissions of the directory; those of the file restrict access.
const DIRECTORY: Permissions = Permissions::new(0o555);

/// A directory that contains one file.
pub struct SingleFile {
    content: Arc<dyn ReadAt>,
    name: OsString,
    directory: Attr,
    file: Attr,
    measurement: Option<Measurement>,
}

impl SingleFile {
    /// The file.
    pub const FILE: NodeId = NodeId::new(2).unwrap();

    /// A directory with a file of this name and content. Both have the owner, group and time of the
    /// stored file; the file has its permissions without write and set-id bits.
    pub fn new(name: &OsStr, stored: &StoredFile, content: Arc<dyn ReadAt>) -> Self {
        let attr = |node, file_type, permissions, size| Attr {
            uid: stored.uid,
            gid: stored.gid,
            atime: stored.mtime,
            mtime: stored.mtime,
            ctime: stored.mtime,
            ..Attr::new(node, file_type, permissions, size)
        };
        Self {
            directory: attr(NodeId::ROOT, FileType::Directory, DIRECTORY, 0),
            file: attr(
                Self::FILE,
                FileType::RegularFile,
                stored.permissions,
                content.size(),
            ),
            content,
            name: name.into(),
            measurement: None,
        }
    }

    /// Adds what fs-verity measures of the content.
    pub fn measured(self, measurement: Option<Measurement>) -> Self {
        Self {
            measurement,
            ..self
        }
    }

    fn check_directory(&self, node: NodeId) -> Result<(), Error> {
        if self.attr(node)?.is_directory() {
            Ok(())
        } else {
            Err(Error::NotADirectory)
        }
    }
}

impl Tree for SingleFile {
    fn attr(&self, node: NodeId) -> Result<Attr, Error> {
        match node {
            NodeId::ROOT => Ok(self.directory),
            Self::FILE => Ok(self.file),
            _ => Err(Error::NotFound),
        }
    }

    fn lookup(&self, directory: NodeId, name: &OsStr) -> Result<Attr, Error> {
        self.check_directory(directory)?;
        if name == self.name {
            Ok(self.file)
        } else {
            Err(Error::NotFound)
        }
    }

    fn parent(&self, _: NodeId) -> Result<Attr, Error> {
        // All but the root is the file.
        Err(Error::NotADirectory)
    }

    fn list(&self, directory: NodeId, from: Cursor, add: &mut AddEntry<'_>) -> Result<(), Error> {
        const END: Cursor = Cursor::new(1).unwrap();
        self.check_directory(directory)?;
        let entry = DirEntry {
            name: &self.name,
            node: Self::FILE,
            ino: Self::FILE.get(),
            file_type: FileType::RegularFile,
        };
        if from == Cursor::START {
            // It is the only entry.
            let _ = add(entry, END);
        }
        Ok(())
    }

    fn read<'s>(
        &self,
        node: NodeId,
        offset: u64,
        len: usize,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], Error> {
        match node {
            NodeId::ROOT => Err(Error::IsADirectory),
            Self::FILE => match part_inside(offset, len, self.file.size).len() {
                0 => Ok(&[]),
                len => Ok(self.content.read_borrowed(scratch, offset, len)?),
            },
            _ => Err(Error::NotFound),
        }
    }

    fn measure(&self, node: NodeId) -> Result<Option<Measurement>, Error> {
        Ok(self.measurement.clone().filter(|_| node == Self::FILE))
    }

    fn ownership(&self) -> Ownership {
        Ownership::Borrowed
    }

    fn usage(&self) -> Usage {
        Usage {
            bytes: self.file.size,
            name_max: 255,
            max_entries: 1,
        }
    }
}
