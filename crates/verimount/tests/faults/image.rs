use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use verimount::{BuildOptions, Content, Error, FileDigest, OpenOptions, ReadAt, ReadError, build};
use verimount_testkit::RichTree;

/// What the server has: a sealed EROFS image.
pub(crate) struct Image {
    /// All of it, with the seal.
    pub(crate) sealed: Vec<u8>,
    pub(crate) digest: FileDigest,
    /// An earlier release of it.
    pub(crate) earlier: Vec<u8>,
    pub(crate) earlier_digest: FileDigest,
    pub(crate) files: Files,
    /// The size without the seal, in bytes.
    size: usize,
}

/// The contents of all regular files, by path.
pub(crate) type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Some 25 granules.
const TREE: RichTree = RichTree {
    files: 60,
    sizes: &[70_000, 400_001, 2_300_000],
};

impl Image {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (root, image) = (folder.path().join("tree"), folder.path().join("image"));
        fs::create_dir(&root).unwrap();
        TREE.grow(&root).unwrap();
        let sealed = || {
            let built = build(&root, &image, &BuildOptions::default()).unwrap();
            (fs::read(&image).unwrap(), built.digest.unwrap())
        };
        let (earlier, earlier_digest) = sealed();
        fs::remove_file(&image).unwrap();
        edit(&root);
        let (sealed, digest) = sealed();
        let content = Content::open(&image, &OpenOptions::new().digest(digest)).unwrap();
        Self {
            sealed,
            earlier,
            earlier_digest,
            size: content.file().len() as usize,
            files: files(content.image().unwrap()).unwrap(),
            digest,
        }
    }

    /// The right bytes.
    pub(crate) fn content(&self) -> &[u8] {
        &self.sealed[..self.size]
    }

    /// Reads from a copy of the content; whether what it gives is right.
    pub(crate) fn is_right(
        &self,
        copy: &dyn ReadAt,
        start: usize,
        len: usize,
    ) -> Result<bool, ReadError> {
        let mut buf = vec![0; len];
        copy.read_exact_at(&mut buf, start as u64)?;
        Ok(buf == self.content()[start..start + len])
    }
}

/// Makes the later release: some bytes come into the middle of files.
fn edit(root: &Path) {
    for size in &TREE.sizes[..2] {
        let file = root.join(format!("deep/{size}"));
        let mut bytes = fs::read(&file).unwrap();
        bytes.splice(size / 2..size / 2, *b"new");
        fs::write(file, bytes).unwrap();
    }
}

/// Reads all files of an image.
pub(crate) fn files(image: verimount::Image) -> Result<Files, Error> {
    let mut files = Files::new();
    for entry in image.walk("")? {
        let entry = entry?;
        if entry.metadata().is_file() {
            files.insert(entry.path().to_owned(), image.read(entry.path())?);
        }
    }
    Ok(files)
}
