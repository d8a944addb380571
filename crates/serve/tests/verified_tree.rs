//! A verified tree without a mount: it returns only what was stored, even if the storage changes.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    num::NonZeroUsize,
    ops::{ControlFlow, Range},
    os::unix::fs::{FileExt, symlink},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use rustix::io::Errno;
use verimount_content::{Origin, OriginStatus};
use verimount_fuse::{Caller, FileSystem, NodeId as FuseNodeId};
use verimount_mount::STATUS_XATTR;
use verimount_romfs::{BlockSize, Options, RomfsTree, VolumeName, plan};
use verimount_scan::{Options as ScanOptions, scan};
use verimount_serve::{ImageFs, ImageStatus, Kind, Served, Status, VerifiedTree};
use verimount_source::{Fetch, FileSource, ReadAt, ReadError, Scratch};
use verimount_testkit::{Flipped, all_or_some, flat_romfs, go_on, noise};
use verimount_tree::{Cursor, Error, FileType, Measurement, NodeId, SingleFile, StoredFile, Tree};
use verimount_verity::{
    Checked, FileDigest, KeyPair, PublicKey, SealLayout, Sealed, SecretKey, TreeParams, Trust,
    VerifiedReader, VerifyOptions, seal,
};

const ONE: NonZeroUsize = NonZeroUsize::MIN;

/// Type and content by path.
type Contents = BTreeMap<PathBuf, (FileType, Vec<u8>)>;

/// An image of 64 KiB.
fn image() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("a/b/empty")).unwrap();
    fs::write(path("a/first"), noise(8 * 4096, 1)).unwrap();
    fs::write(path("a/b/second"), noise(6 * 4096 - 200, 2)).unwrap();
    for number in 0..5 {
        fs::write(path(&format!("small {number}")), noise(70, 3 + number)).unwrap();
    }
    fs::write(path("nothing"), "").unwrap();
    fs::hard_link(path("a/first"), path("a/hard link")).unwrap();
    symlink("a/b/second", path("link")).unwrap();
    let options = Options {
        volume_name: VolumeName::default(),
        block_size: BlockSize::try_from(4096_u64).unwrap(),
    };
    let plan = plan(
        scan(folder.path(), &ScanOptions::default(), &mut go_on).unwrap(),
        &options,
    )
    .unwrap();
    let mut bytes = Vec::new();
    plan.write_to(&mut bytes, &mut go_on).unwrap();
    bytes
}

/// As mounts read it.
fn in_chunks(reader: Arc<VerifiedReader>) -> Checked {
    Checked::from(reader).in_chunks(ONE).read_ahead()
}

fn sealed(data: &[u8], layout: SealLayout, key: Option<&SecretKey>) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    match layout {
        SealLayout::Appended => fs::write(&path, data).unwrap(),
        SealLayout::Sidecar => fs::write(&path, []).unwrap(),
    }
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let params = TreeParams::default();
    seal(&data, &file, layout, &params, ONE, &mut go_on).unwrap();
    if let Some(key) = key {
        let source = Arc::new(FileSource::open(&path).unwrap());
        let sealed = open(data, source, layout).unwrap();
        let signature = key.sign(&sealed.file_digest()).unwrap();
        sealed.write_signature(&file, &signature).unwrap();
    }
    fs::read(path).unwrap()
}

fn open(
    data: &[u8],
    seal: Arc<dyn Fetch>,
    layout: SealLayout,
) -> Result<Sealed, verimount_verity::Error> {
    match layout {
        SealLayout::Appended => Sealed::open_appended(seal),
        SealLayout::Sidecar => Sealed::open_sidecar(Arc::new(data.to_vec()), seal),
    }
}

/// Opens a sealed image as `mount` does; `None` if it is refused.
fn mounted(sealed: &Sealed, trust: &Trust) -> Option<VerifiedTree> {
    let seal = sealed.accepted_by(trust).ok()?;
    let reader = VerifiedReader::new(seal, VerifyOptions::default()).ok()?;
    let reader = Arc::new(reader);
    let tree = RomfsTree::open(reader.clone().into()).ok()?;
    Some(VerifiedTree::new(
        Box::new(tree),
        Some(*reader.identity()),
        reader.account().clone(),
    ))
}

fn status(tree: &VerifiedTree) -> Status {
    tree.status(Served::default(), None)
}

