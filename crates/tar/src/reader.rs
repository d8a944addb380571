use verimount_source::ReadAt;
use verimount_tree::{DeviceNumber, Permissions, Timestamp};

use crate::{
    Attributes, Compression, Content, Defect, Error, Kind, Member, doubts,
    error::Failure,
    extension::{self, Extension, Sparse},
    header::Header,
    input::{BLOCK, Block, Input},
    sparse::{self, MAX_RANGES, Map},
};

/// The longest extended header in bytes: many times the extended attributes of a file.
const MAX_EXTENSION: u64 = 4 << 20;

/// The longest name or target in a header of its own, in bytes.
const MAX_LONG_NAME: u64 = 64 << 10;

/// The longest target of a symbolic link in bytes: Linux takes no longer paths.
const MAX_TARGET: usize = 4095;

/// Reads an archive, member by member.
pub struct Reader<S> {
    input: Input<S>,
    /// Ranges of files with holes so far.
    ranges: usize,
    has_ended: bool,
}

/// The headers in front of that of a member.
#[derive(Default)]
struct InFront {
    records: Option<Vec<u8>>,
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

/// Checks that an archive may begin with these bytes, of which there are at least 512, unless it ends before.
///
/// # Errors
/// [`Error::Compressed`] or [`Error::NotAnArchive`].
pub fn check_beginning(bytes: &[u8]) -> Result<(), Error> {
    if let Some(compression) = Compression::of(bytes) {
        return Err(Error::Compressed(compression));
    }
    match bytes.first_chunk::<BLOCK>() {
        Some(block) if is_zero(block) || Header::parse(block).is_ok() => Ok(()),
        _ => Err(Error::NotAnArchive),
    }
}

impl<S: ReadAt> Reader<S> {
    /// Reads the archive that `source` is.
    ///
    /// # Errors
    /// As [`check_beginning`], and [`Error::Read`].
    pub fn new(source: S) -> Result<Self, Error> {
        let len = usize::try_from(source.size()).unwrap_or(BLOCK).min(BLOCK);
        let mut beginning = vec![0; len];
        source.read_exact_at(&mut beginning, 0)?;
        check_beginning(&beginning)?;
        Ok(Self {
            input: Input::new(source),
            ranges: 0,
            has_ended: false,
        })
    }

    /// The next member; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Header`] and [`Error::Member`] for what is wrong or not supported, and [`Error::Read`].
    pub fn next_member(&mut self) -> Result<Option<Member>, Error> {
        let mut in_front = InFront::default();
        loop {
            let at = self.input.at();
            let header = self.header().map_err(|failure| failure.at(at))?;
            let Some(header) = header else {
                // No member follows these extended headers.
                return if in_front.is_empty() {
                    Ok(None)
                } else {
                    Err(Failure::from(Defect::Truncated).at(at))
                };
            };
            let is_extension = self.extension(&header, &mut in_front);
            if !is_extension.map_err(|failure| failure.at(at))? {
                return self.member(at, &header, in_front).map(Some);
            }
        }
    }

    /// The next header; `None` at the end of the archive.
    fn header(&mut self) -> Result<Option<Header>, Failure> {
        if self.has_ended {
            return Ok(None);
        }
        // An archive that was cut between two members has no such end.
        let block = self.input.block()?.ok_or(Defect::Truncated)?;
        if !is_zero(&block) {
            return Ok(Some(Header::parse(&block)?));
        }
        self.has_ended = true;
        while let Some(block) = self.input.block()? {
            if !is_zero(&block) {
                return Err(Defect::BehindEnd.into());
            }
        }
        Ok(None)
    }

    /// Reads what follows a header that says something about the next one; whether it was such a header.
    fn extension(&mut self, header: &Header, in_front: &mut InFront) -> Result<bool, Failure> {
        let (field, limit) = match header.type_flag {
            // Go forgets those in front of it.
            b'g' if !in_front.is_empty() => return Err(Defect::GlobalBehind.into()),
            b'x' => (Some(&mut in_front.records), MAX_EXTENSION),
            b'g' => (None, MAX_EXTENSION),
            b'L' => (Some(&mut in_front.name), MAX_LONG_NAME),
            b'K' => (Some(&mut in_front.link), MAX_LONG_NAME),
            _ => return Ok(false),
        };
        let len = Some(header.size()?).filter(|len| *len <= limit);
        let len = len.and_then(|len| usize::try_from(len).ok());
        let bytes = self.input.bytes(len.ok_or(Defect::ExtensionLength)?)?;
        match field {
            None => extension::check_global(&bytes)?,
            Some(field) => match field.replace(bytes) {
                None => {}
                Some(_) => return Err(Defect::Repeated.into()),
            },
        }
        Ok(true)
    }

    fn member(&mut self, at: u64, header: &Header, in_front: InFront) -> Result<Member, Error> {
        let mut extension = Extension::default();
        let records = in_front.records.unwrap_or_default();
        let taken = extension.take_all(&records);
        taken.map_err(|defect| Failure::from(defect).at(at))?;
        let name = extension.name(in_front.name.map(until_nul));
        let name = name.map_err(|defect| Failure::from(defect).at(at))?;
        if name.is_none() && header.has_doubtful_prefix() {
            return Err(Failure::from(Defect::Prefix).at(at));
        }
        let name = name.unwrap_or_else(|| header.name());
        if name.is_empty() || name.contains(&0) {
            return Err(Failure::from(Defect::Name).at(at));
        }
        // Of what is no link, nobody reads the target.
        let long = in_front
            .link
            .filter(|_| matches!(header.type_flag, b'1' | b'2'));
        let member = extension
            .target(long.map(until_nul))
            .map_err(Failure::from)
            .map(|link| link.unwrap_or_else(|| header.link()))
            .and_then(|link| self.member_named(&name, link, header, extension));
        member.map_err(|failure| failure.of_member(&name))
    }

