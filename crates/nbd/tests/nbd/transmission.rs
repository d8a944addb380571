//! Requests and their answers.

use verimount_testkit::noise;

use super::{
    client::{DISCONNECT, FLUSH, FUA, READ, TRIM, WRITE, WRITE_ZEROES},
    world::{BAD, Disk, SIZE, serving},
};

const EPERM: u32 = 1;
const EIO: u32 = 5;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

#[test]
fn written_bytes_are_read() {
    let content = noise(300_000, 1);
    let disk = serving(Disk::default(), |connect, disk| {
        let mut client = connect().goes();
        assert_eq!(client.writes(0, 1000, &content), 0);
        assert_eq!(client.reads(1000, 300_000), Ok(content.clone()));
        assert_eq!(client.reads(SIZE - 1, 1), Ok(vec![7]));
        assert_eq!(client.does(WRITE_ZEROES, 2, 2000, 3000), 0);
        assert_eq!(client.reads(1999, 3002).unwrap()[1..3001], [0; 3000]);
        assert_eq!(client.does(TRIM, 0, 4096, 8192), 0);
        assert_eq!(*disk.flushes.lock().unwrap(), 0);
        client.request(DISCONNECT, 0, 0, 0);
        assert!(client.is_left());
    });
    assert_eq!(disk.trims.into_inner().unwrap(), [(4096, 8192)]);
    assert_eq!(
        disk.bytes.into_inner().unwrap()[5000..301_000],
        content[4000..]
    );
}

#[test]
fn durable_writes_are_flushed() {
    serving(Disk::default(), |connect, disk| {
        let mut client = connect().goes();
        let flushes = || *disk.flushes.lock().unwrap();
        assert_eq!((client.does(FLUSH, 0, 0, 0), flushes()), (0, 1));
        assert_eq!((client.writes(FUA, 0, b"content"), flushes()), (0, 2));
        assert_eq!((client.does(TRIM, FUA, 0, 512), flushes()), (0, 3));
        assert_eq!((client.does(WRITE_ZEROES, FUA, 0, 9), flushes()), (0, 4));
        // On a read the flag has no effect.
        assert_eq!((client.does(READ, FUA, 0, 1), flushes()), (0, 4));
    });
}

/// The next request is still answered.
#[test]
fn invalid_requests_are_refused() {
    serving(Disk::default(), |connect, _| {
        let mut client = connect().goes();
        for (command, flags, offset, len, error) in [
            (READ, 0, BAD - 100, 200, EIO),
            (READ, 0, SIZE - 1, 2, EINVAL),
            (READ, 0, u64::MAX, 2, EINVAL),
            (READ, 0, 0, u32::MAX, EINVAL),
            (READ, 1 << 15, 0, 2, EINVAL),
            (TRIM, 0, SIZE, 1, ENOSPC),
            (WRITE_ZEROES, 0, u64::MAX, u32::MAX, ENOSPC),
            (5, 0, 0, 1, EINVAL),
            (77, 0, 0, 1, EINVAL),
        ] {
            let refused = client.does(command, flags, offset, len);
            assert_eq!(refused, error, "{command} at {offset}");
        }
        assert_eq!(client.writes(0, SIZE - 1, b"two"), ENOSPC);
        assert_eq!(client.writes(0, 0, b"panic"), EIO);
        assert_eq!(client.reads(BAD - 1, 1), Ok(vec![7]));
    });
}

#[test]
fn a_read_only_disk_is_not_changed() {
    let disk = Disk {
        is_read_only: true,
        ..Disk::default()
    };
    let disk = serving(disk, |connect, _| {
        let mut client = connect().goes();
        assert_eq!(client.writes(0, 0, b"content"), EPERM);
        assert_eq!(client.does(TRIM, 0, 0, 512), EPERM);
        assert_eq!(client.does(WRITE_ZEROES, 0, 0, 512), EPERM);
        assert_eq!(client.does(FLUSH, 0, 0, 0), 0);
        assert_eq!(client.reads(0, 1), Ok(vec![7]));
    });
    assert!(disk.bytes.into_inner().unwrap() == vec![7; SIZE as usize]);
}

#[test]
fn malformed_requests_end_the_connection() {
    serving(Disk::default(), |connect, _| {
        for seed in 0..20 {
            let mut client = connect().goes();
            client.say(&noise(28, seed));
            assert!(client.is_left());
        }
        let mut client = connect().goes();
        client.request(WRITE, 0, 0, (32 << 20) + 1);
        assert!(client.is_left());
        // A write with only half of its data.
        let mut client = connect().goes();
        client.request(WRITE, 0, 0, 1000);
        client.say(&[1; 500]);
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(client.is_left());
        assert_eq!(connect().goes().reads(0, 2), Ok(vec![7; 2]));
    });
}

/// Answers may arrive out of order, but all of them arrive.
#[test]
fn requests_run_concurrently() {
    serving(Disk::default(), |connect, _| {
        let mut client = connect().goes();
        for block in 0..200 {
            client.request(READ, 0, block * 512, 512);
        }
        for _ in 0..200 {
            assert_eq!(client.error(), 0);
            assert_eq!(client.hear(512), [7; 512]);
        }
    });
}
