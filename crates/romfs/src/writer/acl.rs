//! POSIX access control lists in the form of the attribute `system.posix_acl_access`: a version,
//! then entries of 8 bytes (tag, permissions, id), little-endian.

/// To whom an entry applies.
mod tag {
    pub(super) const USER: u16 = 0x02;
    pub(super) const GROUP_OF_FILE: u16 = 0x04;
    pub(super) const GROUP: u16 = 0x08;
    pub(super) const MASK: u16 = 0x10;
    pub(super) const OTHERS: u16 = 0x20;
}

/// Whether a list denies anybody but the owner any of these rights: read 4, write 2, execute 1.
/// True for a list that cannot be parsed.
pub(super) fn denies(list: &[u8], needed: u16) -> bool {
    let Some((_version, entries)) = list.split_at_checked(4) else {
        return true;
    };
    let (entries, rest) = entries.as_chunks::<8>();
    let entries = entries.iter().map(|&[tag0, tag1, permissions, ..]| {
        let tag = u16::from_le_bytes([tag0, tag1]);
        (tag, u16::from(permissions))
    });
    let mask = entries.clone().find(|(tag, _)| *tag == tag::MASK);
    let mask = mask.map_or(7, |(_, permissions)| permissions);
    let mut allowed = entries.map(|(tag, permissions)| match tag {
        tag::USER | tag::GROUP_OF_FILE | tag::GROUP => permissions & mask,
        tag::OTHERS => permissions,
        _ => 7,
    });
    !rest.is_empty() || allowed.any(|allowed| allowed & needed != needed)
}