fn image_status(tree: &VerifiedTree) -> ImageStatus {
    match status(tree).kind {
        Kind::Image(image) => image,
        other => panic!("{other:?}"),
    }
}

/// Reads everything that can be read; also returns whether anything could not be read.
fn read_all(tree: &VerifiedTree) -> (Contents, bool) {
    let mut contents = Contents::new();
    let mut refused = false;
    let mut pending = vec![(NodeId::ROOT, PathBuf::new())];
    while let Some((directory, path)) = pending.pop() {
        let mut entries = Vec::new();
        let listed = tree.list_with_attrs(directory, Cursor::START, &mut |entry, _, attr| {
            match attr {
                Some(attr) => entries.push((path.join(entry.name), *attr)),
                None => refused = true,
            }
            ControlFlow::Continue(())
        });
        refused |= listed.is_err();
        for (path, attr) in entries {
            let mut scratch = Scratch::default();
            let content = match attr.file_type {
                FileType::Directory => {
                    pending.push((attr.node, path.clone()));
                    Some(Vec::new())
                }
                FileType::Symlink => {
                    let target = tree.readlink(attr.node, &mut scratch);
                    target.ok().map(<[u8]>::to_vec)
                }
                _ => content(tree, attr.node, attr.size),
            };
            match content {
                Some(content) => drop(contents.insert(path, (attr.file_type, content))),
                None => refused = true,
            }
        }
    }
    (contents, refused)
}

fn content(tree: &VerifiedTree, node: NodeId, size: u64) -> Option<Vec<u8>> {
    let mut scratch = Scratch::default();
    let mut content = Vec::new();
    while (content.len() as u64) < size {
        let at = content.len() as u64;
        let piece = tree.read(node, at, 16 << 10, &mut scratch).ok()?;
        content.extend(piece);
    }
    Some(content)
}

/// A sealed image; any byte of the file with the seal can be changed.
struct Subject {
    data: Vec<u8>,
    layout: SealLayout,
    seal: Arc<Flipped<Vec<u8>>>,
    trust: Trust,
    expected: Contents,
}

impl Subject {
    fn new(layout: SealLayout, key: Option<&KeyPair>) -> Self {
        let data = image();
        assert_eq!(data.len(), 64 << 10, "it is what the tests are about");
        let secret = key.map(|key| SecretKey::parse(&key.secret, None).unwrap());
        let seal = Arc::new(Flipped::new(sealed(&data, layout, secret.as_ref())));
        let found = open(&data, seal.clone(), layout).unwrap();
        let trust = match key {
            Some(key) => Trust::Key(PublicKey::parse(&key.public).unwrap()),
            None => Trust::Digest(found.file_digest()),
        };
        let (expected, refused) = read_all(&mounted(&found, &trust).unwrap());
        assert!(!refused && expected.len() == 13);
        Self {
            data,
            layout,
            seal,
            trust,
            expected,
        }
    }

    /// Whether a changed byte is detected. Asserts that everything that can be read is right.
    #[track_caller]
    fn is_noticed(&self, position: u64) -> bool {
        self.seal.flip(position);
        let Ok(sealed) = open(&self.data, self.seal.clone(), self.layout) else {
            return true;
        };
        let Some(tree) = mounted(&sealed, &self.trust) else {
            return true;
        };
        let (contents, refused) = read_all(&tree);
        for (path, found) in &contents {
            assert_eq!(self.expected.get(path), Some(found), "{position}: {path:?}");
        }
        assert!(refused || contents == self.expected, "{position}");
        assert_eq!(status(&tree).mismatches > 0, refused, "{position}");
        refused
    }
}

#[test]
fn every_changed_byte_of_a_sealed_image_is_detected() {
    let subject = Subject::new(SealLayout::Appended, None);
    let descriptor = (64 << 10) + 4096;
    let unread = headers_alone(&subject.data);
    for position in all_or_some((0..subject.seal.size()).collect(), 3) {
        let noticed = subject.is_noticed(position);
        // Between the descriptor and its size at the very end is padding.
        let padding = descriptor + 256..descriptor + 4092;
        let of_no_use = padding.contains(&position) || unread.contains(&position);
        assert!(noticed || of_no_use, "{position}");
    }
}

/// The block between the two large files. It has only headers, which the index contains as well.
fn headers_alone(data: &[u8]) -> Range<u64> {
    let second = noise(6 * 4096 - 200, 2);
    let second = data.windows(64).position(|window| window == &second[..64]);
    let second = second.unwrap() as u64;
    second - 4096..second
}

