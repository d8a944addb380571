//! What an image costs is bounded by what is read of it, however it is made: counted in steps, not in time.

use std::{ops::ControlFlow, thread};

use verimount_erofs::{ErofsTree, Work};
use verimount_source::Scratch;
use verimount_testkit::{
    Random, random_cases,
    seen::{content, data_ranges},
};
use verimount_tree::{Attr, Error, ExtentKind, NodeId, Tree, seek};

use crate::{
    craft::{Builder, CHUNKS, FILE, Inode},
    open,
};

/// The blocks of the images, and the logical clusters of their files, in bytes: the smallest.
const BLOCK: u64 = 512;

/// The layout of a compressed file with a full index, or a list of extents.
const COMPRESSED: u16 = 1;

/// The layout of a compressed file with a compact index.
const COMPACT: u16 = 3;

/// What `mount` reads at a time, in bytes.
const READ: usize = 128 << 10;

/// Instead of an index, there is a list of extents.
const EXTENTS: u16 = 1;

/// The algorithm LZ4 in the length of an extent.
const LZ4: u32 = 1 << 28;

/// How much is known of each extent in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Len,
    Place,
    Offset,
    WideOffset,
}

impl Form {
    const ALL: [Self; 4] = [Self::Len, Self::Place, Self::Offset, Self::WideOffset];
}

/// What is in front of the records of a map.
fn map_header(detail: u32, advice: u16) -> Vec<u8> {
    let mut bytes = detail.to_le_bytes().to_vec();
    bytes.extend(advice.to_le_bytes());
    bytes.extend([0, 0]);
    bytes
}

/// The map of a file in extents of this size, which begins 64 bytes behind the beginning of a block. The data of the extents has
/// these lengths, and follows each other from byte `data` on.
fn list(form: Form, extent: u64, lens: &[u32], data: u64) -> Vec<u8> {
    let mut bytes = map_header(lens.len() as u32, EXTENTS | (form as u16) << 1);
    let record = 4 << form as usize;
    bytes.resize((64 + bytes.len()).next_multiple_of(record) - 64, 0);
    if form == Form::Len {
        bytes.extend(data.to_le_bytes());
    }
    let mut at = data;
    for (number, len) in lens.iter().enumerate() {
        let start = number as u64 * extent;
        let words = [*len, at as u32, (at >> 32) as u32, start as u32];
        let words = words.map(u32::to_le_bytes).concat();
        bytes.extend(&words[..record.min(words.len())]);
        if form == Form::WideOffset {
            bytes.extend((start >> 32).to_le_bytes());
            bytes.extend([0; 8]);
        }
        at += u64::from(*len & !LZ4);
    }
    bytes
}

/// The file of an image of one.
fn only_file(tree: &ErofsTree) -> Attr {
    tree.lookup(NodeId::ROOT, "file".as_ref()).unwrap()
}

/// An image of one file with this map, whose content has this size.
fn image_of(mut builder: Builder, behind: Vec<u8>, size: u64) -> (ErofsTree, Attr) {
    let nid = builder.inode(&Inode {
        layout: COMPRESSED,
        size,
        behind,
        ..Inode::default()
    });
    let tree = open(builder.finish(&[(b"file", nid, FILE)])).unwrap();
    let attr = only_file(&tree);
    (tree, attr)
}

/// An image of one file with a list of extents, of which every third is stored as it is and the others are holes; and its
/// content.
fn listed(form: Form, extents: usize) -> (ErofsTree, Attr, Vec<u8>) {
    let is_data = |number: &usize| number.is_multiple_of(3);
    let block = |number: usize| {
        if is_data(&number) {
            [number as u8 | 1; BLOCK as usize]
        } else {
            [0; BLOCK as usize]
        }
    };
    let lens: Vec<u32> = (0..extents)
        .map(|number| u32::from(is_data(&number)) * BLOCK as u32)
        .collect();
    let mut builder = Builder::new(9);
    let data: Vec<u8> = (0..extents).filter(is_data).flat_map(block).collect();
    let first = builder.blocks(&data);
    let map = list(form, BLOCK, &lens, u64::from(first) * BLOCK);
    let (tree, attr) = image_of(builder, map, extents as u64 * BLOCK);
    (tree, attr, (0..extents).flat_map(block).collect())
}

/// How many records may be looked at for each extent that a read touches.
fn most_for_each(records: usize) -> u64 {
    64 + 4 * u64::from(records.ilog2())
}

