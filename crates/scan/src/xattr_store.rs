//! Extended attributes, each stored once.

use indexmap::IndexSet;
use verimount_tar::Xattr;

/// The most bytes of different extended attributes and sets of them in a tree.
pub(crate) const MAX_BYTES: usize = 1 << 30;

/// The number of an attribute in its tree: equal attributes have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct XattrId(u32);

/// The number of a set of attributes in its tree: equal sets have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct XattrSetId(u32);

/// The extended attributes of a tree.
#[derive(Debug, Default)]
pub struct XattrStore {
    xattrs: IndexSet<Xattr>,
    /// All sets but the empty one, each sorted by the attributes' names.
    sets: IndexSet<Box<[XattrId]>>,
    /// What they all take.
    bytes: usize,
}

/// The store is full.
#[derive(Debug)]
pub(crate) struct Full;

impl XattrId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl XattrSetId {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl XattrStore {
    /// The set of these attributes, whose names differ.
    pub(crate) fn intern(&mut self, mut attributes: Vec<Xattr>) -> Result<XattrSetId, Full> {
        if attributes.is_empty() {
            return Ok(XattrSetId::EMPTY);
        }
        attributes.sort_unstable();
        let mut set = Vec::with_capacity(attributes.len());
        for attribute in attributes {
            let len = size_of::<Xattr>() + attribute.name.len() + attribute.value.len();
            let (number, is_new) = self.xattrs.insert_full(attribute);
            // Each takes more than a byte of a store of 2³⁰.
            set.push(XattrId(number as u32));
            self.bytes += if is_new { len } else { 0 };
        }
        let len = size_of_val(&*set);
        let (number, is_new) = self.sets.insert_full(set.into());
        self.bytes += if is_new { len } else { 0 };
        if self.bytes <= MAX_BYTES {
            Ok(XattrSetId(number as u32 + 1))
        } else {
            Err(Full)
        }
    }

    /// The attributes in a set, sorted by their names.
    pub fn set(&self, set: XattrSetId) -> impl ExactSizeIterator<Item = (XattrId, &Xattr)> + Clone {
        let ids = set.index().checked_sub(1).map(|index| &*self.sets[index]);
        let ids = ids.unwrap_or_default().iter();
        ids.map(|id| (*id, self.get(*id)))
    }

    /// All attributes, by their numbers. The tree may have no inode that has them: they are also those of what was left out of
    /// an archive, or replaced in it.
    pub fn all(&self) -> impl ExactSizeIterator<Item = (XattrId, &Xattr)> + Clone {
        let xattrs = self.xattrs.iter().enumerate();
        xattrs.map(|(number, xattr)| (XattrId(number as u32), xattr))
    }

    /// The attribute with this number.
    pub fn get(&self, id: XattrId) -> &Xattr {
        &self.xattrs[id.index()]
    }

    /// Number of different attributes: their numbers are smaller.
    pub fn count(&self) -> usize {
        self.xattrs.len()
    }

    /// Number of different sets, with the empty one: their numbers are smaller.
    pub fn set_count(&self) -> usize {
        self.sets.len() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xattr(name: &str, value: &str) -> Xattr {
        Xattr {
            name: name.as_bytes().into(),
            value: value.as_bytes().into(),
        }
    }

    #[test]
    fn equal_attributes_are_stored_once() {
        let mut store = XattrStore::default();
        assert_eq!(store.intern(Vec::new()).unwrap(), XattrSetId::EMPTY);
        assert_eq!(store.set(XattrSetId::EMPTY).len(), 0);
        let [a, b, other] = [xattr("a", "1"), xattr("b", "2"), xattr("b", "3")];
        let both = store.intern(vec![b.clone(), a.clone()]).unwrap();
        assert_eq!(store.intern(vec![a.clone(), b.clone()]).unwrap(), both);
        let changed = store.intern(vec![a.clone(), other.clone()]).unwrap();
        assert_ne!(changed, both);
        let values = |set| Vec::from_iter(store.set(set).map(|(_, xattr)| xattr.clone()));
        assert_eq!(values(both), [a.clone(), b]);
        assert_eq!(values(changed), [a, other]);
        assert_eq!((store.count(), store.set_count()), (3, 3));
    }

    #[test]
    fn a_store_has_a_limit() {
        let mut store = XattrStore {
            bytes: MAX_BYTES - 1000,
            ..XattrStore::default()
        };
        let value = "x".repeat(800);
        let first = store.intern(vec![xattr("a", &value)]).unwrap();
        assert_eq!(store.intern(vec![xattr("a", &value)]).unwrap(), first);
        assert!(store.intern(vec![xattr("b", &value)]).is_err());
    }
}
