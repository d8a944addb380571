//! Where content is: its file, and the one with its Merkle tree.

use std::{
    iter,
    path::Path,
    sync::{Arc, OnceLock},
};

use verimount_names::printable;
use verimount_source::{Fetch, MendableFile};
use verimount_tree::StoredFile;

use crate::{
    Error, Location, Options,
    far::{Access, FarLocation, Manifest},
    location::{Kind, attributes, open_file},
    trust::Named,
};

/// Where content is, by its location and the options. Nothing of it is opened yet.
pub struct Place {
    location: Location,
    sidecar: Option<Location>,
    pub(crate) hash_offset: Option<u64>,
    pub(crate) access: Access,
    /// Whether its files on this machine are opened to replace what is wrong in them.
    pub(crate) is_mended: bool,
    /// Whether all reads of its files on this machine go through the page cache.
    page_cache: bool,
    /// What the registry says of an image in it, once that was asked for.
    manifest: OnceLock<Manifest>,
    /// Whether the end of the seal could be repaired, once it was found damaged.
    end_is_repaired: OnceLock<bool>,
}

impl Place {
    /// The place of the content at `location`.
    pub fn new(location: Location, options: &Options) -> Self {
        Self {
            location,
            sidecar: options.sidecar.clone(),
            hash_offset: options.hash_offset,
            access: options.access.clone(),
            // Without another place, nothing is known to be wrong in a way that could be mended.
            is_mended: options.repair && !options.mirrors.is_empty(),
            page_cache: options.page_cache,
            manifest: OnceLock::new(),
            end_is_repaired: OnceLock::new(),
        }
    }

    /// The place of a mirror of content that is opened with these options: its seal is at its end or beside it.
    pub fn of_mirror(location: Location, options: &Options) -> Self {
        Self {
            sidecar: None,
            // In another file, the superblock may be elsewhere.
            hash_offset: options.hash_offset.filter(|_| options.sidecar.is_none()),
            ..Self::new(location, options)
        }
    }

    /// This place, and those of all mirrors, in the order in which they are asked.
    pub fn and_mirrors(self, options: &Options) -> impl Iterator<Item = Self> {
        let mirrors = options.mirrors.iter().cloned();
        let mirrors = mirrors.map(|mirror| Self::of_mirror(mirror, options));
        iter::once(self).chain(mirrors)
    }

    /// This place, to be opened later, when the process may have gone to another directory.
    pub(crate) fn absolute(self) -> Self {
        Self {
            location: self.location.absolute(),
            sidecar: self.sidecar.map(Location::absolute),
            ..self
        }
    }

    /// What the registry says of the image, if it is in one. If its tag is moved later, data and seal still belong together.
    pub fn manifest(&self) -> Result<Option<(&FarLocation, &Manifest)>, Error> {
        let Kind::Far(far) = &self.location.0 else {
            return Ok(None);
        };
        if let Some(manifest) = self.manifest.get() {
            return Ok(Some((far, manifest)));
        }
        let manifest = far.manifest(&self.access)?;
        Ok(manifest.map(|manifest| (far, self.manifest.get_or_init(|| manifest))))
    }

    /// Where the content itself is.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// What the location names by a digest.
    pub(crate) fn named(&self) -> Result<Option<&Named>, Error> {
        if self.location.names_content() {
            Ok(self.manifest()?.and_then(|(_, manifest)| manifest.named()))
        } else {
            Ok(None)
        }
    }

    /// Whether it takes long to read, so that it is worth keeping.
    pub(crate) fn is_slow(&self) -> bool {
        let sidecar = self.sidecar.as_ref();
        self.location.is_slow() || sidecar.is_some_and(Location::is_slow)
    }

    /// The file with the seal, if that is certain: the one that was given, or a layer of the registry.
    pub fn sidecar(&self) -> Result<Option<Location>, Error> {
        if self.sidecar.is_some() {
            return Ok(self.sidecar.clone());
        }
        let own_seal = |(far, manifest): (&FarLocation, _)| far.own_seal(manifest);
        Ok(self.manifest()?.and_then(own_seal).map(Location::from))
    }

    /// The file in which a hash area of dm-verity may be, unless that is the content's, and its offset.
    pub fn hash_area(&self) -> Result<(Option<Location>, u64), Error> {
        let usual = || match self.hash_offset {
            Some(_) => None,
            None => self.location.sidecar(),
        };
        let sidecar = self.sidecar()?.or_else(usual);
        Ok((sidecar, self.hash_offset.unwrap_or(0)))
    }

