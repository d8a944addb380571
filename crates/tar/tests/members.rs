//! What is read of archives that are made byte by byte: of good ones, and of those that no program writes.

use verimount_tar::{Defect, Error, Kind, Member, Reader};
use verimount_testkit::{TarArchive, noise, pax_record};
use verimount_tree::Timestamp;

fn read(archive: Vec<u8>) -> Result<Vec<Member>, Error> {
    let mut reader = Reader::new(archive)?;
    let mut members = Vec::new();
    while let Some(member) = reader.next_member()? {
        members.push(member);
    }
    assert!(reader.next_member()?.is_none());
    Ok(members)
}

/// What is wrong with an archive.
#[track_caller]
fn defect(archive: Vec<u8>) -> Defect {
    match read(archive) {
        Err(Error::Header { defect, .. } | Error::Member { defect, .. }) => defect,
        other => panic!("{other:?}"),
    }
}

fn names(members: &[Member]) -> Vec<&str> {
    let names = members.iter();
    names
        .map(|member| str::from_utf8(&member.name).unwrap())
        .collect()
}

#[test]
fn members_have_all_that_their_headers_say() {
    let archive = TarArchive::default()
        .member(b'5', b"dir/", b"", b"")
        .member(b'0', b"dir/file", b"", b"content")
        .member(b'1', b"second", b"dir/file", b"")
        .member(b'2', b"link", b"dir/file", b"")
        .member(b'6', b"fifo", b"", b"")
        .member_with(b'3', b"null", b"", b"", |header| {
            header[329..336].copy_from_slice(b"0000001");
            header[337..344].copy_from_slice(b"0000003");
        })
        .member(b'4', b"disk", b"", b"")
        .member_with(b'0', b"name", b"", b"", |header| {
            header[345..351].copy_from_slice(b"before");
        })
        .member(0, b"old directory/", b"", b"")
        .finish();
    let members = read(archive.clone()).unwrap();
    let expected = [
        "dir/",
        "dir/file",
        "second",
        "link",
        "fifo",
        "null",
        "disk",
        "before/name",
        "old directory/",
    ];
    assert_eq!(names(&members), expected);
    let file = &members[1];
    let of_file = &file.attributes;
    let owner = (of_file.uid, of_file.gid);
    assert_eq!((of_file.permissions.bits(), owner), (0o644, (1, 2)));
    assert_eq!(Some(of_file.mtime), Timestamp::new(3, 0));
    let Kind::File(content) = &file.kind else {
        panic!("{file:?}");
    };
    assert_eq!((content.size, &content.stored), (7, &None));
    assert_eq!(&archive[content.at as usize..][..7], b"content");
    assert_eq!(members[2].kind, Kind::HardLink(b"dir/file".into()));
    assert_eq!(members[3].kind, Kind::Symlink(b"dir/file".into()));
    assert_eq!(members[3].attributes.permissions.bits(), 0o777);
    assert_eq!(members[4].kind, Kind::Fifo);
    assert!(matches!(members[5].kind, Kind::CharDevice(device) if device.encoded() == 0x103));
    assert!(matches!(members[6].kind, Kind::BlockDevice(_)));
    assert_eq!(members[8].kind, Kind::Directory);
}

#[test]
fn what_is_in_front_counts_more_than_the_header() {
    let long = format!("{}\0", "n".repeat(300));
    let archive = TarArchive::default()
        .member(b'g', b"all", b"", &pax_record(b"comment", b"of all"))
        .member(b'L', b"././@LongLink", b"", long.as_bytes())
        .member(b'K', b"././@LongLink", b"", b"target\0")
        .member(b'2', b"nnn", b"ttt", b"")
        .records(&[("path", b"other"), ("uid", b"70000"), ("mtime", b"-0.5")])
        .file("name")
        .file("last")
        .finish();
    let members = read(archive).unwrap();
    assert_eq!(names(&members), [&"n".repeat(300), "other", "last"]);
    assert_eq!(members[0].kind, Kind::Symlink(b"target".into()));
    assert_eq!(
        (members[1].attributes.uid, members[2].attributes.uid),
        (70_000, 1)
    );
    let times = members.iter().map(|member| Some(member.attributes.mtime));
    let times: Vec<_> = times.collect();
    let expected = [
        Timestamp::new(3, 0),
        Timestamp::new(-1, 500_000_000),
        Timestamp::new(3, 0),
    ];
    assert_eq!(times, expected);
}

