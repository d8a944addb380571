//! What is checked while an image is built.

use std::{
    collections::{BTreeSet, HashMap},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use verimount_models::{Coverage, Expected, Subject};
use verimount_scan::{
    AddedFile, AttributeChoice, Entry, EntryId, InodeId, InodeKind, Observer,
    Options as ScanOptions, Owner, SourceTree, Times,
};
use verimount_source::folder_of;
use verimount_tree::Timestamp;

use super::{
    ModelSignature, SIGNATURE_FILE,
    hashers::{Feed, Hashers},
    in_order::{Difference, InOrder},
    type_name,
};
use crate::{
    BuildOptions, Error, build_fault::BuildFault, fault::ContentFault, image_plan::ImagePlan,
};

/// What the contents of entries must be, in walk order.
type AllExpected = Vec<(EntryId, Expected)>;

impl BuildOptions {
    /// What of the directory is taken: what a signature says nothing of is the same in all images.
    pub(crate) fn scan_options(&self, directory: &Path) -> ScanOptions {
        let mut options = self.scan.clone();
        let Some(signature) = &self.model_signature else {
            return options;
        };
        let ignored = signature.manifest.ignored().map(Path::to_owned);
        options.ignored = ignored
            .chain(signature.path_in(directory))
            .collect::<BTreeSet<_>>();
        options.added = Some(AddedFile {
            name: SIGNATURE_FILE.to_owned(),
            content: signature.text.clone(),
        });
        options.plain = true;
        options.owner = Some(Owner { uid: 0, gid: 0 });
        options.times = Times::All(Timestamp::EPOCH);
        options.attributes = AttributeChoice::None;
        options
    }

    /// What all files of a tree must be.
    pub(crate) fn expected(&self, tree: &SourceTree) -> Result<AllExpected, Error> {
        let mut all = Vec::new();
        if let Some(signature) = &self.model_signature {
            all.extend(signature.expected(tree)?);
        }
        if self.hugging_face {
            for entry in tree.entries().filter(|entry| !entry.is_added()) {
                if !entry.is_directory() {
                    all.push((entry.id(), expected_blob(entry)?));
                }
            }
        }
        Ok(all)
    }
}

impl ModelSignature {
    /// The path below the directory, if it is there.
    fn path_in(&self, directory: &Path) -> Option<PathBuf> {
        let directory = directory.canonicalize().ok()?;
        // The signature itself may be a link, as everything in a snapshot of Hugging Face.
        let path = folder_of(&self.path)
            .canonicalize()
            .ok()?
            .join(self.path.file_name()?);
        path.strip_prefix(directory).ok().map(Path::to_owned)
    }

    /// What the files of a tree must be.
    fn expected(&self, tree: &SourceTree) -> Result<AllExpected, Error> {
        let Subject::Directory(signed) = self.manifest.subject() else {
            return Err(BuildFault::SignedFile.at(&*self.path));
        };
        let uncovered = |reason| BuildFault::Uncovered(reason).at(tree.path());
        let mut coverage = Coverage::new(signed);
        let mut all = Vec::new();
        for entry in tree.entries().skip(1).filter(|entry| !entry.is_added()) {
            let path = entry.path_inside();
            match &entry.inode().kind {
                InodeKind::Directory(_) => coverage.directory(&path).map_err(uncovered)?,
                InodeKind::File(file) => {
                    let expected = coverage.file(&path, file.size()).map_err(uncovered)?;
                    all.push((entry.id(), expected.clone()));
                }
                other => {
                    let reason = Coverage::other(path, type_name(other.file_type()));
                    return Err(uncovered(reason));
                }
            }
        }
        coverage.finish().map_err(uncovered)?;
        Ok(all)
    }
}

/// What the file must be that a link to a blob of Hugging Face leads to. Anything else than such a file is refused.
fn expected_blob(entry: Entry<'_>) -> Result<Expected, Error> {
    let is_file = matches!(entry.inode().kind, InodeKind::File(_));
    let target = entry.followed().filter(|_| is_file);
    let target = target.and_then(|target| str::from_utf8(target).ok());
    let name = target.map(|target| target.rsplit_once('/').map_or(target, |(_, name)| name));
    name.and_then(Expected::of_blob)
        .ok_or_else(|| BuildFault::NotABlob.at(entry.path()))
}

/// The checks of all contents of an image, which are made while it is written.
pub(crate) struct ContentChecks(Hashers);

/// Hands the contents that are written to the hashers.
#[derive(Debug)]
struct Tap {
    /// The numbers of the files there.
    numbers: HashMap<InodeId, usize>,
    feed: Feed,
}

impl Observer for Tap {
    fn observe(&self, file: InodeId, offset: u64, bytes: &[u8]) {
        if let Some(number) = self.numbers.get(&file) {
            self.feed.add(*number, offset, bytes);
        }
    }
}

impl ContentChecks {
    /// Begins to check what is written of a plan. `None` if there is nothing to check.
    pub(crate) fn begin(all: AllExpected, plan: &mut ImagePlan) -> Result<Option<Self>, Error> {
        if all.is_empty() {
            return Ok(None);
        }
        let mut numbers = HashMap::new();
        let mut files: Vec<(InOrder, Vec<Expected>)> = Vec::new();
        for (entry, expected) in all {
            // The content that is stored for it is what counts.
            let inode = plan.stored_as(plan.tree().entry(entry).inode_id());
            let number = *numbers.entry(inode).or_insert_with(|| {
                files.push((in_order(plan.tree(), inode), Vec::new()));
                files.len() - 1
            });
            let (file, known) = &mut files[number];
            if !known.contains(&expected) {
                file.expect(entry, &expected);
                known.push(expected);
            }
        }
        let hashers = Hashers::start(files.into_iter().map(|(file, _)| file).collect());
        let hashers = hashers.map_err(|error| ContentFault::io(plan.tree().path(), error))?;
        let feed = hashers.feed();
        plan.observe(Arc::new(Tap { numbers, feed }));
        Ok(Some(Self(hashers)))
    }

    /// Has an image written as long as nothing is wrong, and returns what is.
    pub(crate) fn watch(
        self,
        tree: &SourceTree,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
        write: impl FnOnce(&mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let written = self.0.watch(tree.path(), progress, write)?;
        written.map_err(|Difference { entry, differs }| {
            BuildFault::Differs(differs).at(tree.entry(entry).path())
        })
    }
}

fn in_order(tree: &SourceTree, inode: InodeId) -> InOrder {
    match &tree.inode(inode).kind {
        InodeKind::File(file) => InOrder::new(file.size(), file.stored.clone()),
        _ => InOrder::new(0, None),
    }
}
