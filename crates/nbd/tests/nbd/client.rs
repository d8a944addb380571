//! A client that sends exactly the given bytes.

use std::{
    io::{self, ErrorKind, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

/// Nobody waits longer for a server.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Client {
    pub(crate) stream: UnixStream,
}

/// The command flag `FUA`.
pub(crate) const FUA: u16 = 1;

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISCONNECT: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const WRITE_ZEROES: u16 = 6;

impl Client {
    /// Reads the greeting, and accepts all of its flags.
    pub(crate) fn connect(socket: &Path) -> Self {
        let mut client = Self::silent(socket);
        client.say(&3_u32.to_be_bytes());
        client
    }

    /// Reads the greeting.
    pub(crate) fn silent(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut client = Self { stream };
        assert_eq!(client.hear(18), b"NBDMAGICIHAVEOPT\0\x03");
        client
    }

    pub(crate) fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn hear(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Whether the server has closed the connection. It may have done so before reading everything.
    pub(crate) fn is_left(&mut self) -> bool {
        let read = self.stream.read(&mut [0]);
        assert!(!is_still_open(&read), "nothing comes");
        read.unwrap_or(0) == 0
    }

    pub(crate) fn option(&mut self, option: u32, data: &[u8]) {
        let len = data.len() as u32;
        let parts = [&b"IHAVEOPT"[..], &option.to_be_bytes(), &len.to_be_bytes()];
        self.say(&[&parts.concat(), data].concat());
    }

    /// The kind and the data of a reply to an option.
    pub(crate) fn option_reply(&mut self, option: u32) -> (u32, Vec<u8>) {
        let header = self.hear(20);
        let (magic, rest) = header.split_at(8);
        assert_eq!(magic, 0x0003_e889_0455_65a9_u64.to_be_bytes());
        let [asked, kind, len] = [0, 4, 8].map(|at| number(&rest[at..]));
        assert_eq!(asked, option);
        (kind, self.hear(len as usize))
    }

    /// Chooses the export without requesting information.
    pub(crate) fn goes(mut self) -> Self {
        self.option(7, &[0; 6]);
        assert_eq!(self.option_reply(7).0, 3);
        assert_eq!(self.option_reply(7), (1, Vec::new()));
        self
    }

    pub(crate) fn request(&mut self, command: u16, flags: u16, offset: u64, len: u32) {
        let magic = 0x2560_9513_u32.to_be_bytes();
        let (flags, command) = (flags.to_be_bytes(), command.to_be_bytes());
        let (cookie, offset) = (b"a cookie", offset.to_be_bytes());
        let len = len.to_be_bytes();
        self.say(&[&magic[..], &flags, &command, cookie, &offset, &len].concat());
    }

    /// The error number of an answer; 0 for success.
    pub(crate) fn error(&mut self) -> u32 {
        let header = self.hear(16);
        assert_eq!(header[..4], 0x6744_6698_u32.to_be_bytes());
        assert_eq!(&header[8..], b"a cookie");
        number(&header[4..])
    }

    /// Sends a request and reads the answer.
    pub(crate) fn does(&mut self, command: u16, flags: u16, offset: u64, len: u32) -> u32 {
        self.request(command, flags, offset, len);
        self.error()
    }

    pub(crate) fn writes(&mut self, flags: u16, offset: u64, bytes: &[u8]) -> u32 {
        self.request(WRITE, flags, offset, bytes.len() as u32);
        self.say(bytes);
        self.error()
    }

    pub(crate) fn reads(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, u32> {
        match self.does(READ, 0, offset, len) {
            0 => Ok(self.hear(len as usize)),
            error => Err(error),
        }
    }
}

/// Whether nothing has come from a server that has not closed the connection.
pub(crate) fn is_still_open(read: &io::Result<usize>) -> bool {
    matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().unwrap())
}