/// The size in the records is that of the content, whatever the header says; otherwise the content would be read as
/// members.
#[test]
fn the_size_in_records_is_what_follows() {
    let inner = TarArchive::default().file("hidden").unfinished();
    let size = inner.len().to_string();
    let archive = TarArchive::default()
        .records(&[("size", size.as_bytes())])
        .member_with(b'0', b"outer", b"", &inner, |header| {
            header[124..135].fill(b'0');
        })
        .file("last")
        .finish();
    assert_eq!(names(&read(archive).unwrap()), ["outer", "last"]);
}

/// A file of 2000 bytes with a hole in the middle, in each of the forms.
#[test]
fn holes_are_known_from_all_forms_of_maps() {
    let content = noise(1000, 1);
    let gnu = |header: &mut [u8; 512]| {
        header[257..265].copy_from_slice(b"ustar  \0");
        for (at, number) in [(386, 0), (398, 600), (410, 1600), (422, 400), (483, 2000)] {
            header[at..at + 11].copy_from_slice(format!("{number:011o}").as_bytes());
        }
    };
    let version = |minor| [("GNU.sparse.major", &b"1"[..]), ("GNU.sparse.minor", minor)];
    let mut in_front = b"2\n0\n600\n1600\n400\n".to_vec();
    in_front.resize(512, 0);
    in_front.extend(&content);
    let archive = TarArchive::default()
        .member_with(b'S', b"gnu", b"", &content, gnu)
        .records(&[
            ("GNU.sparse.size", b"2000"),
            ("GNU.sparse.numblocks", b"2"),
            ("GNU.sparse.offset", b"0"),
            ("GNU.sparse.numbytes", b"600"),
            ("GNU.sparse.offset", b"1600"),
            ("GNU.sparse.numbytes", b"400"),
        ])
        .member(b'0', b"0.0", b"", &content)
        .records(&[
            ("GNU.sparse.name", b"0.1"),
            ("GNU.sparse.size", b"2000"),
            ("GNU.sparse.map", b"0,600,1600,400"),
        ])
        .member(b'0', b"GNUSparseFile.0/0.1", b"", &content)
        .records(&[
            version(b"0")[0],
            version(b"0")[1],
            ("GNU.sparse.name", b"1.0"),
            ("GNU.sparse.realsize", b"2000"),
        ])
        .member(b'0', b"GNUSparseFile.0/1.0", b"", &in_front)
        .finish();
    let members = read(archive.clone()).unwrap();
    assert_eq!(names(&members), ["gnu", "0.0", "0.1", "1.0"]);
    for member in members {
        let Kind::File(found) = &member.kind else {
            panic!("{member:?}");
        };
        assert_eq!(found.size, 2000);
        assert_eq!(found.stored.as_deref(), Some(&[0..600, 1600..2000][..]));
        assert_eq!(archive[found.at as usize..][..1000], content);
    }
}

#[test]
fn a_map_in_headers_goes_on() {
    let content = vec![1; 30];
    let range = |number: usize| format!("{:011o}\0{:011o}\0", number * 1000, 1);
    let mut ranges: Vec<String> = (0..30).map(range).collect();
    let mut more = ranges.split_off(4).concat().into_bytes();
    // 21 of them, and the rest in another block.
    let last = more.split_off(21 * 24);
    more.push(1);
    let archive = TarArchive::default()
        .member_with(b'S', b"gnu", b"", &[], |header| {
            header[257..265].copy_from_slice(b"ustar  \0");
            header[386..482].copy_from_slice(ranges.concat().as_bytes());
            header[482] = 1;
            header[124..135].copy_from_slice(b"00000000036");
            header[483..494].copy_from_slice(format!("{:011o}", 30_000).as_bytes());
        })
        .bytes(&more)
        .bytes(&last)
        .bytes(&content)
        .file("last")
        .finish();
    let members = read(archive).unwrap();
    assert_eq!(names(&members), ["gnu", "last"]);
    let Kind::File(found) = &members[0].kind else {
        panic!("{members:?}");
    };
    let expected: Vec<_> = (0..30)
        .map(|number| number * 1000..number * 1000 + 1)
        .collect();
    assert_eq!(found.stored.as_deref(), Some(&*expected));
}

