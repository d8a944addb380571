use std::path::{Path, PathBuf};

use verimount_integrity::Mode;

/// The parameters of a volume.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) mode: Mode,
    /// In bytes.
    pub(super) block_size: u64,
    pub(super) has_data_device: bool,
    pub(super) has_journal_mac: bool,
    /// In bytes.
    pub(super) journal_size: u64,
}

/// Enough for the writes between two flushes, and more: the kernel leaves them in the journal until half of
/// it is in use.
const LARGE_JOURNAL: u64 = 1 << 20;

/// So small that it is filled many times between two flushes.
const SMALL_JOURNAL: u64 = 32 << 10;

/// The volumes that are written at the same time.
pub(super) const KINDS: [Kind; 9] = [
    Kind::new(Mode::Journal, 512),
    Kind::new(Mode::Journal, 4096),
    Kind {
        journal_size: SMALL_JOURNAL,
        ..Kind::new(Mode::Journal, 4096)
    },
    Kind {
        has_data_device: true,
        ..Kind::new(Mode::Journal, 4096)
    },
    Kind {
        has_journal_mac: true,
        ..Kind::new(Mode::Journal, 4096)
    },
    Kind::new(Mode::Bitmap, 512),
    Kind::new(Mode::Bitmap, 4096),
    Kind::new(Mode::Direct, 512),
    Kind::new(Mode::Direct, 4096),
];

impl Kind {
    const fn new(mode: Mode, block_size: u64) -> Self {
        Self {
            mode,
            block_size,
            has_data_device: false,
            has_journal_mac: false,
            journal_size: LARGE_JOURNAL,
        }
    }

    pub(super) fn describe(&self) -> String {
        let mut text = format!("{}, sectors of {}", self.mode, self.block_size);
        if self.has_data_device {
            text += ", data device";
        }
        if self.has_journal_mac {
            text += ", journal MAC";
        }
        if self.journal_size == SMALL_JOURNAL {
            text += ", small journal";
        }
        text
    }

    /// Its number of disks: the volume's device, and its data device if it has one.
    pub(super) fn disks(&self) -> usize {
        1 + usize::from(self.has_data_device)
    }

    /// Its disks in the guest, where those of all kinds are in order.
    pub(super) fn devices(number: usize) -> Vec<PathBuf> {
        let first: usize = KINDS[..number].iter().map(Self::disks).sum();
        ('a'..='z')
            .skip(first)
            .take(KINDS[number].disks())
            .map(|letter| Path::new("/dev").join(format!("vd{letter}")))
            .collect()
    }
}
