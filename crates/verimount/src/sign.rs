use std::{
    fs::OpenOptions as FileOptions,
    io::{self, Write},
    os::unix::fs::{MetadataExt, fchown},
    path::{Path, PathBuf},
    sync::Arc,
};

use verimount_content::{Place, Trust, find_seal};
use verimount_source::{FileSource, OutputFile};
use verimount_verity::{
    Error as VerityError, FileDigest, KeyPair, SealLayout, Sealed, SecretKey, Signature,
};

use crate::{
    Error, Location, OpenOptions, fault::ContentFault, open::cut_off, seal::open_to_change,
};

/// A sealed file that can be signed.
#[derive(Debug)]
pub struct SealedFile {
    path: PathBuf,
    sidecar: Option<Location>,
    sealed: Sealed,
}

impl SealedFile {
    /// Finds the seal of a file, as [`Content::open`](crate::Content::open) does. What it takes no notice of is which
    /// content the options accept.
    ///
    /// # Errors
    /// As for [`Content::open`](crate::Content::open).
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, Error> {
        let path = path.as_ref();
        let location = Location::from(path);
        let options = &options.for_content(&location, &Trust::Unverified).places;
        let place = Place::new(location.clone(), options);
        let (source, _) = place.content()?;
        Ok(Self {
            path: path.to_owned(),
            sealed: find_seal(&place, source).map_err(|error| cut_off(error, &place))?,
            sidecar: options.sidecar.clone().or(location.sidecar()),
        })
    }

    /// The digest that is signed.
    pub fn digest(&self) -> FileDigest {
        self.sealed.file_digest()
    }

    /// Stores a signature in the seal. If interrupted, the seal has either its old or its new
    /// signature.
    ///
    /// # Errors
    /// [`NotSealed`](crate::ErrorKind::NotSealed), [`WrongContent`](crate::ErrorKind::WrongContent) if the file was changed
    /// meanwhile, and those of writing.
    pub fn sign(&self, key: &SecretKey) -> Result<(), Error> {
        let signature = key.sign(&self.digest());
        let signature = signature.map_err(|error| ContentFault::seal(&self.path, error))?;
        match (self.sealed.layout(), &self.sidecar) {
            (SealLayout::Sidecar, Some(sidecar)) => self.replace_sidecar(sidecar, &signature),
            _ => self.change_end(&signature),
        }
    }

    fn change_end(&self, signature: &Signature) -> Result<(), Error> {
        let file = open_to_change(&self.path)?;
        let content = file.try_clone().and_then(FileSource::new);
        let content = Arc::new(content.map_err(|error| ContentFault::io(&self.path, error))?);
        let change = || {
            // The file is locked now, so nobody else can sign it.
            let locked = Sealed::open_appended(content.clone())?;
            let (expected, actual) = (self.digest(), locked.file_digest());
            if actual != expected {
                return Err(VerityError::WrongDigest {
                    expected: Box::new(expected),
                    actual: Box::new(actual),
                });
            }
            locked.replace_signature(&file, &*content, signature)
        };
        change().map_err(|error| ContentFault::seal(&self.path, error))
    }

    fn replace_sidecar(&self, sidecar: &Location, signature: &Signature) -> Result<(), Error> {
        let io = |error| ContentFault::io(sidecar, error);
        let path = sidecar
            .path()
            .ok_or_else(|| io(io::ErrorKind::Unsupported.into()))?;
        // Replace the target of a symbolic link, not the link.
        let path = path.canonicalize().map_err(io)?;
        // Opening for writing checks that the user may change the file.
        let old = FileOptions::new().read(true).write(true).open(&path);
        let mut old = old.map_err(io)?;
        let new = OutputFile::replacing(&path).map_err(io)?;
        io::copy(&mut old, &mut new.file()).map_err(io)?;
        let written = self.sealed.write_signature(new.file(), signature);
        written.map_err(|error| ContentFault::seal(sidecar, error))?;
        let finish = || {
            let metadata = old.metadata()?;
            // Root restores the owner; for other users this fails, and the file is their own.
            let _ = fchown(new.file(), Some(metadata.uid()), Some(metadata.gid()));
            new.file().set_permissions(metadata.permissions())?;
            new.commit()
        };
        finish().map_err(io)
    }
}

/// The files of a new key pair, which exist when the keys are in them.
#[derive(Debug)]
pub struct NewKeyFiles {
    public: (PathBuf, OutputFile),
    secret: (PathBuf, OutputFile),
}

impl NewKeyFiles {
    /// Makes sure that the files can be made. The secret key's is for its owner only.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists), and those of the system.
    pub fn new(public: &Path, secret: &Path) -> Result<Self, Error> {
        let new = |path: &Path, mode| match OutputFile::new(path, mode) {
            Ok(file) => Ok((path.to_owned(), file)),
            Err(error) => Err(ContentFault::io(path, error)),
        };
        Ok(Self {
            secret: new(secret, 0o600)?,
            public: new(public, 0o644)?,
        })
    }

    /// Makes a minisign key pair; a password protects the secret key.
    ///
    /// # Errors
    /// Those of the system.
    pub fn generate(self, password: Option<String>) -> Result<(), Error> {
        let (secret, public) = (self.secret.0, self.public.0);
        let pair =
            KeyPair::generate(password).map_err(|error| ContentFault::seal(&secret, error))?;
        write(self.secret.1, &pair.secret).map_err(|error| ContentFault::io(&secret, error))?;
        write(self.public.1, &pair.public).map_err(|error| {
            // Left alone, the secret key would block the next attempt.
            let _ = std::fs::remove_file(&secret);
            ContentFault::io(&public, error)
        })
    }
}

fn write(file: OutputFile, text: &str) -> io::Result<()> {
    file.file().write_all(text.as_bytes())?;
    file.commit()
}
