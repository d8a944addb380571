//! What programs read in different ways. `docs/formats/erofs-writing.md` says which program reads it how.

use crate::{error::Defect, extension::Extension, header::Header};

/// The largest size that a header of POSIX has room for: eleven octal digits.
const MAX_OCTAL_SIZE: u64 = (1 << 33) - 1;

/// The type of a member with this name. The oldest programs wrote directories as files with a slash behind their names.
pub(crate) fn type_flag(header: &Header, name: &[u8]) -> Result<u8, Defect> {
    let is_like_directory = name.ends_with(b"/");
    match header.type_flag {
        // Some programs look only at the name in the header.
        0 if header.name().ends_with(b"/") != is_like_directory => Err(Defect::Slash),
        0 if is_like_directory => Ok(b'5'),
        b'0' | b'7' | b'S' if is_like_directory => Err(Defect::Slash),
        type_flag => Ok(type_flag),
    }
}

/// Checks that all programs find the same content.
pub(crate) fn check(type_flag: u8, header: &Header, extension: &Extension) -> Result<(), Defect> {
    let is_file = matches!(type_flag, 0 | b'0' | b'7');
    // Some programs ignore such maps.
    if extension.sparse.is_given && !(is_file && header.is_posix()) {
        return Err(Defect::Map);
    }
    // Some programs take one of two sizes for the other one, but a large one has its place in a record only.
    let has_small_size = extension.size.is_some_and(|size| size <= MAX_OCTAL_SIZE);
    if has_small_size && (extension.sparse.is_given || type_flag == b'S') {
        return Err(Defect::Map);
    }
    let has_content = is_file || matches!(type_flag, b'1' | b'S');
    if has_content && extension.has_real_size {
        return Err(Defect::RealSize);
    }
    match type_flag {
        b'1' => check_link_size(header, extension.size),
        _ => Ok(()),
    }
}

/// Checks that no content may follow a hard link. Some old programs give the size of what it is a link to, and every
/// reader knows that nothing follows in their formats. In that of POSIX, content may follow, which only some readers skip.
fn check_link_size(header: &Header, in_records: Option<u64>) -> Result<(), Defect> {
    let size = match in_records {
        Some(size) => size,
        None if header.is_posix() => header.size()?,
        None => 0,
    };
    match size {
        0 => Ok(()),
        _ => Err(Defect::Content),
    }
}
