//! Copying sealed content from other machines to files.

mod fetched;
mod share;

use std::{path::Path, ptr, sync::Arc};

use verimount_content::{
    Accepted, FarLocation, LayersError, OpenFile, Options, Place, Trust, Watch, Watcher,
    WholeFiles, answering, file_copy, mirrors_of, sidecar_path,
};
use verimount_remote::registry::{BlobDigest, Descriptor};
use verimount_source::{Fetch, folder_of};
use verimount_verity::Identity;

use self::{fetched::Fetched, share::share};
use crate::{
    Error, Location, OpenOptions, Unshared,
    fault::{ContentFault, Fault},
    open::open_accepted,
    verify::verify_watched,
};

/// How content on another machine is copied.
#[derive(Debug, Clone, Default)]
pub struct PullOptions {
    /// What is accepted, where it is, and the [older content](OpenOptions::like) from which blocks are taken. The offset of a
    /// dm-verity superblock is that in the file with the seal if there is one, else in the data's.
    pub open: OpenOptions,
    /// Who watches it.
    pub watcher: Watcher,
}

/// What was copied.
#[derive(Debug)]
#[non_exhaustive]
pub struct Pulled {
    /// What it was compared with.
    pub identity: Identity,
    /// How many bytes of its data were in older content.
    pub shared: u64,
    /// Of which older content nothing was used.
    pub unshared: Vec<Unshared>,
}

/// A file on another machine.
struct Remote {
    at: Location,
    source: Arc<dyn Fetch>,
    /// What its bytes must hash to, in a registry.
    digest: Option<BlobDigest>,
}

/// Copies sealed content from a registry, a web server or an object store to `file`, which must not exist. A seal that is a
/// file or layer of its own becomes `FILE.verity`.
///
/// Everything is verified, layers of registries by their digests as well. The files get their names when they are
/// complete, that of the seal first.
///
/// ```no_run
/// use verimount::{OpenOptions, PullOptions, pull};
///
/// # let digest = "sha256:adf83db3b55f77f4e12df982ede7545206a6791529f6f944e7208d764e282901";
/// let options = PullOptions {
///     open: OpenOptions::new().digest(digest.parse()?),
///     ..PullOptions::default()
/// };
/// pull("oci://registry.example.org/me/app:1.0", "app.img", &options)?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Damaged`](crate::ErrorKind::Damaged) if not all bytes match the seal; [`InvalidInput`](crate::ErrorKind::InvalidInput) for
/// content that is on this machine; [`Cancelled`](crate::ErrorKind::Cancelled); those of opening and writing.
pub fn pull<L: TryInto<Location>>(
    image: L,
    file: impl AsRef<Path>,
    options: &PullOptions,
) -> Result<Pulled, Error>
where
    Error: From<L::Error>,
{
    let (location, file) = (image.try_into()?, file.as_ref());
    let watch = &mut options.watcher.watch();
    let trust = options.open.trust(&location)?;
    let mut open = options.open.for_content(&location, &trust).places;
    // All of it is needed anyway.
    let whole_files = WholeFiles::new(folder_of(file).to_owned(), options.watcher.clone());
    open.access.whole_files = Some(Arc::new(whole_files));
    let open = &open;
    if !location.is_remote() {
        let reason =
            "a file is copied from another machine (oci://, https://, s3://, gs://, az://)";
        return Err(Fault::WrongPlace(reason).somewhere());
    }
    let places = Place::new(location, open).and_mirrors(open);
    let places: Vec<_> = places.map(Arc::new).collect();
    let mut there = answering(&places, &trust)?;
    let accepted = Accepted::at(there, &trust)?;
    let accepted = accepted.ok_or_else(|| ContentFault::Unverified.at(there.location()))?;
    // Nothing but the place that is pinned by its name says what that is.
    let is_free = matches!(&trust, Trust::Pinned(pins) if !pins.is_empty())
        && !there.location().names_content();
    let mut left = &places[..];
    loop {
        let from = Places {
            all: left,
            there,
            accepted: &accepted,
        };
        let found = match from.find(open) {
            Err(error) if is_free && left.len() > 1 => {
                tracing::warn!(%error, "a copy cannot be opened there: other places are asked");
                left = &left[1..];
                there = &left[0];
                continue;
            }
            found => found?,
        };
        match from.copy_to(file, found, open, watch) {
            // Only all of it together tells that something is wrong, and not where. What others have in other files is not
            // read while it cannot be read there.
            Err(error) if left.len() > 1 && (is_wrong(&error) || is_free && is_unread(&error)) => {
                tracing::warn!(%error, "a copy cannot be used: other places are asked");
                left = &left[1..];
                if is_free {
                    there = &left[0];
                }
            }
            copied => return copied,
        }
    }
}