#[test]
fn every_changed_byte_of_a_sidecar_is_detected() {
    let subject = Subject::new(SealLayout::Sidecar, None);
    for position in 0..subject.seal.size() {
        let noticed = subject.is_noticed(position);
        let padding = 4096 + 256..4096 + 4092;
        assert!(noticed || padding.contains(&position), "{position}");
    }
}

#[test]
fn every_changed_byte_of_a_signed_sidecar_is_detected() {
    let key = KeyPair::generate(None).unwrap();
    let subject = Subject::new(SealLayout::Sidecar, Some(&key));
    let mut noticed = 0;
    for position in 0..subject.seal.size() {
        noticed += u64::from(subject.is_noticed(position));
    }
    // The whole tree and descriptor, and the signature except its comment.
    assert!(noticed > 4096 + 256 + 200, "{noticed}");
}

/// Another process writes to the file while it is read: data is returned from the buffer in which it was
/// hashed, and never read a second time.
#[test]
fn storage_that_changes_during_reads() {
    const SIZE: usize = 1 << 20;
    let data = noise(SIZE, 1);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), sealed(&data, SealLayout::Appended, None)).unwrap();
    let source = Arc::new(FileSource::open(file.path()).unwrap());
    let sealed = Sealed::open_appended(source).unwrap();
    let trust = Trust::Digest(sealed.file_digest());
    let seal = sealed.accepted_by(&trust).unwrap();
    let reader = VerifiedReader::new(seal, VerifyOptions::default()).unwrap();
    let reader = Arc::new(reader);
    let readers: [Arc<dyn ReadAt>; 2] = [reader.clone(), Arc::new(in_chunks(reader.clone()))];

    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = file.reopen().unwrap();
        let (data, over) = (&data, &over);
        scope.spawn(move || {
            for position in (0..).map(|step: u64| step * 7919 % SIZE as u64) {
                if over.load(Relaxed) {
                    break;
                }
                let right = data[position as usize];
                writer.write_all_at(&[!right], position).unwrap();
                writer.write_all_at(&[right], position).unwrap();
            }
        });
        let mut scratch = Scratch::default();
        for round in 0..600_u64 {
            for reader in &readers {
                let len = [4096, 50_000, 300_000, SIZE][round as usize % 4];
                let at = round * 104_729 % (SIZE - len + 1) as u64;
                match reader.read_borrowed(&mut scratch, at, len) {
                    Ok(bytes) => assert!(bytes == &data[at as usize..][..len], "{at}, {len}"),
                    Err(ReadError::Rejected(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        over.store(true, Relaxed);
    });
    // When the storage no longer changes, everything can be read.
    for reader in readers {
        let mut bytes = vec![0; SIZE];
        reader.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes == data);
    }
}

#[test]
fn the_status_has_the_last_failures() {
    let subject = Subject::new(SealLayout::Appended, None);
    let sealed = open(&subject.data, subject.seal.clone(), subject.layout).unwrap();
    let tree = mounted(&sealed, &subject.trust).unwrap();
    let first = tree.lookup(NodeId::ROOT, "a".as_ref()).unwrap().node;
    let first = tree.lookup(first, "first".as_ref()).unwrap().node;
    let content = noise(8 * 4096, 1);
    let place = subject
        .data
        .windows(64)
        .position(|window| window == &content[..64]);
    subject.seal.flip(place.unwrap() as u64 + 2 * 4096 + 17);

    let mut scratch = Scratch::default();
    for read in 0..40 {
        let offset = 2 * 4096 + read;
        let refused = tree.read(first, offset, 1, &mut scratch);
        assert!(matches!(refused, Err(Error::Read(ReadError::Rejected(_)))));
    }
    assert_eq!(status(&tree).mismatches, 40);
    let image = image_status(&tree);
    assert_eq!(image.recent_failures.len(), 16);
    for (failure, read) in image.recent_failures.iter().zip(24..) {
        assert_eq!(Path::new(&failure.file).file_name(), Some("first".as_ref()));
        assert_eq!(failure.offset, 2 * 4096 + read);
        assert!(failure.reason.contains("expected sha256:"), "{failure:?}");
    }
    // An invalid request is not a failure of the storage.
    assert!(matches!(
        tree.lookup(first, "x".as_ref()),
        Err(Error::NotADirectory)
    ));
    assert!(matches!(
        tree.lookup(NodeId::ROOT, "x".as_ref()),
        Err(Error::NotFound)
    ));
    assert!(tree.attr(NodeId::new(7).unwrap()).is_err());
    assert_eq!(status(&tree).mismatches, 40);
}

/// Listing a large directory and looking up its names hashes it little more than once.
/// A source that can be out of reach.
#[derive(Default)]
struct Elsewhere {
    content: Vec<u8>,
    is_off: AtomicBool,
    reads: AtomicU64,
}

impl ReadAt for Elsewhere {
    fn size(&self) -> u64 {
        self.content.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.reads.fetch_add(1, Relaxed);
        if self.is_off.load(Relaxed) {
            Err(ReadError::Io {
                offset,
                len: buf.len(),
                source: std::io::ErrorKind::TimedOut.into(),
            })
        } else {
            self.content.read_exact_at(buf, offset)
        }
    }
}

impl Origin for Elsewhere {
    fn status(&self) -> OriginStatus {
        OriginStatus::default()
    }

    fn patience(&self) -> Duration {
        Duration::ZERO
    }

    fn close(&self) {}
}

/// Who waits for a read would also wait until the names are not found.
#[test]
fn names_are_not_looked_for_without_a_connection() {
    let source = Arc::new(Elsewhere {
        content: image(),
        ..Elsewhere::default()
    });
    let tree = RomfsTree::open(Checked::unverified(source.clone())).unwrap();
    let tree =
        VerifiedTree::new(Box::new(tree), None, Arc::default()).with_origin(Some(source.clone()));
    let folder = tree.lookup(NodeId::ROOT, "a".as_ref()).unwrap();
    let first = tree.lookup(folder.node, "first".as_ref()).unwrap();
    source.is_off.store(true, Relaxed);
    let before = source.reads.load(Relaxed);
    assert!(content(&tree, first.node, first.size).is_none());
    assert_eq!(source.reads.load(Relaxed), before + 1);
    let failures = image_status(&tree).recent_failures;
    // By the names under which it was looked up.
    assert_eq!(failures[0].file, "/a/first");
}

#[test]
fn a_large_directory_is_verified_once() {
    const NAMES: usize = 100_000;
    let names: Vec<_> = (0..NAMES).map(|number| number.to_string()).collect();
    let data = flat_romfs(names.iter().map(String::as_str));
    let size = data.len() as u64;
    let file = Arc::new(sealed(&data, SealLayout::Appended, None));
    let sealed = open(&data, file, SealLayout::Appended).unwrap();
    let seal = sealed.accepted_by(&Trust::Unpinned).unwrap();
    let reader = VerifiedReader::new(seal, VerifyOptions::default());
    let reader = Arc::new(reader.unwrap());
    let image = RomfsTree::open(in_chunks(reader.clone())).unwrap();
    let tree = VerifiedTree::new(
        Box::new(image),
        Some(*reader.identity()),
        reader.account().clone(),
    );
    // A part at a time, as the kernel does.
    let (mut listed, mut from) = (0, Cursor::START);
    while listed < NAMES {
        let end = listed + 190;
        tree.list(NodeId::ROOT, from, &mut |entry, next| {
            assert_eq!(entry.name, &*names[listed]);
            listed += 1;
            from = next;
            if listed < end {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })
        .unwrap();
    }
    for missing in 0..1000 {
        let missing = format!("missing {missing}");
        let found = tree.lookup(NodeId::ROOT, missing.as_ref());
        assert!(matches!(found, Err(Error::NotFound)));
    }
    let verified = image_status(&tree).bytes_verified;
    assert!(verified < 2 * size, "{verified} of {size}");
}

/// The kernel would take a NUL for the end of the target.
#[test]
fn a_symbolic_link_to_a_nul_cannot_be_read() {
    let mut data = image();
    let target = b"a/b/second";
    let place = data
        .windows(target.len())
        .position(|window| window == target);
    let slash = place.unwrap() + 1;
    let target_of = |data: &[u8]| {
        let tree = RomfsTree::open(Checked::unverified(Arc::new(data.to_vec()))).unwrap();
        let link = tree.lookup(NodeId::ROOT, "link".as_ref()).unwrap().node;
        let served = ImageFs::new(
            Arc::new(VerifiedTree::new(Box::new(tree), None, Arc::default())),
            Served::default(),
        );
        let mut scratch = Scratch::default();
        served
            .readlink(FuseNodeId(link.get()), &mut scratch)
            .map(<[u8]>::to_vec)
    };
    assert_eq!(target_of(&data).as_deref(), Ok(&target[..]));
    data[slash] = 0;
    assert_eq!(target_of(&data), Err(Errno::IO));
}

/// Owner, permissions and time of the file in which the image is stored.
fn stored() -> StoredFile {
    StoredFile::of(&tempfile::tempfile().unwrap()).unwrap()
}

#[test]
fn requests_are_counted_by_their_kinds() {
    let tree = Arc::new(VerifiedTree::new(
        Box::new(RomfsTree::open(Checked::unverified(Arc::new(image()))).unwrap()),
        None,
        Arc::default(),
    ));
    let served = ImageFs::new(tree.clone(), Served::default());
    let _ = served.getxattr(FuseNodeId::ROOT, "user.missing".as_ref());
    let _ = served.getxattr(FuseNodeId::ROOT, STATUS_XATTR.as_ref());
    let caller = Caller {
        uid: 0,
        gid: 0,
        pid: 0,
        request: 0,
    };
    for _ in 0..2 {
        let _ = served.listxattr(caller, FuseNodeId::ROOT);
    }
    for _ in 0..3 {
        let _ = served.lookup(caller, (FuseNodeId::ROOT, "a".as_ref()));
    }
    let requests = status(&tree).requests;
    for (name, count) in [
        ("getxattr", 1),
        ("listxattr", 2),
        ("lookup", 3),
        ("lseek", 0),
    ] {
        assert_eq!(requests[name], count, "{name}");
    }
}

/// Read-ahead meets a mismatching block as well, but only refused requests are counted.
#[test]
fn each_refused_read_is_counted_once() {
    const SIZE: usize = 8 << 20;
    const PIECE: usize = 64 << 10;
    let data = noise(SIZE, 1);
    let mut bytes = sealed(&data, SealLayout::Appended, None);
    bytes[5 << 20] ^= 1;
    let sealed = open(&data, Arc::new(bytes), SealLayout::Appended).unwrap();
    let seal = sealed.accepted_by(&Trust::Unpinned).unwrap();
    let reader = VerifiedReader::new(seal, VerifyOptions::default());
    let reader = Arc::new(reader.unwrap());
    let ahead = Arc::new(in_chunks(reader.clone()));
    let file = SingleFile::new("file".as_ref(), &stored(), ahead);
    let tree = VerifiedTree::new(
        Box::new(file),
        Some(*reader.identity()),
        reader.account().clone(),
    );
    let mut scratch = Scratch::default();
    let mut refused = 0;
    for _ in 0..10 {
        for offset in (0..SIZE as u64).step_by(PIECE) {
            let read = tree.read(SingleFile::FILE, offset, PIECE, &mut scratch);
            refused += u64::from(read.is_err());
        }
        assert_eq!(status(&tree).mismatches, refused);
    }
    assert_eq!(refused, 10);
}

#[test]
fn only_a_file_that_is_the_whole_data_has_the_digest() {
    let data = noise(5000, 1);
    let seal = Arc::new(sealed(&data, SealLayout::Sidecar, None));
    let found = open(&data, seal, SealLayout::Sidecar).unwrap();
    let digest: FileDigest = found.file_digest();
    let seal = found.accepted_by(&Trust::Unpinned).unwrap();
    let reader = VerifiedReader::new(seal, VerifyOptions::default());
    let reader = Arc::new(reader.unwrap());
    let file = || SingleFile::new("file".as_ref(), &stored(), reader.clone());
    let measurement = Measurement {
        algorithm: 1,
        digest: digest.digest().as_bytes().to_vec(),
    };
    let unmeasured =
        VerifiedTree::of_file(file(), Some(*reader.identity()), reader.account().clone());
    assert!(matches!(unmeasured.measure(SingleFile::FILE), Ok(None)));
    let file = file().measured(Some(measurement.clone()));
    let measured = VerifiedTree::of_file(file, Some(*reader.identity()), reader.account().clone());
    let of_file = measured.measure(SingleFile::FILE);
    assert!(matches!(of_file, Ok(Some(found)) if found == measurement));
    assert!(matches!(measured.measure(NodeId::ROOT), Ok(None)));
}
