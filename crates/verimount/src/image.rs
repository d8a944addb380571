use std::{
    ffi::{OsStr, OsString},
    fmt,
    io::Read,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use verimount_source::Scratch;
use verimount_tree::{Attr, Error as TreeError, FileType, Tree, follow};

use crate::{
    Content, DirEntry, Error, ErrorKind, ExtractOptions, Extracted, File, Location, Metadata,
    OpenOptions, ReadDir, Report, VerifyOptions, Walk, extract::extract, fault::Fault,
};

/// An image of a directory tree, read by path as [`std::fs`] reads the system's files. Every byte that it gives was
/// verified.
///
/// Paths begin at the image's root, with or without `/`. Symbolic links are followed inside of the image: absolute ones from
/// its root, which `..` does not leave. Clones are cheap, and any number of threads may use them at once.
///
/// ```no_run
/// use verimount::{Image, OpenOptions};
///
/// # let digest = "sha256:adf83db3b55f77f4e12df982ede7545206a6791529f6f944e7208d764e282901";
/// let image = Image::open("app.img", &OpenOptions::new().digest(digest.parse()?))?;
/// for entry in image.read_dir("docs")? {
///     let entry = entry?;
///     println!("{:?}: {} bytes", entry.path(), entry.metadata().len());
/// }
/// print!("{}", image.read_to_string("docs/README.md")?);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Image {
    content: Content,
    tree: Arc<dyn Tree>,
}

impl Image {
    /// Opens the image at `location`, as the options accept it.
    ///
    /// # Errors
    /// As [`Content::open`]; [`ErrorKind::WrongFormat`] if it is not an image.
    pub fn open<L: TryInto<Location>>(location: L, options: &OpenOptions) -> Result<Self, Error>
    where
        Error: From<L::Error>,
    {
        Content::open(location, options)?.image()
    }

    pub(crate) fn new(content: Content, tree: Box<dyn Tree>) -> Self {
        let tree = tree.into();
        Self { content, tree }
    }

    /// What the image was opened as.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::InvalidInput`] if it is something else than a regular file; those of reading.
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<File, Error> {
        let path = path.as_ref();
        let attr = self.attr(path, true)?;
        let refused = match attr.file_type {
            FileType::RegularFile => None,
            FileType::Directory => Some(TreeError::IsADirectory),
            _ => Some(TreeError::NoContent),
        };
        match refused {
            Some(error) => Err(self.failed(path, error)),
            None => Ok(File::in_image(
                self.content.location.clone(),
                self.tree.clone(),
                (attr.node, attr.size),
                path.to_owned(),
            )),
        }
    }

