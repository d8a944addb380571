//! Images that are read by path.

use std::{
    error::Error,
    fs,
    io::{self, Read, Seek, SeekFrom},
    iter,
    os::unix::fs::{FileExt, symlink},
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use verimount::{
    BuildOptions, ErrorKind, FileType, Image, Location, Mismatch, OpenOptions, ReadAt, build,
};

/// A directory with files, links and an image of it.
struct World {
    folder: TempDir,
    image: Image,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::write(tree.join("a/b/file"), "in b\n").unwrap();
        fs::write(tree.join("large"), vec![7; 3 << 20]).unwrap();
        fs::write(tree.join("binary"), [0xff]).unwrap();
        for (target, link) in [
            ("a/b", "relative"),
            ("/a/b/file", "absolute"),
            ("../../../a/b/file", "a/out"),
            ("b/../../relative/file", "a/through"),
            ("nothing", "dangling"),
            ("ring", "ring"),
            ("large/x", "below a file"),
        ] {
            symlink(target, tree.join(link)).unwrap();
        }
        for number in 0..600 {
            fs::write(tree.join("a/b").join(format!("{number:03}")), "").unwrap();
        }
        let image = folder.path().join("image");
        let built = build(&tree, &image, &BuildOptions::default()).unwrap();
        let options = OpenOptions::new().digest(built.digest.unwrap());
        let image = Image::open(&image, &options).unwrap();
        Self { folder, image }
    }

    /// A path in the image, in the directory that it was built from.
    fn original(&self, path: &Path) -> PathBuf {
        self.folder.path().join("tree").join(path)
    }
}

#[test]
fn links_are_followed_inside_of_the_image() {
    let World { image, .. } = &World::new();
    for path in [
        "a/b/file",
        "/a/b/file",
        "./a//b/./file",
        "../a/b/file",
        "relative/file",
        "absolute",
        "a/out",
        "a/through",
        "relative/../b/file",
    ] {
        assert_eq!(image.read_to_string(path).unwrap(), "in b\n", "{path}");
        assert!(image.metadata(path).unwrap().is_file());
    }
    assert!(image.symlink_metadata("absolute").unwrap().is_symlink());
    assert!(image.symlink_metadata("relative/file").unwrap().is_file());
    assert_eq!(image.read_link("relative").unwrap(), Path::new("a/b"));
    assert!(image.exists("relative").unwrap());
    assert!(image.metadata("").unwrap().is_dir() && image.metadata("/").unwrap().is_dir());
}

#[test]
fn what_cannot_be_read_is_said() {
    let World { image, .. } = &World::new();
    let errno = |path| image.read(path).unwrap_err().errno();
    for (path, kind, expected) in [
        ("nothing", ErrorKind::NotFound, libc::ENOENT),
        ("dangling", ErrorKind::NotFound, libc::ENOENT),
        ("a", ErrorKind::InvalidInput, libc::EISDIR),
        ("large/x", ErrorKind::InvalidInput, libc::ENOTDIR),
        ("below a file", ErrorKind::InvalidInput, libc::ENOTDIR),
        ("ring", ErrorKind::InvalidInput, libc::ELOOP),
    ] {
        let error = image.read(path).unwrap_err();
        assert_eq!((error.kind(), errno(path)), (kind, expected), "{path}");
        assert_eq!(error.path(), Some(Path::new(path)));
    }
    let binary = image.read_to_string("binary").unwrap_err();
    assert_eq!(binary.kind(), ErrorKind::WrongFormat);
    let not_a_directory = image.read_dir("large").unwrap_err();
    assert_eq!(not_a_directory.errno(), libc::ENOTDIR);
    assert!(!image.exists("dangling").unwrap());
    let error = io::Error::from(image.read("nothing").unwrap_err());
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(
        error
            .to_string()
            .ends_with("image: nothing: there is no such file or directory")
    );
}

