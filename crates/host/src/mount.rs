use std::{num::NonZeroUsize, path::Path, sync::Arc};

use verimount::{Content, Error, Pin};
use verimount_mount::{MountOptions as AttachOptions, Mounted, attach, attach_native};
use verimount_serve::{ImageFs, NativeFs, Owners, Served, VerifiedTree};

use crate::{ResidentFiles, fault::Fault, mounts::served, namer, processors::auto_threads};

/// How content is mounted: by default only for the user who mounts, with the owners and permissions that are stored.
#[derive(Debug, Clone, Default)]
pub struct MountOptions {
    /// Whether the content is mounted as a single file even if it is an image.
    pub as_file: bool,
    /// Owners and permissions of files in the place of those that are stored.
    pub owners: Owners,
    /// Whether other users may use the mount, each with their own permissions.
    pub allow_other: bool,
    /// How many threads answer the kernel. By default twice as many as processors, at most 8; at least 24 for content
    /// on another machine, each of which waits for one reader.
    pub threads: Option<NonZeroUsize>,
    /// Whether processors are kept out of idle states while requests arrive; only for root.
    pub awake: bool,
    /// Whether the kernel refuses to run programs from the mount.
    pub no_exec: bool,
    /// Whether set-ID bits and file capabilities have an effect; only for root.
    pub suid: bool,
    /// Whether device nodes can be opened; only for root.
    pub dev: bool,
    /// Which files are kept in memory, if any.
    pub resident: Option<ResidentFiles>,
    /// Whether the kernel reads an EROFS image itself, and asks this process for its blocks only; only for root, and with
    /// [`allow_other`](Self::allow_other).
    pub native: bool,
}

/// Mounts content on an empty directory: an image as its tree, anything else as a single file. This process serves it,
/// until [`Mounted`] is dropped.
///
/// ```no_run
/// use verimount::{Content, OpenOptions};
/// use verimount_host::{MountOptions, mount};
///
/// # let digest = "sha256:adf83db3b55f77f4e12df982ede7545206a6791529f6f944e7208d764e282901";
/// let content = Content::open("app.img", &OpenOptions::new().digest(digest.parse()?))?;
/// let mount = mount(&content, "mnt", &MountOptions::default())?;
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
) -> Result<Mounted, Error> {
    let content = content.clone().read_ahead();
    if options.native {
        return mount_native(&content, directory.as_ref(), options);
    }
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
    let tree = placed(tree, &content);
    let tree = match options.resident {
        Some(_) => tree.with_seen_names(),
        None => tree,
    };
    let tree = Arc::new(tree);
    let resident = match &options.resident {
        Some(files) => Some(files.keep(&tree, files.find(&content, tree.inner())?)),
        None => None,
    };
    let fs = ImageFs::new(tree, described(&content)).with_owners(options.owners);
    let fs = fs.map_err(|_| Fault::PermissionsStored.at(&location))?;
    let fs = fs.with_resident(resident.clone());
    let resident_files = options.resident.as_ref();
    let ahead = resident_files.is_some_and(|files| files.ahead);
    let options = options.attaching(location.to_string(), content.is_remote());
    let mounted = attach(Arc::new(fs), directory.as_ref(), &options);
    let mounted = mounted.map_err(|error| Fault::Mount(error).somewhere())?;
    if let (Some(resident), true) = (resident, ahead) {
        resident.load_ahead();
    }
    Ok(mounted)
}

/// Mounts an image by the kernel's EROFS, to which it is served as a file.
fn mount_native(
    content: &Content,
    directory: &Path,
    options: &MountOptions,
) -> Result<Mounted, Error> {
    let opened = content.opened();
    let is_pinned = !matches!(opened.pin, Pin::Unpinned | Pin::Unverified | Pin::Unknown);
    let is_plain = options.owners == Owners::default() && !options.as_file;
    let is_lazy = options.resident.is_none() && content.devices().is_empty();
    if !(is_pinned && is_plain && is_lazy && options.allow_other) {
        return Err(Fault::NotNative.at(&opened.location));
    }
    let file = Box::new(content.single_file());
    let tree = VerifiedTree::new(file, content.identity(), opened.account.clone());
    let tree = placed(tree, content).with_namer(namer::find);
    let fs = NativeFs::new(tree, described(content));
    let options = options.attaching(opened.location.to_string(), content.is_remote());
    let mounted = attach_native(Arc::new(fs), directory, &options);
    mounted.map_err(|error| Fault::Mount(error).somewhere())
}

/// A tree of content, which knows where that is.
fn placed(tree: VerifiedTree, content: &Content) -> VerifiedTree {
    let opened = content.opened();
    let mirrors = opened.mirrored.as_ref();
    tree.with_origin(opened.origin.clone())
        .with_mirrors(mirrors.map(|mirrored| mirrored.mirrors.clone()))
}

/// What the status says of content besides its statistics.
fn described(content: &Content) -> Served {
    let opened = content.opened();
    let pin = Some(opened.pin.clone());
    match opened.location.path() {
        Some(path) => served(path, pin),
        None => Served::new(opened.location.to_string(), pin),
    }
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
            native: self.native,
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