#[test]
fn archives_begin_and_end_as_such() {
    for (beginning, name) in [
        (&b"\x1f\x8b\x08\0"[..], "gzip"),
        (b"\x28\xb5\x2f\xfd\0", "zstd"),
        (b"\xfd7zXZ\0\0", "xz"),
        (b"BZh9", "bzip2"),
    ] {
        let error = read(beginning.to_vec()).unwrap_err();
        assert!(
            matches!(error, Error::Compressed(found) if found.name() == name),
            "{error}"
        );
    }
    for bytes in [vec![], vec![0; 511], vec![1; 5000], b"text".repeat(1000)] {
        assert!(matches!(read(bytes), Err(Error::NotAnArchive)));
    }
    assert!(read(vec![0; 512]).unwrap().is_empty());
    let archive = TarArchive::default().member(b'0', b"a", b"", b"content");
    let whole = archive.clone().finish();
    assert_eq!(read(whole.clone()).unwrap().len(), 1);
    for len in [512, 513, 1000, 1024, 1025] {
        assert_eq!(defect(whole[..len].to_vec()), Defect::Truncated, "{len}");
    }
    assert_eq!(read(whole[..1536].to_vec()).unwrap().len(), 1);
    let behind = [whole.clone(), archive.clone().finish()].concat();
    assert_eq!(defect(behind), Defect::BehindEnd);
    assert_eq!(
        defect(archive.clone().bytes(b"text").finish()),
        Defect::Checksum
    );
    let records = archive.records(&[("path", b"b")]);
    assert_eq!(defect(records.finish()), Defect::Truncated);
}

/// Archivers differ in which of two names counts, and in whether content follows a hard link.
#[test]
fn what_gives_a_name_or_content_twice_is_refused() {
    let archive = TarArchive::default;
    let long = |archive: TarArchive| archive.member(b'L', b"long", b"", b"gnu-name\0");
    let target = |archive: TarArchive| archive.member(b'K', b"long", b"", b"a\0");
    let path = [("path", &b"pax-name"[..])];
    let sparse = [("GNU.sparse.name", &b"sparse-name"[..]), path[0]];
    let holes = [
        ("GNU.sparse.size", &b"5"[..]),
        ("GNU.sparse.map", b"0,0"),
        sparse[0],
        sparse[1],
    ];
    let link = [("linkpath", &b"b"[..])];
    let with_size = |header: &mut [u8; 512]| header[134] = b'5';
    for (archive, expected) in [
        (long(archive()).records(&path).file("a"), Defect::TwoNames),
        (long(archive().records(&path)).file("a"), Defect::TwoNames),
        (
            target(archive())
                .records(&link)
                .member(b'2', b"a", b"c", b""),
            Defect::TwoNames,
        ),
        (
            target(archive().records(&link)).member(b'1', b"a", b"c", b""),
            Defect::TwoNames,
        ),
        (archive().records(&sparse).file("a"), Defect::TwoNames),
        (archive().records(&holes).file("a"), Defect::TwoNames),
        (archive().records(&sparse[..1]).file("a"), Defect::Map),
        (
            archive()
                .records(&[("GNU.sparse.size", b"0"), ("GNU.sparse.map", b"0,0")])
                .member(b'5', b"a", b"", b""),
            Defect::Map,
        ),
        (
            archive()
                .records(&[holes[0], holes[1], ("size", b"0")])
                .member_with(b'0', b"a", b"", b"", with_size),
            Defect::Map,
        ),
        (
            archive()
                .records(&holes[..2])
                .member_with(b'0', b"a", b"", b"", |header| header[257] = 0),
            Defect::Map,
        ),
        (
            archive().member_with(b'1', b"a", b"b", b"", with_size),
            Defect::Content,
        ),
        (
            archive()
                .records(&[("size", b"5")])
                .member(b'1', b"a", b"b", b""),
            Defect::Content,
        ),
    ] {
        assert_eq!(defect(archive.finish()), expected);
    }
    // Nothing follows in the older formats, whatever the size.
    let older = archive().member_with(b'1', b"a", b"b", b"", |header| {
        with_size(header);
        header[257..265].copy_from_slice(b"ustar  \0");
    });
    assert_eq!(names(&read(older.file("c").finish()).unwrap()), ["a", "c"]);
}

