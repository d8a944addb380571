//! What an archive costs is bounded by its size, however it is made: counted in bytes that are read, not in time.

use verimount_source::Counting;
use verimount_tar::Reader;
use verimount_testkit::{Random, TarArchive, noise, random_cases};

/// How many bytes may be read for each byte of an archive, and besides: contents are skipped, and what is read in front of them
/// with the next header, too.
const MOST_FOR_BYTE: u64 = 2;
const MOST: u64 = 64 << 10;

/// Sizes about those of what is read at a time.
const SIZES: [usize; 9] = [0, 1, 511, 512, 15_872, 15_873, 16_384, 16_385, 40_000];

/// Adds a member of any kind, with headers in front of it, of which some are nonsense.
fn with_any_member(archive: TarArchive, random: &mut Random) -> TarArchive {
    let size = random.choose(&SIZES);
    let content = noise(size, random.number());
    let name = format!("member{}", random.below(1000));
    let value = vec![b'x'; size];
    let archive = match random.below(8) {
        0 => archive.records(&[("comment", &value)]),
        1 => archive.records(&vec![("SCHILY.xattr.user.x", &value[..size.min(99)]); 300]),
        2 => archive.member(b'g', b"all", b"", &[]),
        3 => archive.member(b'L', b"long", b"", format!("{name}\0").as_bytes()),
        4 => archive.records(&[("path", name.as_bytes())]),
        _ => archive,
    };
    let name = name.as_bytes();
    match random.below(10) {
        0 => archive.member(b'5', name, b"", b""),
        1 => archive.member(b'2', name, b"target", b""),
        2 => with_map_in_header(archive, name, random),
        3 => with_map_in_front(archive, name, random),
        4 => archive.bytes(&content),
        _ => archive.member(b'0', name, b"", &content),
    }
}

/// A file of holes and single bytes, whose map goes on behind its header.
fn with_map_in_header(archive: TarArchive, name: &[u8], random: &mut Random) -> TarArchive {
    let blocks = random.below(100);
    let ranges = 4 + 21 * blocks;
    let range = |number: usize| format!("{:011o}\0{:011o}\0", 2 * number, 1).into_bytes();
    let archive = archive.member_with(b'S', name, b"", b"", |header| {
        header[257..265].copy_from_slice(b"ustar  \0");
        header[124..135].copy_from_slice(format!("{ranges:011o}").as_bytes());
        let map: Vec<u8> = (0..4).flat_map(range).collect();
        header[386..482].copy_from_slice(&map);
        header[482] = u8::from(blocks > 0);
        header[483..494].copy_from_slice(format!("{:011o}", 2 * ranges).as_bytes());
    });
    let more = (0..blocks).fold(archive, |archive, block| {
        let first = 4 + 21 * block;
        let mut map: Vec<u8> = (first..first + 21).flat_map(range).collect();
        map.push(u8::from(block + 1 < blocks));
        archive.bytes(&map)
    });
    more.bytes(&vec![1; ranges])
}

/// A file of holes and single bytes, with a map in front of its content.
fn with_map_in_front(archive: TarArchive, name: &[u8], random: &mut Random) -> TarArchive {
    let ranges = random.below(5000);
    let lines = (0..ranges).map(|number| format!("{}\n1\n", 2 * number));
    let mut content = format!("{ranges}\n{}", lines.collect::<String>()).into_bytes();
    content.resize(content.len().next_multiple_of(512), 0);
    content.extend(vec![1; ranges]);
    let size = (2 * ranges).to_string();
    archive
        .records(&[
            ("GNU.sparse.major", b"1"),
            ("GNU.sparse.minor", b"0"),
            ("GNU.sparse.realsize", size.as_bytes()),
        ])
        .member(b'0', name, b"", &content)
}

#[test]
fn any_archive_is_read_at_most_twice() {
    // How many archives are read to their end, and how many are refused.
    let mut ended = [0_u32; 2];
    for seed in 0..random_cases(400) {
        let mut random = Random::new(seed.into());
        let members = random.below(100);
        let archive = (0..members).fold(TarArchive::default().file("first"), |archive, _| {
            with_any_member(archive, &mut random)
        });
        let mut archive = archive.finish();
        if random.coin() {
            let at = random.below(archive.len());
            archive[at] ^= 1;
        }
        let counting = Counting::new(&archive[..]);
        let is_read = (|| {
            let mut reader = Reader::new(&counting)?;
            while reader.next_member()?.is_some() {}
            Ok::<_, verimount_tar::Error>(())
        })();
        ended[usize::from(is_read.is_err())] += 1;
        let (read, most) = (
            counting.counts().bytes,
            MOST + MOST_FOR_BYTE * archive.len() as u64,
        );
        assert!(read <= most, "seed {seed}: {read} of {}", archive.len());
    }
    assert!(ended.iter().all(|count| *count > 0), "{ended:?}");
}
