use std::{collections::BTreeMap, fs, ops::ControlFlow, path::PathBuf};

use verimount::{
    BuildOptions, OpenOptions, Trust, build, open,
    source::{ReadAt, ReadError, Scratch},
    tree::{Error, FileType, NodeId, Tree, walk},
};
use verimount_testkit::RichTree;

/// What the server has: a sealed EROFS image.
pub(crate) struct Image {
    /// All of it, with the seal.
    pub(crate) sealed: Vec<u8>,
    pub(crate) trust: Trust,
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
        let mut go_on = |_| ControlFlow::Continue(());
        let built = build(&root, &image, &BuildOptions::default(), &mut go_on).unwrap();
        let trust = Trust::from(built.digest.unwrap());
        let opened = open(&image, &trust, &OpenOptions::default()).unwrap();
        Self {
            sealed: fs::read(&image).unwrap(),
            files: files(&*opened.tree().unwrap()).unwrap(),
            size: opened.content().size() as usize,
            trust,
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

/// Reads all files of a tree.
pub(crate) fn files(tree: &dyn Tree) -> Result<Files, Error> {
    let mut found = Vec::new();
    walk(tree, NodeId::ROOT, PathBuf::new(), |path, attr| {
        if attr.file_type == FileType::RegularFile {
            found.push((path.to_owned(), attr.node, attr.size as usize));
        }
        Ok::<_, Error>(())
    })?;
    let mut scratch = Scratch::default();
    let contents = found.into_iter().map(|(path, node, size)| {
        let content = tree.read(node, 0, size, &mut scratch)?;
        Ok((path, content.to_vec()))
    });
    contents.collect()
}