/// Nothing of such a header is kept: neither memory nor time grows with their number.
#[test]
fn headers_for_all_members_say_nothing_of_them() {
    let archive = |record: Vec<u8>| {
        let archive = TarArchive::default().member(b'g', b"all", b"", &record);
        archive.file("a").finish()
    };
    let comment = pax_record(b"comment", &[b'c'; 100_000]);
    assert_eq!(names(&read(archive(comment)).unwrap()), ["a"]);
    for key in [&b"mtime"[..], b"gid", b"SCHILY.xattr.user.x"] {
        let expected = Defect::Global(key.into());
        assert_eq!(defect(archive(pax_record(key, b"1"))), expected);
    }
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    let archive = TarArchive::default;
    let wrong = [
        (
            archive().member(b'5', b"dir", b"", b"content"),
            Defect::Content,
        ),
        (
            archive().member(b'2', b"link", b"to", b"content"),
            Defect::Content,
        ),
        (
            archive().member(0, b"dir/", b"", b"content"),
            Defect::Content,
        ),
        (archive().member(b'0', b"dir/", b"", b""), Defect::Slash),
        (archive().member(b'7', b"file/", b"", b""), Defect::Slash),
        (
            archive()
                .records(&[("path", b"file")])
                .member(0, b"dir/", b"", b""),
            Defect::Slash,
        ),
        (
            archive().member_with(b'0', b"file", b"", b"", |header| {
                header[257..265].copy_from_slice(b"ustar  \0");
                header[345] = b'p';
            }),
            Defect::Prefix,
        ),
        (
            archive()
                .records(&[("SCHILY.realsize", b"5")])
                .member(b'0', b"a", b"", b"content"),
            Defect::RealSize,
        ),
        (
            archive()
                .records(&[("uid", b"5")])
                .member(b'g', b"all", b"", &pax_record(b"comment", b"c"))
                .file("a"),
            Defect::GlobalBehind,
        ),
        (archive().member(b'2', b"link", b"", b""), Defect::Target),
        (archive().member(b'1', b"link", b"", b""), Defect::Target),
        (archive().member(b'0', b"", b"", b""), Defect::Name),
        (
            archive().records(&[("path", b"a\0b")]).file("a"),
            Defect::Name,
        ),
        (archive().records(&[("path", b"")]).file("a"), Defect::Name),
        (archive().member(b'M', b"a", b"", b""), Defect::Type(b'M')),
        (archive().member(b'V', b"a", b"", b""), Defect::Type(b'V')),
        (archive().member(b'D', b"a", b"", b""), Defect::Type(b'D')),
        (archive().member(b'S', b"a", b"", b""), Defect::Type(b'S')),
        (
            archive().records(&[]).records(&[]).file("a"),
            Defect::Repeated,
        ),
        (
            archive().member(b'x', b"x", b"", b"no records").file("a"),
            Defect::Records,
        ),
    ];
    for (archive, expected) in wrong {
        assert_eq!(defect(archive.finish()), expected);
    }
    let field = |at: usize, value: &'static [u8]| {
        let change = move |header: &mut [u8; 512]| {
            header[at..at + value.len()].copy_from_slice(value);
        };
        defect(archive().member_with(b'3', b"a", b"", b"", change).finish())
    };
    assert_eq!(field(100, b"rw-r--r"), Defect::Number("mode"));
    assert_eq!(field(108, b"\x80\0\0\x01\0\0\0\0"), Defect::Number("owner"));
    assert_eq!(
        field(116, b"\x80\0\0\0\xff\xff\xff\xff"),
        Defect::Number("group")
    );
    assert_eq!(
        field(124, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        Defect::Number("size")
    );
    assert_eq!(field(329, b"0010000"), Defect::Number("device"));
}

#[test]
fn absurd_sizes_cost_nothing() {
    let huge = |type_flag| {
        let archive = TarArchive::default().member_with(type_flag, b"a", b"", b"", |header| {
            header[124..136].copy_from_slice(b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff");
        });
        defect(archive.finish())
    };
    assert_eq!(huge(b'0'), Defect::Truncated);
    assert_eq!(huge(b'x'), Defect::ExtensionLength);
    assert_eq!(huge(b'L'), Defect::ExtensionLength);
    let records = TarArchive::default().records(&[("size", b"18446744073709551615")]);
    assert_eq!(defect(records.file("a").finish()), Defect::Truncated);
    let mut map = b"18446744073709551615\n0\n0\n".to_vec();
    map.resize(512, b'0');
    let version = [
        ("GNU.sparse.major", &b"1"[..]),
        ("GNU.sparse.realsize", b"9"),
    ];
    let archive = TarArchive::default().records(&version);
    assert_eq!(
        defect(archive.member(b'0', b"a", b"", &map).finish()),
        Defect::Map
    );
}