#[test]
fn listings_have_everything() {
    let world = World::new();
    let mut names: Vec<_> = world
        .image
        .read_dir("a/b")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_owned())
        .collect();
    names.sort();
    assert_eq!(names.len(), 601);
    assert_eq!(
        (&*names[0], &*names[600]),
        ("000".as_ref(), "file".as_ref())
    );
    let mut walked = 0;
    for entry in world.image.walk("").unwrap() {
        let entry = entry.unwrap();
        let original = world.original(entry.path()).symlink_metadata().unwrap();
        assert_eq!(entry.metadata().is_dir(), original.is_dir());
        assert_eq!(entry.metadata().modified(), original.modified().unwrap());
        if entry.metadata().file_type() == FileType::RegularFile {
            assert_eq!(entry.metadata().len(), original.len());
            let mut content = Vec::new();
            entry.open().unwrap().read_to_end(&mut content).unwrap();
            assert_eq!(content, fs::read(world.original(entry.path())).unwrap());
        } else {
            let refused = entry.open().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        }
        let target = fs::read_link(world.original(entry.path())).ok();
        assert_eq!(entry.read_link().ok(), target);
        walked += 1;
    }
    // The root, two directories, seven links, three files, and those in b.
    assert_eq!(walked, 1 + 2 + 7 + 2 + 601);
    assert_eq!(world.image.walk("large").unwrap().count(), 1);
}

#[test]
fn a_file_is_read_at_any_place() {
    let World { image, .. } = &World::new();
    let mut file = image.open_file("large").unwrap();
    assert_eq!(file.len(), 3 << 20);
    let mut bytes = vec![0; 2 << 20];
    file.read_exact(&mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 7));
    // A clone has a position of its own.
    let mut other = file.clone();
    assert_eq!(file.seek(SeekFrom::End(-10)).unwrap(), (3 << 20) - 10);
    assert_eq!(file.read(&mut bytes).unwrap(), 10);
    assert_eq!(file.read(&mut bytes).unwrap(), 0);
    assert_eq!(other.stream_position().unwrap(), 2 << 20);
    let mut rest = Vec::new();
    other.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len(), 1 << 20);
    assert_eq!(other.stream_position().unwrap(), 3 << 20);
    assert_eq!(other.read_to_end(&mut rest).unwrap(), 0);
    assert!(file.seek(SeekFrom::Current(-(4 << 20))).is_err());
    assert_eq!(file.seek(SeekFrom::Start(4 << 20)).unwrap(), 4 << 20);
    assert_eq!(file.read(&mut bytes).unwrap(), 0);
    assert!(file.read_exact_at(&mut bytes, 3 << 20).is_err());
}

#[test]
fn errors_have_texts_that_stand_by_themselves_and_their_causes() {
    let World { folder, image } = &World::new();
    let missing = folder.path().join("missing");
    let error = Image::open(&missing, &OpenOptions::new().unpinned()).unwrap_err();
    let cause: &io::Error = error.source().unwrap().downcast_ref().unwrap();
    assert_eq!(cause.kind(), io::ErrorKind::NotFound);
    assert!(error.to_string().ends_with(&format!("/missing: {cause}")));

    let file = fs::read(folder.path().join("image")).unwrap();
    let large = file.windows(4096).rposition(|bytes| bytes == [7; 4096]);
    let path = folder.path().join("image");
    let damaged = fs::File::options().write(true).open(path).unwrap();
    damaged.write_all_at(b"!", large.unwrap() as u64).unwrap();
    let error = image.read("large").unwrap_err();
    let causes = iter::successors(error.source(), |cause| (*cause).source());
    let mismatch = causes
        .filter_map(|cause| cause.downcast_ref::<Mismatch>())
        .next();
    assert_eq!(mismatch, error.mismatch());
    assert!(error.to_string().ends_with(&mismatch.unwrap().to_string()));
}

/// Both are read by the same thread.
#[test]
fn an_image_in_an_image_is_read() {
    let world = World::new();
    let outer = world.folder.path().join("outer");
    fs::create_dir(&outer).unwrap();
    let inner = world.folder.path().join("image");
    fs::copy(&inner, outer.join("inner.img")).unwrap();
    let path = world.folder.path().join("outer.img");
    build(&outer, &path, &BuildOptions::default()).unwrap();
    let options = OpenOptions::new().unpinned();
    let outer = Image::open(&path, &options).unwrap();
    let inner = Location::source("inner", outer.open_file("inner.img").unwrap());
    let inner = Image::open(inner, &options).unwrap();
    assert_eq!(inner.read_to_string("absolute").unwrap(), "in b\n");
    assert_eq!(inner.read("large").unwrap(), vec![7; 3 << 20]);
}
