//! What is checked of an image that was built of a signed model.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
        mpsc::{Sender, channel},
    },
    thread,
};

use verimount_content::{Watch, step};
use verimount_models::{Check, Coverage, Expected, Key, Manifest, Subject};
use verimount_source::{Scratch, all_processors};
use verimount_tree::{FileType, NodeId, Tree, walk};

use super::{SIGNATURE_FILE, kept_signature, type_name};
use crate::{
    Content, Error, Step, VerifiedModel,
    build_fault::BuildFault,
    fault::{ContentFault, Fault},
};

/// How much of a file is read at a time, in bytes.
const PIECE: usize = 1 << 20;

/// A file of an image, and what must be in it.
struct Signed<'m> {
    path: PathBuf,
    node: NodeId,
    size: u64,
    expected: &'m Expected,
}

/// Checks the model signature that an image keeps against all of its files.
pub(crate) fn verify_model(
    content: &Content,
    key: &Key,
    watch: &mut Watch<'_>,
) -> Result<VerifiedModel, Error> {
    let at = &content.opened.location;
    let tree = content.tree()?;
    let not_an_image = || Fault::not_an_image(&content.opened.source).at(at);
    let tree = tree.ok_or_else(not_an_image)?;
    let tree = &*tree;
    let inside = |fault: ContentFault| fault.at(at).inside(Path::new(SIGNATURE_FILE));
    let bundle = kept_signature(tree).map_err(inside)?;
    let bundle = bundle.ok_or_else(|| BuildFault::NoModelSignature.at(at))?;
    let manifest = bundle.verify(key);
    let manifest = manifest.map_err(|error| inside(BuildFault::ModelSignature(error).into()))?;
    let files = signed(content, tree, &manifest)?;
    let total = files
        .iter()
        .map(|file| file.size)
        .fold(0, u64::saturating_add);
    let mut progress = step(watch, Step::Hash, total);
    check(content, tree, &files, &mut progress)?;
    drop(progress);
    Ok(VerifiedModel {
        name: manifest.model().to_owned(),
        files: manifest.count(),
    })
}

/// Compares the names in an image with those that are signed.
fn signed<'m>(
    content: &Content,
    tree: &dyn Tree,
    manifest: &'m Manifest,
) -> Result<Vec<Signed<'m>>, Error> {
    let at = &content.opened.location;
    let Subject::Directory(signed) = manifest.subject() else {
        return Err(BuildFault::SignedFile.at(at));
    };
    let mut coverage = Coverage::new(signed);
    let mut files = Vec::new();
    let walked = walk(tree, NodeId::ROOT, PathBuf::new(), |path, attr| {
        match attr.file_type {
            _ if path == Path::new(SIGNATURE_FILE) => {}
            FileType::Directory => coverage.directory(path).map_err(BuildFault::Uncovered)?,
            FileType::RegularFile => files.push(Signed {
                path: path.to_owned(),
                node: attr.node,
                size: attr.size,
                expected: coverage
                    .file(path, attr.size)
                    .map_err(BuildFault::Uncovered)?,
            }),
            other => {
                let other = Coverage::other(path.into(), type_name(other));
                return Err(ContentFault::from(BuildFault::Uncovered(other)));
            }
        }
        Ok(())
    });
    walked.map_err(|fault| fault.at(at))?;
    let covered = coverage.finish();
    covered.map_err(|reason| BuildFault::Uncovered(reason).at(at))?;
    Ok(files)
}

/// What a thread that hashes tells.
enum Told {
    /// So many more bytes are hashed.
    Hashed(u64),
    /// The file with this number is bad, or cannot be read.
    Failed(usize, ContentFault),
}

/// Hashes all files, as many at a time as there are processors.
fn check(
    content: &Content,
    tree: &dyn Tree,
    files: &[Signed<'_>],
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(), Error> {
    let next = AtomicUsize::new(0);
    let is_ended = AtomicBool::new(false);
    let mut failed: Option<(usize, ContentFault)> = None;
    let mut is_cancelled = false;
    thread::scope(|scope| {
        let (tell, told) = channel();
        let mut threads = 0..all_processors().get().min(files.len());
        let started = threads.try_for_each(|_| {
            let tell = tell.clone();
            let run = || check_next(tree, files, &next, &is_ended, tell);
            thread::Builder::new().spawn_scoped(scope, run).map(drop)
        });
        drop(tell);
        is_ended.store(started.is_err(), Relaxed);
        for told in told {
            match told {
                Told::Hashed(bytes) => is_cancelled |= progress(bytes).is_break(),
                Told::Failed(number, fault) => {
                    if failed.as_ref().is_none_or(|(first, _)| number < *first) {
                        failed = Some((number, fault));
                    }
                }
            }
            if is_cancelled || failed.is_some() {
                is_ended.store(true, Relaxed);
            }
        }
        started
    })
    .map_err(|error| ContentFault::io(&content.opened.location, error))?;
    match failed {
        _ if is_cancelled => Err(ContentFault::Cancelled.at(&content.opened.location)),
        Some((number, fault)) => Err(fault
            .at(&content.opened.location)
            .inside(&files[number].path)),
        None => Ok(()),
    }
}

/// Hashes one file after the other until the check has ended.
fn check_next(
    tree: &dyn Tree,
    files: &[Signed<'_>],
    next: &AtomicUsize,
    is_ended: &AtomicBool,
    tell: Sender<Told>,
) {
    // The receiver is there as long as anybody tells.
    let tell = |told| {
        let _ = tell.send(told);
    };
    while !is_ended.load(Relaxed) {
        let number = next.fetch_add(1, Relaxed);
        let Some(file) = files.get(number) else {
            return;
        };
        let mut check = Check::new(file.expected.clone(), file.size);
        let read = read_while(tree, file.node, file.size, &mut |bytes| {
            check.update(bytes);
            tell(Told::Hashed(bytes.len() as u64));
            !is_ended.load(Relaxed)
        });
        let checked = match read {
            Ok(()) if is_ended.load(Relaxed) => return,
            Ok(()) => check
                .finish()
                .map_err(|differs| BuildFault::Differs(Some(differs)).into()),
            Err(fault) => Err(fault),
        };
        if let Err(fault) = checked {
            tell(Told::Failed(number, fault));
        }
    }
}

/// Reads a file from front to back, as long as `take` wants more.
pub(super) fn read_while(
    tree: &dyn Tree,
    node: NodeId,
    size: u64,
    take: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<(), ContentFault> {
    let mut scratch = Scratch::default();
    let mut at = 0;
    while at < size {
        let bytes = tree.read(node, at, PIECE, &mut scratch)?;
        if bytes.is_empty() || !take(bytes) {
            break;
        }
        at += bytes.len() as u64;
    }
    Ok(())
}