    /// The end of the seal there was damaged, and is now repaired or not.
    pub(crate) fn had_damaged_end(&self, is_repaired: bool) {
        self.end_is_repaired.get_or_init(|| is_repaired);
    }

    /// Whether the end of the seal there was repaired; `None` if it was not found damaged.
    pub(crate) fn end_is_repaired(&self) -> Option<bool> {
        self.end_is_repaired.get().copied()
    }

    /// Whether nobody has said where the seal is.
    pub(crate) fn is_to_be_searched(&self) -> Result<bool, Error> {
        Ok(self.hash_offset.is_none() && self.sidecar()?.is_none())
    }

    /// Opens the content's file, with its attributes.
    pub fn content(&self) -> Result<(Arc<dyn Fetch>, StoredFile), Error> {
        self.open(&self.location)
    }

    /// Opens another file that belongs to the content.
    pub fn file(&self, location: &Location) -> Result<Arc<dyn Fetch>, Error> {
        Ok(self.open(location)?.0)
    }

    /// Opens another file that belongs to the content; `None` if it does not exist.
    pub fn existing_file(&self, location: &Location) -> Result<Option<Arc<dyn Fetch>>, Error> {
        location.if_existing(|| self.file(location))
    }

    fn open(&self, location: &Location) -> Result<(Arc<dyn Fetch>, StoredFile), Error> {
        if let (Kind::Far(far), Some((_, manifest))) = (&location.0, self.manifest()?)
            && let Some(layer) = far.open_layer(manifest)?
        {
            return Ok((layer, StoredFile::default()));
        }
        match location.path() {
            Some(path) if self.is_mended => open_mendable(path),
            Some(path) if self.page_cache => {
                let file = open_file(path)?.through_page_cache();
                let stored = attributes(path, &file)?;
                Ok((Arc::new(file), stored))
            }
            _ => location.open(&self.access),
        }
    }
}

/// Opens a file for reading and, if possible, to replace what is wrong in it.
fn open_mendable(path: &Path) -> Result<(Arc<dyn Fetch>, StoredFile), Error> {
    match MendableFile::open(path) {
        Ok(file) => {
            let stored = attributes(path, file.source())?;
            Ok((Arc::new(file), stored))
        }
        // What is wrong with it otherwise is told by opening it for reading.
        Err(error) => {
            let file = open_file(path)?;
            tracing::warn!(file = %printable(path), %error, "it cannot be opened for writing, and so is not repaired");
            let stored = attributes(path, &file)?;
            Ok((Arc::new(file), stored))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(name: &str) -> Location {
        Path::new(name).into()
    }

    fn hash_area(place: &Place) -> (Option<String>, u64) {
        let (sidecar, offset) = place.hash_area().unwrap();
        (sidecar.map(|sidecar| sidecar.to_string()), offset)
    }

    #[test]
    fn options_say_where_the_seal_of_the_first_place_is() {
        let (none, beside) = (None, |name: &str| Some(name.to_owned()));
        for (sidecar, offset, first, mirror) in [
            (None, None, (beside("a.verity"), 0), (beside("b.verity"), 0)),
            (None, Some(4096), (none.clone(), 4096), (none, 4096)),
            (Some("s"), None, (beside("s"), 0), (beside("b.verity"), 0)),
            (
                Some("s"),
                Some(4096),
                (beside("s"), 4096),
                (beside("b.verity"), 0),
            ),
        ] {
            let options = Options {
                sidecar: sidecar.map(location),
                hash_offset: offset,
                ..Options::default()
            };
            let is_known = sidecar.is_some() || offset.is_some();
            let place = Place::new(location("a"), &options);
            assert_eq!(hash_area(&place), first);
            assert_eq!(place.is_to_be_searched().unwrap(), !is_known);
            let place = Place::of_mirror(location("b"), &options);
            assert_eq!(hash_area(&place), mirror);
        }
    }

    #[test]
    fn a_file_is_mended_only_if_it_is_elsewhere_too() {
        for (repair, mirrors) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
            let options = Options {
                repair,
                mirrors: vec![location("b"); mirrors],
                ..Options::default()
            };
            let place = Place::new(location("a"), &options);
            assert_eq!(place.is_mended, repair && mirrors > 0);
        }
    }

    /// So the registry, which is not there, need not be asked.
    #[cfg(feature = "remote")]
    #[test]
    fn a_tag_pins_nothing() {
        let tag = "oci://127.0.0.1:1/repository:tag".parse().unwrap();
        let place = Place::new(tag, &Options::default());
        assert!(place.named().unwrap().is_none());
        assert!(place.manifest().is_err());
    }
}
