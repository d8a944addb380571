/// The number of a lap around the journal, of which only the last two bits are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequence(u8);

impl Sequence {
    /// What a fresh journal has.
    pub(crate) const FIRST: Self = Self(0);

    /// What stands at the end of sector `sector` of section `section` when it was written in this
    /// lap: the sequence number in all of its digits, and where the sector is.
    pub(crate) fn commit_id(self, section: u32, sector: u32) -> u64 {
        let place = u64::from(section) << 32 | u64::from(sector);
        (0x1111_1111_1111_1111 * (u64::from(self.0) + 1)) ^ place
    }
}
