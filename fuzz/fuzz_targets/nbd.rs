//! Says bytes to an NBD server, as a client would: its disk is asked for nothing that it does not have.

#![no_main]

use std::{
    env,
    io::{Read, Write},
    net::Shutdown,
    num::NonZeroUsize,
    os::unix::net::UnixStream,
    process,
    sync::Arc,
    thread,
};

use libfuzzer_sys::fuzz_target;
use rustix::io::Errno;
use signal_hook::{consts::SIGPIPE, flag};
use verimount_nbd::{BlockSizes, Export, OwnOption, Server};

/// The size of the disk, in bytes.
const SIZE: u64 = 4096;

/// As in use, one thread answers while another waits for the next request.
const THREADS: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// An option with one reply, and one with several: those of the exports of volumes.
const STATUS: u32 = u32::from_be_bytes(*b"veri");
const CHECK: u32 = u32::from_be_bytes(*b"vchk");

/// What the server says first.
const GREETING: &[u8] = b"NBDMAGICIHAVEOPT\0\x03";

fuzz_target!(init: survive_broken_pipes(), |input: &[u8]| {
    // Half of the time a disk that is only read: whatever it is asked for, nothing is changed.
    let disk = Disk {
        is_read_only: input.len() % 2 == 1,
    };
    let socket = env::temp_dir().join(format!("verimount-fuzz-nbd-{}", process::id()));
    let server = Server::bind(&socket, Default::default()).expect("nobody else has the socket");
    thread::scope(|scope| {
        scope.spawn(|| server.serve(&disk, THREADS));
        let mut client = UnixStream::connect(&socket).expect("it listens");
        // The server goes when it is told what no client may say, and hears no more of it.
        let _ = client.write_all(input);
        let _ = client.shutdown(Shutdown::Write);
        let mut heard = Vec::new();
        let _ = client.read_to_end(&mut heard);
        assert!(heard.starts_with(GREETING));
        server.stop();
    });
});

/// Has writes to a connection that the other side has left fail, as in all programs that begin
/// with Rust's `main`; here they would be the end.
fn survive_broken_pipes() {
    flag::register(SIGPIPE, Arc::default()).expect("it may be handled");
}

struct Disk {
    is_read_only: bool,
}

impl Disk {
    /// What comes of a request: at odd places, an error.
    fn answer(&self, offset: u64, len: u64, changes: bool) -> Result<(), Errno> {
        assert!(offset.checked_add(len).is_some_and(|end| end <= SIZE));
        assert!(!(changes && self.is_read_only));
        if offset.is_multiple_of(2) {
            Ok(())
        } else {
            Err(Errno::IO)
        }
    }
}

impl Export for Disk {
    fn size(&self) -> u64 {
        SIZE
    }

    fn block_sizes(&self) -> BlockSizes {
        BlockSizes {
            minimum: 512,
            preferred: 4096,
        }
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn can_trim(&self) -> bool {
        !self.is_read_only
    }

    fn own_option(&self, option: u32) -> Option<OwnOption<'_>> {
        match option {
            STATUS => Some(OwnOption::Reply(b"a disk".to_vec())),
            CHECK => Some(OwnOption::Talk(Box::new(|tell| tell(b"checked")))),
            _ => None,
        }
    }

    fn read(&self, buf: &mut [u8], offset: u64) -> Result<(), Errno> {
        self.answer(offset, buf.len() as u64, false)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<(), Errno> {
        self.answer(offset, bytes.len() as u64, true)
    }

    fn flush(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn trim(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.answer(offset, len, true)
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.answer(offset, len, true)
    }
}