/// What `use_it` takes.
fn taken<T>(tree: &ErofsTree, use_it: impl FnOnce() -> T) -> (T, Work) {
    let before = tree.work();
    let result = use_it();
    let mut work = tree.work();
    work.records -= before.records;
    work.clusters -= before.clusters;
    (result, work)
}

#[test]
fn a_read_looks_at_few_records_for_each_extent() {
    const COUNT: usize = 60_000;
    for form in Form::ALL {
        let (tree, attr, expected) = listed(form, COUNT);
        let mut scratch = Scratch::default();
        let end = expected.len() - 1;
        // Where the data of the last extent is, all records in front of it tell: once.
        let (_, work) = taken(&tree, || {
            tree.read(attr.node, end as u64, 1, &mut scratch)
                .map(<[u8]>::len)
        });
        assert!(
            work.records <= COUNT as u64 + most_for_each(COUNT),
            "{form:?}"
        );
        let mut random = Random::new(1);
        for _ in 0..200 {
            let (start, len) = (random.below(end), 1 + random.below(READ));
            let (read, work) = taken(&tree, || {
                let read = tree.read(attr.node, start as u64, len, &mut scratch);
                read.unwrap().to_vec()
            });
            assert_eq!(read, expected[start..expected.len().min(start + len)]);
            let block = BLOCK as usize;
            let touched = (start + read.len()).div_ceil(block) - start / block;
            let most = (touched as u64 + 1) * most_for_each(COUNT);
            assert!(work.records <= most, "{form:?} {start} {len}: {work:?}");
        }
    }
}

/// The bytes of a block as LZ4 stores them without compressing them.
fn literals(content: &[u8]) -> Vec<u8> {
    let more = content.len() - 15;
    let mut bytes = vec![0xf0];
    bytes.extend(vec![255; more / 255]);
    bytes.push((more % 255) as u8);
    bytes.extend(content);
    bytes
}

#[test]
fn a_read_decompresses_each_extent_once() {
    const COUNT: usize = 3000;
    let block = |number: usize| [number as u8; BLOCK as usize];
    let clusters: Vec<_> = (0..COUNT).map(|number| literals(&block(number))).collect();
    let expected: Vec<u8> = (0..COUNT).flat_map(block).collect();
    let lens: Vec<_> = clusters
        .iter()
        .map(|bytes| LZ4 | bytes.len() as u32)
        .collect();
    for form in Form::ALL {
        let mut builder = Builder::new(9);
        let first = builder.blocks(&clusters.concat());
        let map = list(form, BLOCK, &lens, u64::from(first) * BLOCK);
        let (tree, attr) = image_of(builder, map, COUNT as u64 * BLOCK);
        let mut scratch = Scratch::default();
        for (start, len) in [
            (0, expected.len()),
            (100, 3),
            (BLOCK as usize - 1, 2),
            (777, READ),
        ] {
            let (_, work) = taken(&tree, || {
                let read = tree.read(attr.node, start as u64, len, &mut scratch);
                assert!(read.unwrap() == &expected[start..start + len]);
            });
            let block = BLOCK as usize;
            let touched = (start + len).div_ceil(block) - start / block;
            assert!(
                work.clusters <= touched as u64,
                "{form:?} {start} {len}: {work:?}"
            );
        }
    }
}

/// Extents of a single byte each, in one cluster of 1 MiB.
#[test]
fn a_read_takes_a_bounded_number_of_bytes_of_clusters() {
    const STORED: usize = 1 << 20;
    const COUNT: usize = 4000;
    let cluster = literals(&vec![7; STORED - 5000]);
    let mut builder = Builder::new(9);
    let mut stored = vec![0; STORED];
    stored[..cluster.len()].copy_from_slice(&cluster);
    let first = builder.blocks(&stored);
    let of_extent = |extent: u64| {
        let mut map = list(Form::Offset, extent, &vec![0; COUNT], 0);
        for record in map[16..].chunks_exact_mut(16) {
            record[..4].copy_from_slice(&(LZ4 | STORED as u32).to_le_bytes());
            record[4..8].copy_from_slice(&(first * BLOCK as u32).to_le_bytes());
        }
        map
    };
    let mut scratch = Scratch::default();
    let (tree, attr) = image_of(builder.clone(), of_extent(1), COUNT as u64);
    let (read, work) = taken(&tree, || {
        let read = tree.read(attr.node, 0, COUNT, &mut scratch);
        read.map(<[u8]>::len)
    });
    assert!(matches!(read, Err(Error::Unsupported(_))), "{read:?}");
    assert!(work.clusters <= 1 + 16, "{work:?}");
    // As many as an image may have for some reason.
    let size = COUNT * 4096;
    let (tree, attr) = image_of(builder, of_extent(4096), size as u64);
    for offset in (0..size).step_by(size / 5) {
        let read = tree.read(attr.node, offset as u64, READ, &mut scratch);
        assert_eq!(read.unwrap(), [7; READ]);
    }
}