    /// The content of a regular file. An image can have files with any number of bytes in holes: of one that is not
    /// trusted, ask for [`Metadata::len`] before.
    ///
    /// # Errors
    /// As [`Self::open_file`], and those of reading.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, Error> {
        let path = path.as_ref();
        let mut file = self.open_file(path)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)
            .map_err(|error| self.unwrapped(path, error))?;
        Ok(content)
    }

    /// The same as text.
    ///
    /// # Errors
    /// As [`Self::read`]; [`ErrorKind::WrongFormat`] if it is not UTF-8.
    pub fn read_to_string(&self, path: impl AsRef<Path>) -> Result<String, Error> {
        let path = path.as_ref();
        String::from_utf8(self.read(path)?)
            .map_err(|_| Fault::NotText.at(&self.content.location).inside(path))
    }

    /// The entries of a directory.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::InvalidInput`] if it is not a directory; those of reading.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<ReadDir, Error> {
        let path = path.as_ref();
        let attr = self.attr(path, true)?;
        match attr.is_directory() {
            true => Ok(ReadDir::new(self.clone(), attr.node, path.to_owned())),
            false => Err(self.failed(path, TreeError::NotADirectory)),
        }
    }

    /// What is at `path`, and everything below it: a directory before its entries. Symbolic links are not followed.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], and those of reading.
    pub fn walk(&self, path: impl AsRef<Path>) -> Result<Walk, Error> {
        let path = path.as_ref();
        let attr = self.attr(path, false)?;
        Walk::new(self.clone(), DirEntry::new(path.to_owned(), attr))
    }

    /// The attributes of a file.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], and those of reading.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata, Error> {
        self.attr(path.as_ref(), true).map(Metadata::new)
    }

    /// The same; if it is a symbolic link, those of the link.
    ///
    /// # Errors
    /// As [`Self::metadata`].
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Metadata, Error> {
        self.attr(path.as_ref(), false).map(Metadata::new)
    }

    /// Whether there is a file or directory at `path`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn exists(&self, path: impl AsRef<Path>) -> Result<bool, Error> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::InvalidInput`] if it is not a symbolic link; those of reading.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<PathBuf, Error> {
        let path = path.as_ref();
        let attr = self.attr(path, false)?;
        let mut scratch = Scratch::default();
        let target = self.tree.readlink(attr.node, &mut scratch);
        let target = target.map_err(|error| self.failed(path, error))?;
        Ok(OsStr::from_bytes(target).into())
    }

    /// The names of a file's extended attributes. A symbolic link is not followed.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], and those of reading.
    pub fn xattr_names(&self, path: impl AsRef<Path>) -> Result<Vec<OsString>, Error> {
        let path = path.as_ref();
        let node = self.attr(path, false)?.node;
        let names = self.tree.xattr_names(node);
        let names = names.map_err(|error| self.failed(path, error))?;
        Ok(names.iter().map(OsStr::to_owned).collect())
    }

    /// The value of an extended attribute, if the file has it. A symbolic link is not followed.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such file, and those of reading.
    pub fn xattr(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let path = path.as_ref();
        let node = self.attr(path, false)?.node;
        match self.tree.xattr(node, name.as_ref()) {
            Ok(value) => Ok(Some(value)),
            Err(TreeError::NoAttribute) => Ok(None),
            Err(error) => Err(self.failed(path, error)),
        }
    }

    /// Copies all files to `directory`, which is made if it does not exist. Hard links and holes are kept.
    ///
    /// If the image stores owners, everything that it stores is restored as far as the caller may, also for
    /// `directory` itself: owners, permissions, times, extended attributes, access control lists and
    /// capabilities. A file without its owner or group does not get the set-id bit for it. Directories are
    /// accessible only to the caller until all files are there.
    ///
    /// The files of other images belong to the caller, and have their permissions without set-id bits.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if there are files in the directory, [`ErrorKind::TooLarge`] if more would be written
    /// than allowed, [`ErrorKind::Cancelled`]; those of reading and writing, also if others change the directory meanwhile.
    /// What was copied so far is left.
    pub fn extract(
        &self,
        directory: impl AsRef<Path>,
        options: &ExtractOptions,
    ) -> Result<Extracted, Error> {
        let location = &self.content.location;
        extract(&*self.tree, location, directory.as_ref(), options)
    }

    /// As [`Content::verify`], of the image without its devices.
    ///
    /// # Errors
    /// As [`Content::verify`].
    pub fn verify(&self, options: &VerifyOptions) -> Result<Report, Error> {
        self.content.verify(options)
    }

    pub(crate) fn tree(&self) -> &dyn Tree {
        &*self.tree
    }

    fn attr(&self, path: &Path, follows_last: bool) -> Result<Attr, Error> {
        follow(&*self.tree, path, follows_last).map_err(|error| self.failed(path, error))
    }

    /// The error of the file at `path`.
    pub(crate) fn failed(&self, path: &Path, error: TreeError) -> Error {
        Error::image(&self.content.location, error).inside(path)
    }

    /// The error that `File` has put into one of the system.
    fn unwrapped(&self, path: &Path, error: std::io::Error) -> Error {
        error
            .downcast()
            .unwrap_or_else(|error| Error::io(&self.content.location, error).inside(path))
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Image").field(&self.content).finish()
    }
}
