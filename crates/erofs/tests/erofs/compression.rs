//! Compressed images show the tree that they were made of, whatever compresses well in it and what does not, and do not
//! depend on the number of threads.

use std::{
    fs::{self, File},
    io::Cursor,
    iter,
    mem::MaybeUninit,
    num::NonZeroUsize,
    ops::ControlFlow,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use arbtest::arbitrary::{self, Unstructured};
use rustix::{
    fs::{
        XattrFlags,
        inotify::{self, CreateFlags, ReadFlags, WatchFlags},
        setxattr,
    },
    io::Errno,
};
use tempfile::TempDir;
use verimount_erofs::{Compression, Options, Plan, plan};
use verimount_scan::{BuildError, Error as ScanError, Options as ScanOptions, scan};
use verimount_testkit::{
    cases,
    directory::{compare, make_tree},
    go_on, is_exhaustive, noise, random_cases,
    seen::check_lookups,
    several, weighted,
};

use crate::open;

fn compression(codec: &str, cluster: u64) -> Compression {
    Compression {
        codec: codec.parse().unwrap(),
        cluster: cluster.try_into().unwrap(),
    }
}

fn plan_of(root: &Path, codec: &str, cluster: u64, block_size: u64) -> Plan {
    let options = Options {
        block_size: block_size.try_into().unwrap(),
        compression: Some(compression(codec, cluster)),
        ..Options::default()
    };
    planned(root, &options).unwrap()
}

fn planned(root: &Path, options: &Options) -> Result<Plan, BuildError> {
    plan(
        scan(root, &ScanOptions::default(), &mut go_on)?,
        options,
        &mut go_on,
    )
}

fn written(plan: &Plan, threads: usize) -> Vec<u8> {
    let mut image = Cursor::new(Vec::new());
    let mut done = 0;
    let go_on = &mut |bytes| {
        done += bytes;
        ControlFlow::Continue(())
    };
    let threads = NonZeroUsize::new(threads).unwrap();
    plan.write_to(&mut image, threads, go_on).unwrap();
    let image = image.into_inner();
    assert!(image.len() as u64 <= plan.image_size());
    // What progress is told ends where it should.
    assert_eq!(done, plan.image_size());
    image
}

fn text(len: usize) -> Vec<u8> {
    let lines = (0_u32..).flat_map(|number| format!("line {number} of a text\n").into_bytes());
    lines.take(len).collect()
}

/// A part of a content.
fn part(u: &mut Unstructured<'_>) -> arbitrary::Result<Vec<u8>> {
    let len = part_len(u)?;
    Ok(match u.int_in_range(0..=2)? {
        0 => noise(len, u.int_in_range(0..=2)?),
        1 => vec![0; len],
        _ => text(len),
    })
}

/// Lengths around blocks and clusters, and any others.
fn part_len(u: &mut Unstructured<'_>) -> arbitrary::Result<usize> {
    const BOUNDS: [usize; 7] = [512, 4096, 8192, 16_384, 65_536, 131_072, 1 << 20];
    weighted(
        u,
        &[
            (3, &|u| Ok(u.choose(&BOUNDS)? + u.int_in_range(0..=4)? - 2)),
            (2, &|u| u.int_in_range(0..=19_999)),
            (1, &|u| u.int_in_range(0..=1_499_999)),
        ],
    )
}

#[test]
fn contents_come_back() {
    const CODECS: [&str; 6] = ["lz4", "lz4,3", "lz4,12", "zstd", "zstd,1", "zstd,12"];
    cases(random_cases(32), 128, |u| {
        let codec = u.choose(&CODECS)?;
        let (cluster, block) = (1 << u.int_in_range(9..=20)?, 1 << u.int_in_range(9..=14)?);
        let folder = tempfile::tempdir().unwrap();
        for (number, parts) in several(u, 1..=5, |u| several(u, 1..=3, part))?
            .iter()
            .enumerate()
        {
            fs::write(folder.path().join(number.to_string()), parts.concat()).unwrap();
        }
        let plan = plan_of(folder.path(), codec, cluster, block);
        let image = written(&plan, 1);
        assert!(written(&plan, 3) == image);
        compare(&open(image).unwrap(), folder.path(), true);
        Ok(())
    });
}

#[test]
fn all_kinds_of_files_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    make_tree(folder.path());
    for (codec, cluster) in [("lz4", 4096), ("lz4,9", 65_536), ("zstd", 16_384)] {
        let image = written(&plan_of(folder.path(), codec, cluster, 4096), 2);
        let tree = open(image).unwrap();
        compare(&tree, folder.path(), true);
        check_lookups(&tree);
    }
}

/// A tree of a single file.
fn one_file(content: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, content).unwrap();
    (folder, file)
}