/// What `extract`, `verify` and readers that look for holes do with a file.
#[test]
fn all_of_a_file_takes_a_bounded_number_of_steps_for_each_record() {
    const COUNT: usize = 30_000;
    for form in Form::ALL {
        let (tree, attr, expected) = listed(form, COUNT);
        let most = COUNT as u64 * most_for_each(COUNT);
        for piece in [4096, READ, expected.len()] {
            let (found, work) = taken(&tree, || content(&tree, &attr, piece).unwrap());
            assert!(found == expected, "{form:?} {piece}");
            assert!(work.records <= most, "{form:?} {piece}: {work:?}");
        }
        let (ranges, work) = taken(&tree, || data_ranges(&tree, "file"));
        assert_eq!(ranges.len(), COUNT / 3);
        assert!(work.records <= 3 * most, "{form:?}: {work:?}");
        let mut places = 0;
        let (walked, work) = taken(&tree, || {
            tree.walk_places(&mut |found| {
                found.unwrap();
                places += 1;
                ControlFlow::Continue(())
            })
        });
        assert!(walked.is_continue() && places > COUNT);
        assert!(work.records <= most, "{form:?}: {work:?}");
    }
}

/// A search for a hole or for data goes on only for so long, and then tells what is right anyway.
#[test]
fn a_search_for_data_ends_in_a_file_of_more_holes_than_it_passes() {
    const PASSED: u64 = 1 << 22;
    const CHUNKS_OF_FILE: u64 = PASSED + 1000;
    let mut builder = Builder::new(9);
    let nid = builder.inode(&Inode {
        layout: CHUNKS,
        size: CHUNKS_OF_FILE * BLOCK,
        // Records of all ones are those of holes.
        behind: vec![0xff; 4 * CHUNKS_OF_FILE as usize],
        ..Inode::default()
    });
    let tree = open(builder.finish(&[(b"file", nid, FILE)])).unwrap();
    let node = only_file(&tree).node;
    let (found, work) = taken(&tree, || seek(&tree, node, ExtentKind::Data, 0).unwrap());
    assert_eq!((found, work.records), (PASSED * BLOCK, PASSED));
    let end = seek(&tree, node, ExtentKind::Data, found);
    assert!(matches!(end, Err(Error::PastEnd)));
}

/// A record of a full index that says how far the beginnings of its extent and of the next one are.
fn following(back: u16, forward: u16) -> [u8; 8] {
    let [back, forward] = [back, forward].map(u16::to_le_bytes);
    [2, 0, 0, 0, back[0], back[1], forward[0], forward[1]]
}

/// A record of a full index that says that an extent begins, which is compressed and stored in this block.
fn head(block: u32) -> [u8; 8] {
    let block = block.to_le_bytes();
    [1, 0, 0, 0, block[0], block[1], block[2], block[3]]
}

/// As many equal bytes, compressed.
fn equal(byte: u8, len: usize) -> Vec<u8> {
    // One, then repetitions of it, then five more, as LZ4 demands at the end.
    let more = len - 1 - 5 - 4 - 15;
    let mut bytes = vec![0x1f, byte, 1, 0];
    bytes.extend(vec![255; more / 255]);
    bytes.push((more % 255) as u8);
    bytes.push(0x50);
    bytes.extend([byte; 5]);
    bytes
}

/// A file of a single extent, whose records but the first are those that `record` makes of their numbers.
fn one_extent(blocks: u16, record: impl Fn(u16) -> [u8; 8]) -> (ErofsTree, Attr) {
    let mut builder = Builder::new(9);
    let first = builder.blocks(&equal(7, usize::from(blocks) * BLOCK as usize));
    let mut behind = map_header(0, 0);
    behind.extend([0; 8]);
    behind.extend(head(first));
    behind.extend((1..blocks).flat_map(record));
    image_of(builder, behind, u64::from(blocks) * BLOCK)
}

