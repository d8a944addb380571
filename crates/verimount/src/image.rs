use std::{
    ffi::{OsStr, OsString},
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use verimount_tree::{Attr, Error as TreeError, Tree, follow};

use crate::{
    Content, DirEntry, Error, ErrorKind, ExtractOptions, Extracted, File, Location, Metadata,
    OpenOptions, ReadDir, Report, VerifyOptions, Walk,
    extract::extract,
    fault::{ContentFault, Fault},
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
pub struct Image(Arc<Opened>);

struct Opened {
    content: Content,
    tree: Box<dyn Tree>,
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
        Self(Arc::new(Opened { content, tree }))
    }

    /// What the image was opened as.
    pub fn content(&self) -> &Content {
        &self.0.content
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::InvalidInput`] if it is something else than a regular file; those of reading.
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<File, Error> {
        self.entry(path.as_ref(), true)?.open()
    }

    /// The content of a regular file. An image can have files with any number of bytes in holes: of one that is not
    /// trusted, ask for [`Metadata::len`] before.
    ///
    /// # Errors
    /// As [`Self::open_file`], and those of reading.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, Error> {
        let mut content = Vec::new();
        self.open_file(path)?.read_rest(0, &mut content)?;
        Ok(content)
    }

    /// The content of a regular file as text.
    ///
    /// # Errors
    /// As [`Self::read`]; [`ErrorKind::WrongFormat`] if it is not UTF-8.
    pub fn read_to_string(&self, path: impl AsRef<Path>) -> Result<String, Error> {
        let path = path.as_ref();
        String::from_utf8(self.read(path)?)
            .map_err(|_| Fault::NotText.at(self.location()).inside(path))
    }

    /// The entries of a directory.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::InvalidInput`] if it is not a directory; those of reading.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<ReadDir, Error> {
        ReadDir::new(self.entry(path.as_ref(), true)?)
    }

    /// What is at `path`, and everything below it: a directory before its entries. Symbolic links are not followed.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], and those of reading.
    pub fn walk(&self, path: impl AsRef<Path>) -> Result<Walk, Error> {
        Walk::new(self.entry(path.as_ref(), false)?)
    }

    /// The attributes of a file.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], and those of reading.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata, Error> {
        self.attr(path.as_ref(), true).map(Metadata::new)
    }

    /// The attributes of a file; if it is a symbolic link, those of the link.
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
        self.entry(path.as_ref(), false)?.read_link()
    }

    /// The names of a file's extended attributes. A symbolic link is not followed.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], and those of reading.
    pub fn xattr_names(&self, path: impl AsRef<Path>) -> Result<Vec<OsString>, Error> {
        self.entry(path.as_ref(), false)?.xattr_names()
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
        self.entry(path.as_ref(), false)?.xattr(name)
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
        let watch = &mut options.watcher.watch();
        extract(
            self.tree(),
            self.location(),
            directory.as_ref(),
            options,
            watch,
        )
    }

    /// As [`Content::verify`], of the image without its devices.
    ///
    /// # Errors
    /// As [`Content::verify`].
    pub fn verify(&self, options: &VerifyOptions) -> Result<Report, Error> {
        self.content().verify(options)
    }

    pub(crate) fn tree(&self) -> &dyn Tree {
        &*self.0.tree
    }

    fn location(&self) -> &Location {
        &self.content().opened.location
    }

    fn attr(&self, path: &Path, follows_last: bool) -> Result<Attr, Error> {
        follow(self.tree(), path, follows_last).map_err(|error| self.failed(path, error))
    }

    fn entry(&self, path: &Path, follows_last: bool) -> Result<DirEntry, Error> {
        let attr = self.attr(path, follows_last)?;
        Ok(DirEntry::new(self.clone(), path.to_owned(), attr))
    }

    /// The error of the file at `path`.
    pub(crate) fn failed(&self, path: &Path, error: TreeError) -> Error {
        ContentFault::image(self.location(), error).inside(path)
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Image").field(self.content()).finish()
    }
}
