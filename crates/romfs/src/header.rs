//! A file header: its name, its type, and the next header of the directory.

use verimount_tree::FileType;
use zerocopy::FromBytes;
#[cfg(feature = "write")]
use zerocopy::IntoBytes;

use crate::{
    Error, Node, NodeId,
    error::{Corruption, Defect},
    geometry::{header_len, sum},
    name,
    node::file_type,
    raw::{self, EXECUTABLE, FILE_TYPES, HARD_LINK},
};

/// A header with a valid checksum and name. The offsets in it are not checked.
pub(crate) struct Header {
    id: NodeId,
    next_and_mode: u32,
    spec: u32,
    size: u32,
    pub(crate) name: Box<[u8]>,
}

impl Header {
    /// Parses the header of `id` at the beginning of `bytes`, which may be longer.
    pub(crate) fn parse(id: NodeId, bytes: &[u8]) -> Result<Self, Corruption> {
        let (raw, rest) =
            raw::FileHeader::read_from_prefix(bytes).map_err(|_| Defect::HeaderRange.at(id))?;
        let name = name::until_nul(rest).ok_or(Defect::NameLen.at(id))?;
        let header = bytes
            .get(..header_len(name.len()))
            .ok_or(Defect::HeaderRange.at(id))?;
        if sum(header) != 0 {
            return Err(Defect::HeaderChecksum.at(id));
        }
        name::check(name).map_err(|defect| defect.at(id))?;
        Ok(Self {
            id,
            next_and_mode: raw.next_and_mode.get(),
            spec: raw.spec.get(),
            size: raw.size.get(),
            name: name.into(),
        })
    }

    /// The next header of the directory.
    pub(crate) fn next(&self) -> Option<NodeId> {
        Some(NodeId::from_word(self.next_and_mode)).filter(|id| id.get() != 0)
    }

    /// The target of this hard link; `None` if it is not a hard link.
    pub(crate) fn link_target(&self) -> Option<Result<NodeId, Corruption>> {
        self.file_type().is_none().then(|| self.spec_as_id())
    }

    /// The first header of this directory; `None` if it is empty.
    pub(crate) fn first_child(&self) -> Result<Option<NodeId>, Error> {
        if !self.is_directory() {
            return Err(Error::NotADirectory(self.id));
        }
        Ok(Some(self.spec_as_id()?).filter(|id| id.get() != 0))
    }

    /// Whether this is a directory's own header.
    pub(crate) fn is_directory(&self) -> bool {
        self.file_type() == Some(FileType::Directory)
    }

    /// Whether this is a directory's `.` or `..`.
    pub(crate) fn stands_for_ancestor(&self) -> Result<bool, Corruption> {
        let dot = name::is_dot(&self.name);
        if dot && !matches!(self.file_type(), None | Some(FileType::Directory)) {
            return Err(Defect::Dot.at(self.id));
        }
        Ok(dot)
    }

    /// The node of the header, in an image of `image_size` accessible bytes.
    pub(crate) fn node(&self, image_size: u32) -> Result<Node, Corruption> {
        let file_type = self.file_type().ok_or(Defect::HardLink.at(self.id))?;
        let header_len = u32::try_from(header_len(self.name.len())).unwrap_or(u32::MAX);
        let data_offset = self.id.get().saturating_add(header_len);
        let data = (data_offset, self.size);
        let mode = self.next_and_mode;
        Node::new(self.id, mode, file_type, self.spec, data, image_size)
            .map_err(|defect| defect.at(self.id))
    }

    /// `None` for a hard link.
    fn file_type(&self) -> Option<FileType> {
        file_type(self.next_and_mode)
    }

    fn spec_as_id(&self) -> Result<NodeId, Corruption> {
        NodeId::from_raw(self.spec).ok_or(Defect::Alignment.at(self.id))
    }
}

/// The mode bits of a node's header.
pub(crate) fn mode_bits(file_type: FileType, executable: bool) -> u32 {
    let mut types = FILE_TYPES.iter();
    let found = types.find(|(_, known)| *known == file_type);
    // All types are there.
    let bits = found.map_or(HARD_LINK, |(bits, _)| *bits);
    bits | if executable { EXECUTABLE } else { 0 }
}

/// The bytes of a header, with its checksum, name and padding.
#[cfg(feature = "write")]
pub(crate) fn encode(next_and_mode: u32, spec: u32, size: u32, name: &[u8]) -> Vec<u8> {
    let mut raw = raw::FileHeader {
        next_and_mode: next_and_mode.into(),
        spec: spec.into(),
        size: size.into(),
        checksum: 0.into(),
    };
    let mut bytes = [raw.as_bytes(), name].concat();
    bytes.resize(header_len(name.len()), 0);
    raw.checksum = sum(&bytes).wrapping_neg().into();
    for (byte, checked) in bytes.iter_mut().zip(raw.as_bytes()) {
        *byte = *checked;
    }
    bytes
}
