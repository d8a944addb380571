//! The handshake.

use super::{
    client::Client,
    world::{Disk, SIZE, serving},
};

const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const LIST: u32 = 3;
const STARTTLS: u32 = 5;
const INFO: u32 = 6;
const GO: u32 = 7;

const ACK: u32 = 1;
const ERR_UNSUP: u32 = 0x8000_0001;
const ERR_INVALID: u32 = 0x8000_0003;
const ERR_UNKNOWN: u32 = 0x8000_0006;

/// `HAS_FLAGS`, `SEND_FLUSH`, `SEND_FUA`, `SEND_TRIM`, `SEND_WRITE_ZEROES` and `CAN_MULTI_CONN`.
const FLAGS: u16 = 0b1_0110_1101;

fn export_info(flags: u16) -> Vec<u8> {
    [&SIZE.to_be_bytes()[..], &flags.to_be_bytes()].concat()
}

fn connected(disk: Disk, work: impl FnOnce(&mut Client)) {
    serving(disk, |connect, _| work(&mut connect()));
}

#[test]
fn properties_of_the_disk() {
    for option in [INFO, GO] {
        connected(Disk::default(), |client| {
            // The empty name, and two kinds of information: the name, which is not sent, and block
            // sizes.
            client.option(option, &[0, 0, 0, 0, 0, 2, 0, 1, 0, 3]);
            let info = [&[0, 0], &export_info(FLAGS)[..]].concat();
            assert_eq!(client.option_reply(option), (3, info));
            let sizes = [512_u32, 65536, 32 << 20].map(u32::to_be_bytes).concat();
            let sizes = [&[0, 3], &sizes[..]].concat();
            assert_eq!(client.option_reply(option), (3, sizes));
            assert_eq!(client.option_reply(option), (ACK, Vec::new()));
            match option {
                GO => assert_eq!(client.reads(0, 2), Ok(vec![7; 2])),
                _ => client.option(ABORT, &[]),
            }
        });
    }
}

#[test]
fn flags_show_supported_commands() {
    let read_only = Disk {
        is_read_only: true,
        ..Disk::default()
    };
    let without_trim = Disk {
        can_trim: false,
        ..Disk::default()
    };
    for (disk, flags) in [(read_only, 0b1_0000_0111), (without_trim, 0b1_0100_1101)] {
        connected(disk, |client| {
            client.option(EXPORT_NAME, &[]);
            assert_eq!(client.hear(10), export_info(flags));
        });
    }
}

/// `NBD_OPT_EXPORT_NAME`, with and without the padding after its answer.
#[test]
fn an_export_chosen_by_its_name() {
    connected(Disk::default(), |client| {
        client.option(EXPORT_NAME, &[]);
        assert_eq!(client.hear(10), export_info(FLAGS));
        assert_eq!(client.reads(0, 2), Ok(vec![7; 2]));
    });
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let server = verimount_nbd::Server::bind(&socket, Default::default()).unwrap();
    let disk = Disk::default();
    std::thread::scope(|scope| {
        scope.spawn(|| server.serve(&disk, std::num::NonZeroUsize::MIN));
        let mut client = Client::silent(&socket);
        client.say(&1_u32.to_be_bytes());
        client.option(EXPORT_NAME, &[]);
        assert_eq!(client.hear(134)[10..], [0; 124]);
        assert_eq!(client.reads(0, 2), Ok(vec![7; 2]));
        server.stop();
    });
}

#[test]
fn unsupported_options() {
    connected(Disk::default(), |client| {
        client.option(STARTTLS, &[]);
        assert_eq!(client.option_reply(STARTTLS), (ERR_UNSUP, Vec::new()));
        client.option(8, &[1; 16384]);
        assert_eq!(client.option_reply(8), (ERR_UNSUP, Vec::new()));
        client.option(GO, b"\0\0\0\x03hdd\0\0");
        assert_eq!(client.option_reply(GO), (ERR_UNKNOWN, Vec::new()));
        for wrong in [
            &b""[..],
            b"\0\0\0\x01",
            b"\xff\xff\xff\xff\0\0",
            &[0; 7],
            b"\0\0\0\0\0\x01",
        ] {
            client.option(GO, wrong);
            assert_eq!(client.option_reply(GO), (ERR_INVALID, Vec::new()));
        }
        client.option(LIST, &[0]);
        assert_eq!(client.option_reply(LIST), (ERR_INVALID, Vec::new()));
        client.option(LIST, &[]);
        assert_eq!(client.option_reply(LIST), (2, vec![0; 4]));
        assert_eq!(client.option_reply(LIST), (ACK, Vec::new()));
        client.option(ABORT, &[]);
        assert_eq!(client.option_reply(ABORT), (ACK, Vec::new()));
        assert!(client.is_left());
    });
}

/// After a malformed message, the position of the next one is unknown.
#[test]
fn malformed_handshakes_end_the_connection() {
    serving(Disk::default(), |connect, _| {
        let talks: [fn(&mut Client); 4] = [
            |client| client.say(&[0xff; 16]),
            |client| client.say(b"IHAVEOPT\0\0\0\x07\0\0\x40\x01"),
            |client| client.option(EXPORT_NAME, b"hdd"),
            |client| client.say(b"IHAVE"),
        ];
        for talk in talks {
            let mut client = connect();
            talk(&mut client);
            let _ = client.stream.shutdown(std::net::Shutdown::Write);
            assert!(client.is_left());
        }
        assert_eq!(connect().goes().reads(0, 2), Ok(vec![7; 2]));
    });
}
