use zerocopy::little_endian::U16;

use crate::{
    Error,
    error::Defect,
    features::Compatible,
    image::Image,
    space::{Address, Space},
};

/// The longest prefix in bytes, without its beginning that has a number: as long as a name.
pub(crate) const MAX_LEN: usize = 255;

/// The table of what many attributes' names begin with.
#[derive(Debug, Default)]
pub(crate) struct XattrPrefixes(Vec<XattrPrefix>);

/// What names begin with.
#[derive(Debug)]
pub(crate) struct XattrPrefix {
    /// The number of the beginning, such as `user.`.
    pub(crate) base: u8,
    /// What follows it.
    pub(crate) infix: Vec<u8>,
}

impl XattrPrefixes {
    /// Reads the table.
    pub(crate) fn read(image: &Image) -> Result<Self, Error> {
        let superblock = &image.superblock;
        let is_plain = superblock
            .compatible
            .contains(Compatible::PLAIN_XATTR_PREFIXES);
        let inode = superblock.metabox.or(superblock.packed_inode);
        let space = inode
            .filter(|_| !is_plain)
            .map_or(Space::Image, Space::Content);
        let at = superblock.xattr_prefixes.at;
        let mut next = Address { space, at };
        let mut prefixes = Vec::new();
        for _ in 0..superblock.xattr_prefixes.count {
            let (prefix, end) = read_one(image, next)?;
            prefixes.push(prefix);
            let aligned = end.aligned_to(4);
            next = aligned.ok_or(Defect::Address.at(end))?;
        }
        Ok(Self(prefixes))
    }

    /// The prefix with this number.
    pub(crate) fn get(&self, number: u8) -> Option<&XattrPrefix> {
        self.0.get(usize::from(number))
    }
}

/// The prefix at `at`, and where it ends.
fn read_one(image: &Image, at: Address) -> Result<(XattrPrefix, Address), Error> {
    const LEN: u64 = 2;
    let len: U16 = image.structure(at)?;
    let corrupt = || Defect::XattrPrefix.at(at);
    let start = at.plus(LEN).ok_or_else(corrupt)?;
    let end = start.plus(len.get().into()).ok_or_else(corrupt)?;
    let bytes = image.bytes(start, len.get().into())?;
    let (base, infix) = bytes.split_first().ok_or_else(corrupt)?;
    if infix.len() > MAX_LEN {
        return Err(corrupt().into());
    }
    let infix = infix.to_vec();
    Ok((XattrPrefix { base: *base, infix }, end))
}
