/// The number of a lap around the journal, modulo four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequence(u8);

impl Sequence {
    /// How many there are.
    pub(crate) const COUNT: usize = 4;

    /// What a fresh journal has.
    pub(crate) const FIRST: Self = Self(0);

    /// What comes after it.
    pub(crate) const SECOND: Self = Self(1);

    /// The one before the first.
    pub(crate) const LAST: Self = Self(3);

    /// All of them.
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

    /// What stands at the end of sector `sector` of section `section` when it was written in this
    /// lap: the sequence number in all of its digits, and where the sector is.
    pub(crate) fn commit_id(self, section: u32, sector: u32) -> u64 {
        let place = u64::from(section) << 32 | u64::from(sector);
        (0x1111_1111_1111_1111 * (u64::from(self.0) + 1)) ^ place
    }

    /// The lap in which a sector with this commit id was written.
    pub(crate) fn of(commit_id: u64, section: u32, sector: u32) -> Option<Self> {
        Self::all().find(|sequence| sequence.commit_id(section, sector) == commit_id)
    }
}