#[test]
fn text_takes_less_space() {
    let size = if is_exhaustive() { 4 << 20 } else { 1 << 20 };
    let (folder, _) = one_file(&text(size));
    let len = |codec, cluster| written(&plan_of(folder.path(), codec, cluster, 4096), 2).len();
    let fast = len("lz4", 4096);
    let slow = len("lz4,12", 4096);
    let large = len("lz4,12", 65_536);
    let best = len("zstd", 65_536);
    assert!(fast < size / 2, "{fast}");
    assert!(slow < fast, "{slow} {fast}");
    assert!(large < slow, "{large} {slow}");
    assert!(best < large / 2, "{best} {large}");
    assert!(len("zstd,19", 65_536) < best, "{best}");
}

#[test]
fn what_cannot_be_compressed_is_stored_as_it_is() {
    let content = noise(3 << 20, 1);
    let (folder, _) = one_file(&content);
    let image = written(&plan_of(folder.path(), "zstd", 65_536, 4096), 2);
    assert_eq!(image.len(), content.len() + 4096);
    assert!(image.ends_with(&content));
}

#[test]
fn equal_contents_are_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let content = [text(300_000), noise(300_000, 1)].concat();
    for name in ["a", "b", "c", "d"] {
        fs::write(path(name), &content).unwrap();
    }
    let one = {
        let (folder, _) = one_file(&content);
        written(&plan_of(folder.path(), "lz4", 65_536, 4096), 1).len()
    };
    let image = written(&plan_of(folder.path(), "lz4", 65_536, 4096), 2);
    assert!(image.len() <= one + 4096, "{}", image.len());
    compare(&open(image).unwrap(), folder.path(), true);
    // An attribute that moves the index has it differ, unless the file system has no attributes.
    if setxattr(path("c"), "user.a", b"value", XattrFlags::empty()).is_ok() {
        let image = written(&plan_of(folder.path(), "lz4", 65_536, 4096), 2);
        assert!(image.len() > one + 4096, "{}", image.len());
        compare(&open(image).unwrap(), folder.path(), true);
    }
}

/// How often a file is opened while `work` is done.
fn times_opened(file: &Path, work: impl FnOnce()) -> usize {
    let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    // Two equal events in a row would be one.
    let flags = WatchFlags::OPEN | WatchFlags::CLOSE_NOWRITE;
    inotify::add_watch(&watch, file, flags).unwrap();
    work();
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&watch, &mut buffer);
    let events = iter::from_fn(|| match events.next() {
        Ok(event) => Some(event.events()),
        Err(Errno::AGAIN) => None,
        Err(errno) => panic!("{errno}"),
    });
    let opened = events.filter(|events| events.contains(ReadFlags::OPEN));
    opened.count()
}

/// Opening a file of an archive takes as long as it has ranges.
#[test]
fn a_file_of_many_pieces_is_opened_once() {
    let (folder, file) = one_file(&text(5 << 20));
    let plan = plan_of(folder.path(), "lz4", 65_536, 4096);
    assert_eq!(times_opened(&file, || drop(written(&plan, 1))), 1);

    let (folder, file) = one_file(b"");
    let sparse = File::create(&file).unwrap();
    sparse.set_len(8 << 20).unwrap();
    for start in (0..8 << 20).step_by(128 << 10) {
        sparse.write_all_at(&noise(4096, start), start).unwrap();
    }
    let plan = plan_of(folder.path(), "lz4", 65_536, 4096);
    assert_eq!(times_opened(&file, || drop(written(&plan, 1))), 1);
    compare(&open(written(&plan, 2)).unwrap(), folder.path(), true);
}

#[test]
fn large_blocks_are_not_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        block_size: (32 << 10).try_into().unwrap(),
        compression: Some(compression("lz4", 65_536)),
        ..Options::default()
    };
    let refused = planned(folder.path(), &options);
    assert!(matches!(refused, Err(BuildError::Format(_))));
}

#[test]
fn a_file_that_changes_fails_the_image() {
    let (folder, file) = one_file(&text(5 << 20));
    let plan = plan_of(folder.path(), "lz4", 65_536, 4096);
    fs::write(&file, text((5 << 20) + 1)).unwrap();
    let two = NonZeroUsize::new(2).unwrap();
    let mut image = Cursor::new(Vec::new());
    match plan.write_to(&mut image, two, &mut go_on) {
        Err(BuildError::Scan(ScanError::Changed { path })) => assert_eq!(path, file),
        result => panic!("{result:?}"),
    }
}

#[test]
fn compressing_can_be_cancelled() {
    let (folder, _) = one_file(&text(20 << 20));
    let plan = plan_of(folder.path(), "zstd", 65_536, 4096);
    let mut calls = 0;
    let two = NonZeroUsize::new(2).unwrap();
    let mut image = Cursor::new(Vec::new());
    let cancelled = plan.write_to(&mut image, two, &mut |_| {
        calls += 1;
        match calls {
            1 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    });
    assert!(
        matches!(cancelled, Err(BuildError::Cancelled)),
        "{cancelled:?}"
    );
    assert_eq!(calls, 2);
}