/// Programs tell how far away extents begin; the oldest ones only how far behind.
#[test]
fn the_beginnings_of_extents_are_found_in_few_steps() {
    const BLOCKS: u16 = 240;
    let new = |number| following(number, BLOCKS - number);
    let old = |number| following(number, 0);
    let one_by_one = |number: u16| following(1, number.min(1));
    for (tree, attr) in [
        one_extent(BLOCKS, new),
        one_extent(BLOCKS, old),
        one_extent(BLOCKS, one_by_one),
    ] {
        let found = content(&tree, &attr, 1 << 20).unwrap();
        assert!(found == vec![7; usize::from(BLOCKS) * BLOCK as usize]);
    }
    // So long an extent is refused: no program makes its map like this.
    let (tree, attr) = one_extent(20_000, one_by_one);
    for offset in [0, attr.size / 2, attr.size - 1] {
        let (read, work) = taken(&tree, || {
            let mut scratch = Scratch::default();
            tree.read(attr.node, offset, 1, &mut scratch)
                .map(<[u8]>::len)
        });
        let reason = match read {
            Err(error @ Error::Corrupt(_)) => error.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(reason.contains("too many steps"), "{reason}");
        assert!(work.records <= 1 + 256, "{work:?}");
    }
}

/// A map of a file of some blocks, which begins 64 bytes behind the beginning of a block.
struct AnyMap {
    layout: u16,
    bytes: Vec<u8>,
    size: u64,
    /// How many records it has.
    records: usize,
    /// How many extents begin in a part of the file of this many bytes, at most.
    extents_in: fn(usize) -> usize,
    /// How many records may be looked at for an extent.
    most: u64,
}

impl AnyMap {
    /// A right one or nonsense in any form, of data that [`any_data`] has put at byte `data` of the image.
    fn random(random: &mut Random, data: u64) -> Self {
        let records = 1 + random.below(MAX_RECORDS);
        let is_right = random.coin();
        match random.below(6) {
            form @ 0..4 => Self::list(random, Form::ALL[form], is_right, records, data),
            4 => {
                let mut bytes = map_header(0, 0);
                bytes.extend([0; 8]);
                bytes.extend(full_index(random, is_right, records, data));
                Self::index(COMPRESSED, bytes, records)
            }
            _ => {
                let advice = random.choose(&[0, 1 << 1 | 1 << 2, 1 << 4]);
                let mut bytes = map_header(0, advice);
                bytes.extend((0..records).flat_map(|_| (random.number() as u32).to_le_bytes()));
                Self::index(COMPACT, bytes, records)
            }
        }
    }

    fn list(random: &mut Random, form: Form, is_right: bool, records: usize, data: u64) -> Self {
        let has_offsets = matches!(form, Form::Offset | Form::WideOffset);
        let extent = if has_offsets {
            1 + random.below(BLOCK as usize) as u64
        } else {
            BLOCK
        };
        let stored = random.choose(&[BLOCK as u32, LZ4 | CLUSTER as u32]);
        let len = |_| match random.below(10) {
            0 if !is_right => random.number() as u32,
            0..3 => 0,
            _ => stored,
        };
        let lens: Vec<u32> = (0..records).map(len).collect();
        let data = data + BLOCK;
        Self {
            layout: COMPRESSED,
            bytes: list(form, extent, &lens, data),
            size: records as u64 * extent,
            records,
            extents_in: if has_offsets { |len| len } else { in_clusters },
            most: most_for_each(records),
        }
    }

    fn index(layout: u16, bytes: Vec<u8>, records: usize) -> Self {
        Self {
            layout,
            bytes,
            size: records as u64 * BLOCK,
            records,
            extents_in: in_clusters,
            most: 2 * (256 + 2),
        }
    }
}

/// The most records of any map.
const MAX_RECORDS: usize = 1000;

/// The length of a block that is stored as LZ4 without being compressed.
const CLUSTER: usize = BLOCK as usize + 3;

/// What maps are of: a block that is decompressed to very many bytes, and as many clusters as maps have records.
fn any_data() -> Vec<u8> {
    let mut data = equal(7, 120_000);
    data.resize(BLOCK as usize, 0);
    data.extend(literals(&[7; BLOCK as usize]).repeat(MAX_RECORDS));
    data
}

/// How many extents there are in so many bytes, if no two begin in the same logical cluster.
fn in_clusters(len: usize) -> usize {
    len / BLOCK as usize + 2
}

/// The records of a full index, whose extents all begin with the same data.
fn full_index(random: &mut Random, is_right: bool, records: usize, data: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < 8 * records {
        let extent = 1 + random.below(200) as u16;
        bytes.extend(head((data / BLOCK) as u32));
        let knows_next = random.coin();
        for number in 1..extent {
            let forward = if knows_next { extent - number } else { 0 };
            bytes.extend(if is_right || random.below(10) > 0 {
                following(number, forward)
            } else {
                random.number().to_le_bytes()
            });
        }
    }
    bytes.truncate(8 * records);
    bytes
}

/// Maps of all forms, right and wrong: whatever comes of it, each use of a file ends soon.
#[test]
fn any_map_takes_a_bounded_number_of_steps() {
    let data = any_data();
    // How many reads succeed, and how many fail.
    let mut ended = [0_u32; 2];
    for seed in 0..random_cases(1000) {
        let mut random = Random::new(seed.into());
        let mut builder = Builder::new(9);
        let first = builder.blocks(&data);
        let map = AnyMap::random(&mut random, u64::from(first) * BLOCK);
        let nid = builder.inode(&Inode {
            layout: map.layout,
            size: map.size,
            behind: map.bytes,
            ..Inode::default()
        });
        let tree = open(builder.finish(&[(b"file", nid, FILE)])).unwrap();
        let node = only_file(&tree).node;
        let mut scratch = Scratch::default();
        for _ in 0..20 {
            let start = random.below(map.size as usize);
            let len = 1 + random.below(READ);
            let (read, work) = taken(&tree, || {
                tree.read(node, start as u64, len, &mut scratch)
                    .map(<[u8]>::len)
            });
            ended[usize::from(read.is_err())] += 1;
            let touched = (map.extents_in)(len).min(map.records);
            // Each is looked for where one is read, and where the one before ends. Lengths are added once.
            let most = map.records as u64 + 2 * (touched as u64 + 1) * map.most;
            assert!(work.records <= most, "{seed} {start} {len}: {work:?}");
            assert!(
                work.clusters <= touched as u64 + 1,
                "{seed} {start} {len}: {work:?}"
            );
        }
        let mut places = 0;
        let (_, work) = taken(&tree, || {
            tree.walk_places(&mut |_| {
                places += 1;
                ControlFlow::Continue(())
            })
        });
        let most = map.records as u64 + 2 * (places + 1) * map.most;
        assert!(work.records <= most, "{seed}: {work:?}");
    }
    assert!(ended.iter().all(|count| *count > 500), "{ended:?}");
}

/// Five of the largest extents, of 12 MiB each, nearly use up what is kept. Each is decompressed once, however many read them at
/// a time; and as many as there are processors do.
#[test]
fn the_largest_extents_are_kept_however_many_readers_there_are() {
    const EXTENT: usize = 12 << 20;
    const COUNT: usize = 5;
    let clusters: Vec<_> = (0..COUNT)
        .map(|number| equal(number as u8, EXTENT))
        .collect();
    let lens: Vec<_> = clusters
        .iter()
        .map(|bytes| LZ4 | bytes.len() as u32)
        .collect();
    for readers in [2, 8, 32, 64] {
        let mut builder = Builder::new(9);
        let first = builder.blocks(&clusters.concat());
        let map = list(Form::Offset, EXTENT as u64, &lens, u64::from(first) * BLOCK);
        let (tree, attr) = image_of(builder, map, (COUNT * EXTENT) as u64);
        thread::scope(|scope| {
            for reader in 0..readers {
                let (tree, node) = (&tree, attr.node);
                scope.spawn(move || {
                    let mut random = Random::new(reader);
                    let mut scratch = Scratch::default();
                    for _ in 0..50 {
                        let extent = random.below(COUNT);
                        let at = extent * EXTENT + random.below(EXTENT - 4096);
                        let read = tree.read(node, at as u64, 4096, &mut scratch);
                        assert_eq!(read.unwrap(), [extent as u8; 4096]);
                    }
                });
            }
        });
        assert!(tree.work().clusters <= COUNT as u64, "{readers}");
    }
}
