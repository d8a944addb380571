use verimount_integrity::{Algorithm, Mode, Padding};

/// The parameters of a volume.
#[derive(Clone)]
pub(super) struct Kind {
    pub(super) algorithm: Algorithm,
    pub(super) block_size: u64,
    pub(super) mode: Mode,
    pub(super) tag_size: Option<u16>,
    pub(super) padding: Padding,
    pub(super) has_data_device: bool,
    pub(super) has_journal_mac: bool,
}

impl Default for Kind {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Crc32c,
            block_size: 4096,
            mode: Mode::Journal,
            tag_size: None,
            padding: Padding::Fixed,
            has_data_device: false,
            has_journal_mac: false,
        }
    }
}

/// The algorithm that Linux has not supported for dm-integrity since 5.19.
const NOT_IN_THE_KERNEL: Algorithm = Algorithm::Blake2s256;

/// Each value of each parameter, and the combinations that depend on each other.
pub(super) fn kinds() -> Vec<Kind> {
    const MODES: [Mode; 3] = [Mode::Journal, Mode::Bitmap, Mode::Direct];
    let default = Kind::default;
    let mut kinds = Vec::new();
    for algorithm in Algorithm::ALL {
        let (tag_size, kind) = match algorithm {
            NOT_IN_THE_KERNEL => continue,
            // `integritysetup` does not know its length.
            Algorithm::Blake2b256 => (Some(32), default()),
            _ => (None, default()),
        };
        kinds.push(Kind {
            algorithm,
            tag_size,
            ..kind
        });
    }
    for mode in MODES {
        for block_size in [512, 1024, 2048, 4096] {
            for has_data_device in [false, true] {
                kinds.push(Kind {
                    mode,
                    block_size,
                    has_data_device,
                    ..default()
                });
            }
        }
        // Verimount refuses a bitmap with keyed tags unless there is a journal MAC as well: recalculation
        // after a crash would give valid tags to data that an attacker without the key has changed.
        // With a journal MAC, `integritysetup` refuses it.
        if mode != Mode::Bitmap {
            kinds.push(Kind {
                mode,
                algorithm: Algorithm::HmacSha256,
                has_journal_mac: true,
                ..default()
            });
        }
        kinds.push(Kind {
            mode,
            padding: Padding::Legacy,
            ..default()
        });
    }
    for tag_size in [1, 3, 50] {
        kinds.push(Kind {
            tag_size: Some(tag_size),
            ..default()
        });
    }
    kinds
}

impl Kind {
    pub(super) fn describe(&self) -> String {
        let Self {
            algorithm,
            block_size,
            mode,
            ..
        } = self;
        let mut text = format!("{algorithm}, sectors of {block_size}, {mode}");
        if let Some(tag_size) = self.tag_size {
            text += &format!(", tags of {tag_size}");
        }
        if self.padding == Padding::Legacy {
            text += ", legacy padding";
        }
        if self.has_data_device {
            text += ", data device";
        }
        if self.has_journal_mac {
            text += ", journal MAC";
        }
        text
    }
}
