use std::io;

use rustix::io::Errno;
use verimount_fuse::Awake;
use verimount_integrity::{Interleave, SECTOR};
use verimount_nbd::{BlockSizes, Export, OwnOption};

use crate::{
    Disk, export_check,
    export_options::{CHECK, STATUS},
};

/// The largest preferred request size, in bytes. Tags are collected across requests, so larger requests
/// gain nothing.
const MAX_PREFERRED: u64 = 1 << 20;

/// The adapter between NBD and a [`Disk`].
pub struct VolumeExport {
    disk: Disk,
    allows_discards: bool,
    awake: Option<Awake>,
}

impl VolumeExport {
    /// Serves `disk`. `allows_discards` must be the option with which its volume was opened.
    pub fn new(disk: Disk, allows_discards: bool) -> Self {
        Self {
            disk,
            allows_discards,
            awake: None,
        }
    }

    /// Keeps idle processors awake while requests come.
    ///
    /// # Errors
    /// As [`Awake::start`].
    pub fn keeping_awake(self) -> io::Result<Self> {
        let awake = Some(Awake::start()?);
        Ok(Self { awake, ..self })
    }

    /// The disk, for a new request.
    fn asked(&self) -> &Disk {
        if let Some(awake) = &self.awake {
            awake.request();
        }
        &self.disk
    }
}

impl Export for VolumeExport {
    fn size(&self) -> u64 {
        self.disk.size()
    }

    fn block_sizes(&self) -> BlockSizes {
        let superblock = self.disk.volume().superblock();
        let interleave = |interleave: Interleave| SECTOR << interleave.log2_sectors();
        let preferred = superblock
            .shape
            .interleave
            .map_or(MAX_PREFERRED, interleave);
        BlockSizes {
            minimum: superblock.shape.block_size.bytes() as u32,
            preferred: preferred.min(MAX_PREFERRED) as u32,
        }
    }

    fn is_read_only(&self) -> bool {
        self.disk.volume().mode().is_read_only()
    }

    fn can_trim(&self) -> bool {
        self.allows_discards
    }

    fn own_option(&self, option: u32) -> Option<OwnOption<'_>> {
        match option {
            // An empty answer only means that it is not recognised as ours.
            STATUS => Some(OwnOption::Reply(
                self.disk.status().to_json().unwrap_or_default(),
            )),
            CHECK => Some(OwnOption::Talk(Box::new(|tell| {
                export_check::run(self.disk.volume(), tell)
            }))),
            _ => None,
        }
    }

    fn read(&self, buf: &mut [u8], offset: u64) -> Result<(), Errno> {
        self.asked().read_exact(buf, offset)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<(), Errno> {
        self.asked().write(bytes, offset).map(drop)
    }

    fn flush(&self) -> Result<(), Errno> {
        self.asked().flush()
    }

    fn trim(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.asked().discard(offset, len)
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.asked().zero(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        num::NonZeroUsize,
        ops::ControlFlow,
        os::unix::{fs::MetadataExt, net::UnixListener},
        sync::Arc,
        thread,
        time::Duration,
    };

    use verimount_integrity::{Devices, FormatOptions, Mode, OpenOptions, Volume, format};
    use verimount_nbd::Server;
    use verimount_source::MemoryStorage;
    use verimount_testkit::{Fault, Faulty};

    use super::*;
    use crate::{AskError, CheckEvent, Served, ask_export, check_export};

    const BLOCK: usize = 4096;

    /// How long an answer may take: far more than it does.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A volume whose storage fails the first write, and no other.
    fn failing_once() -> VolumeExport {
        let formatted = Arc::new(MemoryStorage::new(vec![0; 1 << 20]));
        let options = FormatOptions {
            is_zero: true,
            ..FormatOptions::default()
        };
        format(Devices::new(formatted.clone()), &options, &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap();
        let memory = MemoryStorage::new(formatted.to_vec());
        let storage = Arc::new(Faulty::new(memory, Fault::Write, 0));
        let options = OpenOptions {
            mode: Mode::Direct,
            allow_discards: true,
            ..OpenOptions::default()
        };
        let volume = Volume::open(Devices::new(storage), &options).unwrap();
        let disk = Disk::new(Arc::new(volume), Vec::new(), Served::default());
        VolumeExport::new(disk, true)
    }

    /// Even if the storage works again: it is unknown which earlier writes it has lost.
    #[test]
    fn after_a_failed_write_a_client_can_read_but_not_write() {
        let export = failing_once();
        let (len, other) = (BLOCK as u64, 2 * BLOCK as u64);
        let failed = export.write(&[1; BLOCK], 0);
        assert_eq!(failed, Err(Errno::IO));
        assert!(export.disk.volume().failure().is_some());
        for later in [
            export.write(&[1; BLOCK], other),
            export.write_zeroes(other, len),
            export.trim(other, len),
            export.flush(),
        ] {
            assert_eq!(later, failed);
        }
        let mut found = [1; BLOCK];
        export.read(&mut found, other).unwrap();
        assert_eq!(found, [0; BLOCK]);
    }

    #[test]
    fn an_export_tells_its_status_and_is_checked() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let owner = fs::metadata(folder.path()).unwrap().uid();
        let server = Server::bind(&socket, Default::default()).unwrap();
        let export = failing_once();
        thread::scope(|scope| {
            scope.spawn(|| server.serve(&export, NonZeroUsize::MIN));
            let asked = |user| ask_export(&socket, user, PATIENCE);
            for own in [None, Some(owner)] {
                let status = asked(own).unwrap().status;
                assert_eq!(status, export.disk.status());
            }
            let foreign = asked(Some(owner + 1));
            assert!(
                matches!(foreign, Err(AskError::NotOurs)),
                "{:?}",
                foreign.err()
            );
            let mut done = 0;
            let checked = check_export(&socket, PATIENCE, &mut |event| {
                if let Some(CheckEvent::Done { bytes }) = event {
                    done += bytes;
                }
                ControlFlow::Continue(())
            });
            checked.unwrap();
            assert_eq!(done, export.size());
            server.stop();
        });
        drop(server);
        let missing = ask_export(&socket, None, PATIENCE);
        assert!(matches!(missing, Err(AskError::System(_))));
        drop(UnixListener::bind(&socket).unwrap());
        let dead = ask_export(&socket, None, PATIENCE);
        assert!(matches!(dead, Err(AskError::DeadExport)));
    }
}