    fn member_named(
        &mut self,
        name: &[u8],
        link: Vec<u8>,
        header: &Header,
        mut extension: Extension,
    ) -> Result<Member, Failure> {
        let records = std::mem::take(&mut extension.attributes);
        let uid = extension.uid.map_or_else(|| header.uid(), Ok)?;
        let gid = extension.gid.map_or_else(|| header.gid(), Ok)?;
        // The last number means none in system calls.
        for (id, field) in [(uid, "owner"), (gid, "group")] {
            if id == u32::MAX {
                return Err(Defect::Number(field).into());
            }
        }
        let mtime = match extension.mtime {
            Some(time) => time,
            None => Timestamp::new(header.mtime()?, 0).ok_or(Defect::Number("time"))?,
        };
        let kind = self.kind(name, link, header, extension)?;
        let permissions = Permissions::new(header.mode()?);
        let has_nfs_list = records.has_nfs_list;
        let (permissions, extended) = records.finish(&kind, permissions)?;
        Ok(Member {
            name: name.into(),
            kind,
            attributes: Attributes {
                permissions,
                uid,
                gid,
                mtime,
                extended,
                has_nfs_list,
            },
        })
    }

    /// The kind of a member, behind whose content the input is then.
    fn kind(
        &mut self,
        name: &[u8],
        link: Vec<u8>,
        header: &Header,
        extension: Extension,
    ) -> Result<Kind, Failure> {
        let size = extension.size.map_or_else(|| header.size(), Ok)?;
        let device = || {
            let (major, minor) = header.device()?;
            Ok::<_, Defect>(DeviceNumber::new(major, minor))
        };
        let type_flag = doubts::type_flag(header, name)?;
        doubts::check(type_flag, header, &extension)?;
        let kind = match type_flag {
            0 | b'0' | b'7' => return self.file(size, extension),
            b'S' => return self.gnu_sparse(size, header),
            b'1' => {
                check_target(&link, usize::MAX)?;
                return Ok(Kind::HardLink(link));
            }
            b'2' => {
                check_target(&link, MAX_TARGET)?;
                Kind::Symlink(link)
            }
            b'3' => Kind::CharDevice(device()?),
            b'4' => Kind::BlockDevice(device()?),
            b'5' => Kind::Directory,
            b'6' => Kind::Fifo,
            other => return Err(Defect::Type(other).into()),
        };
        match size {
            0 => Ok(kind),
            // Some programs skip it, others do not.
            _ => Err(Defect::Content.into()),
        }
    }

    /// A file whose map of holes, if it has one, is in records or in front of its content.
    fn file(&mut self, size: u64, extension: Extension) -> Result<Kind, Failure> {
        match extension.sparse.finish()? {
            None => self.content(size, size, None),
            Some(Sparse::InRecords(whole, map)) => self.content(whole, size, Some(map)),
            Some(Sparse::InFront(whole)) => {
                let (map, left) = sparse::read_in_front(&mut self.input, size)?;
                self.content(whole, left, Some(map))
            }
        }
    }

    /// A file with holes in the GNU format.
    fn gnu_sparse(&mut self, stored: u64, header: &Header) -> Result<Kind, Failure> {
        let end = header.gnu_end().ok_or(Defect::Type(header.type_flag))?;
        let map = sparse::read_gnu(&end, &mut self.input)?;
        self.content(end.size()?, stored, Some(map))
    }

    /// A file of `size` bytes, of which `stored` follow.
    fn content(&mut self, size: u64, stored: u64, map: Option<Map>) -> Result<Kind, Failure> {
        let at = self.input.at();
        let map = map
            .map(|map| map.finish(size, stored))
            .transpose()?
            .flatten();
        let ranges = map.as_ref().map_or(0, |ranges| ranges.len());
        self.ranges = self.ranges.saturating_add(ranges);
        if self.ranges > MAX_RANGES {
            return Err(Defect::Holes.into());
        }
        self.skip_content(stored)?;
        Ok(Kind::File(Content {
            size,
            at,
            stored: map,
        }))
    }

    /// Skips content of `len` bytes, with the rest of its last block.
    fn skip_content(&mut self, len: u64) -> Result<(), Failure> {
        let block = u64::try_from(BLOCK).unwrap_or(u64::MAX);
        let len = len.checked_next_multiple_of(block);
        self.input.skip(len.ok_or(Defect::Truncated)?)
    }
}

impl InFront {
    fn is_empty(&self) -> bool {
        self.records.is_none() && self.name.is_none() && self.link.is_none()
    }
}

fn is_zero(block: &Block) -> bool {
    block.iter().all(|byte| *byte == 0)
}

/// A name in a header of its own, which ends with NUL.
fn until_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().position(|byte| *byte == 0);
    bytes.truncate(end.unwrap_or(bytes.len()));
    bytes
}

fn check_target(target: &[u8], longest: usize) -> Result<(), Defect> {
    if !target.is_empty() && target.len() <= longest && !target.contains(&0) {
        Ok(())
    } else {
        Err(Defect::Target)
    }
}
