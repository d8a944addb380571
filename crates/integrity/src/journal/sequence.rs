/// The sequence number of a pass (lap) around the journal ring, modulo 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequence(u8);

impl Sequence {
    /// The number of sequence numbers.
    pub(crate) const COUNT: usize = 4;

    /// The sequence number of a new journal.
    pub(crate) const FIRST: Self = Self(0);

    /// The sequence number after the first.
    pub(crate) const SECOND: Self = Self(1);

    /// The last sequence number, which the first follows again.
    pub(crate) const LAST: Self = Self(3);

    /// All sequence numbers.
    pub(crate) fn all() -> impl DoubleEndedIterator<Item = Self> {
        (0..=Self::LAST.0).map(Self)
    }

    pub(crate) fn next(self) -> Self {
        Self((self.0 + 1) % 4)
    }

    pub(crate) fn previous(self) -> Self {
        Self((self.0 + 3) % 4)
    }

    pub(crate) fn index(self) -> usize {
        self.0.into()
    }

    /// The commit id at the end of sector `sector` of section `section`: the sequence number plus
    /// 1, repeated in each hexadecimal digit, XORed with the position of the sector.
    pub(crate) fn commit_id(self, section: u32, sector: u32) -> u64 {
        let place = u64::from(section) << 32 | u64::from(sector);
        (0x1111_1111_1111_1111 * (u64::from(self.0) + 1)) ^ place
    }

    /// The sequence number of a sector with this commit id; `None` if the commit id is invalid.
    pub(crate) fn of(commit_id: u64, section: u32, sector: u32) -> Option<Self> {
        Self::all().find(|sequence| sequence.commit_id(section, sector) == commit_id)
    }
}
