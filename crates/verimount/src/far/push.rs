use std::path::Path;

use verimount_content::{FarLocation, Watcher};
use verimount_remote::{
    RemoteOptions, Session,
    registry::{Reference, Repository, Rights},
};
use verimount_verity::Identity;

use super::{cloud, registry, sound_file::SoundFile};
use crate::{Error, Location, fault::Fault};

/// How a file is stored in a registry or object store.
#[derive(Debug, Clone, Default)]
pub struct PushOptions {
    /// The file with the Merkle tree, if it is neither at the end of the file nor in `FILE.verity`.
    pub sidecar: Option<Location>,
    /// Whether registries are spoken to without encryption, and without credentials.
    pub plain_http: bool,
    /// How the server is reached.
    pub remote: RemoteOptions,
    /// Who watches it.
    pub watcher: Watcher,
}

/// What was stored.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Pushed {
    /// Where it is. In a registry, its name has the digest of the manifest, which also pins the content.
    pub location: Location,
    /// What readers must know of the content, unless its name pins it.
    pub identity: Identity,
}

/// Stores a sealed file in a registry or an object store. The name in a registry has a tag. A seal in another file is
/// stored, too: in a registry as a second layer; in an object store beside the object, with `.verity` at the end of its key,
/// and before it, so that the content is never there without its seal.
///
/// All of the file is verified before. What a registry has already is not sent again.
///
/// ```no_run
/// use verimount::{PushOptions, push};
///
/// let pushed = push("app.img", "oci://registry.example.org/me/app:1.0", &PushOptions::default())?;
/// println!("{}", pushed.location);
/// # Ok::<_, verimount::Error>(())
/// ```
///
/// # Errors
/// [`NotSealed`](crate::ErrorKind::NotSealed); [`Damaged`](crate::ErrorKind::Damaged) if not all bytes match the seal;
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) for another place; [`Cancelled`](crate::ErrorKind::Cancelled); those of
/// opening, and of the server.
pub fn push<L: TryInto<Location>>(
    file: impl AsRef<Path>,
    to: L,
    options: &PushOptions,
) -> Result<Pushed, Error>
where
    Error: From<L::Error>,
{
    let (file, to) = (file.as_ref(), to.try_into()?);
    let watch = &mut options.watcher.watch();
    let refused = |reason| Fault::WrongPlace(reason).somewhere();
    let session = &Session::new(options.remote.clone());
    let open = |watch: &mut _| SoundFile::open(file.into(), options.sidecar.clone(), watch);
    match FarLocation::of(&to) {
        Some(FarLocation::Registry(image)) => {
            let name: &Reference = image.reference();
            if name.tag().is_none() || name.digest().is_some() {
                return Err(refused(
                    "what is stored gets a name with a tag, and without a digest",
                ));
            }
            let repository = Repository::new(name, Rights::Push, options.plain_http, session);
            registry::push(open(watch)?, image, &repository, watch)
        }
        Some(FarLocation::Object(_)) if options.plain_http => {
            Err(refused("only registries are spoken to without encryption"))
        }
        Some(FarLocation::Object(name)) => cloud::push(open(watch)?, name, session, watch),
        _ => Err(refused(
            "a file is stored in a registry (oci://) or object store (s3://, gs://, az://)",
        )),
    }
}
