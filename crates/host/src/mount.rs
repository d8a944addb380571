use std::{fmt, io, num::NonZeroUsize, path::Path, sync::Arc};

use verimount::{Content, Error};
use verimount_content::setters;
use verimount_mount::{EndSignals, Mode, MountOptions as AttachOptions, Mounted, attach};
use verimount_serve::{ImageFs, Owners, Served, VerifiedTree};
use verimount_tree::Permissions;

use crate::{ResidentFiles, fault::Fault, mounts::served, processors::auto_threads};

/// How content is mounted.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct MountOptions {
    as_file: bool,
    owners: Owners,
    allow_other: bool,
    threads: Option<NonZeroUsize>,
    awake: bool,
    no_exec: bool,
    suid: bool,
    dev: bool,
    resident: Option<ResidentFiles>,
}

impl MountOptions {
    /// Only for the user who mounts, with the owners and permissions that are stored.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Whether the content is mounted as a single file even if it is an image.
        as_file: bool => as_file;

        /// The owner of all files, in the place of those that are stored.
        uid: impl Into<Option<u32>> => owners.uid;

        /// The group of all files.
        gid: impl Into<Option<u32>> => owners.gid;
    }

    /// The permissions that no file has, of those of a format that stores none: directories and executable files have the
    /// others of 0777, other files those of 0666.
    pub fn umask(mut self, umask: impl Into<Option<u32>>) -> Self {
        self.owners.umask = umask.into().map(Permissions::new);
        self
    }

    setters! {
        /// Whether other users may use the mount, each with their own permissions.
        allow_other: bool => allow_other;

        /// How many threads answer the kernel. By default twice as many as processors, at most 8; at least 24 for content
        /// on another machine, each of which waits for one reader.
        threads: impl Into<Option<NonZeroUsize>> => threads;

        /// Whether processors are kept out of idle states while requests arrive; only for root.
        awake: bool => awake;

        /// Whether the kernel refuses to run programs from the mount.
        no_exec: bool => no_exec;

        /// Whether set-ID bits and file capabilities have an effect; only for root.
        suid: bool => suid;

        /// Whether device nodes can be opened; only for root.
        dev: bool => dev;

        /// Which files are kept in memory, if any.
        resident: impl Into<Option<ResidentFiles>> => resident;
    }
}

/// A mount, which this process serves. Dropping it unmounts it.
pub struct Mount(Mounted);

impl Mount {
    /// How it is served.
    pub fn mode(&self) -> Mode {
        self.0.mode()
    }

    /// Waits until it is unmounted by others, such as umount(8).
    ///
    /// # Errors
    /// Why the connection to the kernel ended, if not by an unmount.
    pub fn wait(self) -> io::Result<()> {
        self.0.wait(EndSignals::none()?)
    }

    /// Waits until it is unmounted by others, or by the first of `signals`. It is served until its last open file is
    /// closed; a second signal ends the process.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub fn wait_for(self, signals: EndSignals) -> io::Result<()> {
        self.0.wait(signals)
    }
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mount").field(&self.mode()).finish()
    }
}

/// Mounts content on an empty directory: an image as its tree, anything else as a single file. This process serves it,
/// until [`Mount`] is dropped.
///
/// ```no_run
/// use verimount::{Content, OpenOptions};
/// use verimount_host::{MountOptions, mount};
///
/// # let digest = "sha256:adf83db3b55f77f4e12df982ede7545206a6791529f6f944e7208d764e282901";
/// let content = Content::open("app.img", &OpenOptions::new().digest(digest.parse()?))?;
/// let mount = mount(&content, "mnt", &MountOptions::new())?;
/// print!("{}", std::fs::read_to_string("mnt/README.md")?);
/// drop(mount);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// If the beginning is damaged, an image cannot be told from another file, and it is not mounted: whoever damages it
/// could otherwise choose what is mounted.
///
/// # Errors
/// [`Corrupt`](verimount::ErrorKind::Corrupt); [`PermissionDenied`](verimount::ErrorKind::PermissionDenied) for what only root
/// may do; [`InvalidInput`](verimount::ErrorKind::InvalidInput) for a directory that is not empty, or permissions that cannot
/// be replaced; those of the system.
pub fn mount(
    content: &Content,
    directory: impl AsRef<Path>,
    options: &MountOptions,
) -> Result<Mount, Error> {
    let content = content.clone().read_ahead();
    let tree = if options.as_file {
        None
    } else {
        content.tree()?
    };
    let (identity, account) = (content.identity(), content.opened().account.clone());
    let location = content.opened().location.clone();
    let tree = match tree {
        Some(tree) => VerifiedTree::new(tree, identity, account),
        None => VerifiedTree::of_file(content.single_file(), identity, account),
    };
    let mirrors = content.opened().mirrored.as_ref();
    let tree = tree
        .with_origin(content.opened().origin.clone())
        .with_mirrors(mirrors.map(|mirrored| mirrored.mirrors.clone()));
    let tree = match options.resident {
        Some(_) => tree.with_seen_names(),
        None => tree,
    };
    let tree = Arc::new(tree);
    let resident = match &options.resident {
        Some(files) => Some(files.keep(&tree, files.find(&content, tree.inner())?)),
        None => None,
    };
    let pin = Some(content.opened().pin.clone());
    let served = match location.path() {
        Some(path) => served(path, pin),
        None => Served::new(location.to_string(), pin),
    };
    let fs = ImageFs::new(tree, served).with_owners(options.owners);
    let fs = fs.map_err(|_| Fault::PermissionsStored.at(&location))?;
    let fs = fs.with_resident(resident.clone());
    let ahead = options
        .resident
        .as_ref()
        .is_some_and(ResidentFiles::is_ahead);
    let options = options.attaching(location.to_string(), content.is_remote());
    let mounted = attach(Arc::new(fs), directory.as_ref(), &options);
    let mounted = mounted.map_err(|error| Fault::Mount(error).somewhere())?;
    if let (Some(resident), true) = (resident, ahead) {
        resident.load_ahead();
    }
    Ok(Mount(mounted))
}

impl MountOptions {
    fn attaching(&self, source_name: String, is_remote: bool) -> AttachOptions {
        AttachOptions {
            source_name,
            read_only: true,
            allow_other: self.allow_other,
            threads: self.threads.unwrap_or_else(|| threads(is_remote)),
            awake: self.awake,
            no_exec: self.no_exec,
            no_symfollow: false,
            suid: self.suid,
            dev: self.dev,
        }
    }
}

/// The default number of threads. Those for content on another machine wait for it, one for each reader.
fn threads(is_remote: bool) -> NonZeroUsize {
    const FAR: NonZeroUsize = NonZeroUsize::new(24).unwrap();
    if is_remote {
        auto_threads().max(FAR)
    } else {
        auto_threads()
    }
}
