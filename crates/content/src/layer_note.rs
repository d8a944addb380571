//! What containerd writes beside the image of a layer whose dm-verity tree is at its end.

use std::sync::Arc;

use serde::Deserialize;
use verimount_source::{Fetch, ReadAt, Unchecked};
use verimount_verity::dm_verity::HashArea;

use crate::{
    Error, Location, ParseRootHashError, RootHash, fault::Fault, location::LAYER_NOTE_SUFFIX,
    place::Place,
};

/// Its longest length in bytes: many times that of the two values.
const MAX_LEN: u64 = 64 << 10;

/// Where the hash area of a layer is, and its root hash. Nobody vouches for either.
#[derive(Debug)]
pub(crate) struct LayerNote {
    root_hash: RootHash,
    hash_offset: u64,
}

/// The file's content. There may be further values in it.
#[derive(Deserialize)]
struct Text {
    roothash: String,
    hashoffset: u64,
}

impl LayerNote {
    /// Reads `FILE.dmverity`; `None` if there is none.
    pub(crate) fn beside(place: &Place) -> Result<Option<Self>, Error> {
        let Some(at) = place.location().with_suffix(LAYER_NOTE_SUFFIX) else {
            return Ok(None);
        };
        let Some(source) = place.existing_file(&at)? else {
            return Ok(None);
        };
        let note = Self::read(&Unchecked(&*source));
        note.map(Some)
            .map_err(|problem| Fault::NotALayerNote(problem).at(at))
    }

    fn read(source: &dyn ReadAt) -> Result<Self, String> {
        if source.size() > MAX_LEN {
            return Err(format!("it has more than {MAX_LEN} bytes"));
        }
        let mut text = vec![0; source.size() as usize];
        let read = source.read_exact_at(&mut text, 0);
        read.map_err(|error| error.to_string())?;
        let text: Text = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        let root_hash = text
            .roothash
            .parse()
            .map_err(|error: ParseRootHashError| error.to_string());
        Ok(Self {
            root_hash: root_hash?,
            hash_offset: text.hashoffset,
        })
    }

    /// The root hash.
    pub(crate) fn root_hash(&self) -> &RootHash {
        &self.root_hash
    }

    /// The hash area at the end of the image.
    pub(crate) fn hash_area(
        &self,
        location: &Location,
        image: Arc<dyn Fetch>,
    ) -> Result<HashArea, Error> {
        HashArea::open_appended(image, self.hash_offset)
            .map_err(|error| Fault::seal(location, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_has_a_longest_length() {
        let note = format!(
            r#"{{"roothash": "{}", "hashoffset": 4096}}"#,
            "0a".repeat(32)
        );
        for (len, is_read) in [(MAX_LEN, true), (MAX_LEN + 1, false)] {
            let mut text = note.clone().into_bytes();
            text.resize(len as usize, b' ');
            assert_eq!(LayerNote::read(&text).is_ok(), is_read, "{len}");
        }
    }
}