fn is_wrong(error: &Error) -> bool {
    let is_damaged = matches!(ContentFault::other(error), Some(Fault::Damaged));
    is_damaged
        || matches!(
            ContentFault::of(error),
            ContentFault::Layers(LayersError::WrongLayer { .. })
        )
}

fn is_unread(error: &Error) -> bool {
    matches!(ContentFault::of(error), ContentFault::Read(_))
}

/// Where content is copied from.
struct Places<'a> {
    all: &'a [Arc<Place>],
    /// The place that says what the content is.
    there: &'a Place,
    accepted: &'a Accepted,
}

impl Places<'_> {
    /// Copies the file with the content, and that with the seal, as [`Self::find`] has found them.
    fn copy_to(
        &self,
        file: &Path,
        (from, seal_from): (Remote, Option<Remote>),
        open: &Options,
        watch: &mut Watch<'_>,
    ) -> Result<Pulled, Error> {
        let data = Fetched::new(file.to_owned(), from.source.length())?;
        let seal = match &seal_from {
            Some(from) => {
                let seal = Fetched::new(sidecar_path(file), from.source.length())?;
                seal.fetch_all(from, watch)?;
                Some(seal)
            }
            None => None,
        };
        let here = || -> Result<_, Error> {
            let options = Options {
                sidecar: seal.as_ref().map(Fetched::location).transpose()?,
                hash_offset: open.hash_offset,
                ..Options::default()
            };
            Ok((Place::new(data.location()?, &options), options))
        };
        let (shared, unshared) = if open.like.is_empty() {
            data.fetch_all(&from, watch)?;
            (0, Vec::new())
        } else {
            let places = (self.there, &here()?.0);
            share(&data, &from, places, self.accepted, open, watch)?
        };
        for (fetched, from) in seal.iter().zip(&seal_from).chain([(&data, &from)]) {
            fetched.check(from)?;
        }
        let (place, here) = here()?;
        let content = open_accepted(place, Some(self.accepted.clone()), &here)?;
        let report = verify_watched(&content, watch)?;
        if !report.is_good() {
            return Err(Fault::Damaged.at(self.there.location()));
        }
        for fetched in seal.into_iter().chain([data]) {
            fetched.commit()?;
        }
        Ok(Pulled {
            identity: report.identity,
            shared,
            unshared,
        })
    }

    /// Finds the file with the content, and that with the seal, if it is another one.
    fn find(&self, options: &Options) -> Result<(Remote, Option<Remote>), Error> {
        let there = self.there;
        let content: OpenFile = |place| Ok(place.content()?.0);
        if let Some((FarLocation::Registry(_), found)) = there.manifest()? {
            let layer = |open, layer: &Descriptor| {
                self.remote(open, None, layer.size, Some(layer.digest), options)
            };
            let (data, seal) = found.layers();
            let seal = seal.map(|seal| layer(open_seal, seal)).transpose()?;
            return Ok((layer(content, data)?, seal));
        }
        let file = |open, opened: Arc<dyn Fetch>| {
            let size = opened.length();
            self.remote(open, Some(opened), size, None, options)
        };
        let (source, _) = there.content()?;
        let seal = self.accepted.find(there, source.clone())?;
        let sidecar = match seal.identity() {
            // It is behind the data.
            Identity::FileDigest(_) if source.length() > seal.geometry().data_size() => None,
            Identity::FileDigest(_) => there.sidecar()?.or(there.location().sidecar()),
            Identity::RootHash(_) => there.hash_area()?.0,
        };
        let seal = match sidecar {
            Some(at) => Some(file(open_seal, there.file(&at)?)?),
            None => None,
        };
        Ok((file(content, source)?, seal))
    }

    /// A file as the first place has it, or others if that fails to send it. `opened` is the one of the place that says what
    /// the content is, if that was opened already.
    fn remote(
        &self,
        open: OpenFile,
        opened: Option<Arc<dyn Fetch>>,
        size: u64,
        digest: Option<BlobDigest>,
        options: &Options,
    ) -> Result<Remote, Error> {
        let source = match (self.all, opened) {
            ([place], Some(opened)) if ptr::eq(&**place, self.there) => opened,
            ([place], _) => open(place)?,
            (places, _) => {
                let copy =
                    |place: &Arc<Place>| -> Arc<dyn Fetch> { file_copy(place.clone(), open, size) };
                let mirrors = mirrors_of(places, options);
                Arc::new(mirrors.part("file", places.iter().map(copy).collect()))
            }
        };
        Ok(Remote {
            at: self.all[0].location().clone(),
            source,
            digest,
        })
    }
}

/// Opens the file with the seal of what is at a place.
fn open_seal(place: &Place) -> Result<Arc<dyn Fetch>, Error> {
    let at = place.location();
    let beside = || at.sidecar();
    let seal = place.sidecar()?.or_else(beside);
    let missing = || ContentFault::NotSealed { sidecar: None }.at(at);
    place.file(&seal.ok_or_else(missing)?)
}
