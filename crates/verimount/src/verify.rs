use std::{
    ops::{ControlFlow, Range},
    path::{Path, PathBuf},
};

use thiserror::Error as ThisError;
use verimount_content::{UNKNOWN, Watch, Watcher, step};
use verimount_source::{ReadAt, all_processors};
use verimount_tree::Error as TreeError;
use verimount_verity::{BadRange, BadReason, Identity, survey};

use crate::{
    Content, Error, ModelKey, Step,
    fault::ContentFault,
    image_format::{check, open_damaged},
    model::verify_model,
    open::cut_off,
};

/// How content is verified as a whole.
#[derive(Debug, Clone, Default)]
pub struct VerifyOptions {
    /// The key with which the model signature in the image must be made. The signature is then compared with all files.
    pub model_key: Option<ModelKey>,
    /// Who watches it.
    pub watcher: Watcher,
}

/// The maximum number of bad ranges that a report lists.
const MAX_LISTED: usize = 10_000;

/// The most memory for the paths of a report, in bytes: many files may be in a bad range, and a file in many.
const MAX_PATHS: usize = 64 << 20;

/// The most steps of naming the files in bad ranges: each of the many places of a file may overlap all of the ranges.
const MAX_STEPS: u64 = 1 << 28;

/// The paths of a report take too much memory.
#[derive(Debug, ThisError)]
#[error("their paths take more than {} MiB", MAX_PATHS >> 20)]
struct TooManyPaths;

/// The places of files overlap bad ranges too often.
#[derive(Debug, ThisError)]
#[error("files share so many of the bad bytes that it would take too long to find all of them")]
struct TooManySteps;

/// What naming files may still take.
struct Left {
    /// Memory for paths, in bytes.
    room: usize,
    /// Bad ranges that a place of a file is compared with.
    steps: u64,
}

/// What [`Content::verify`] found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// What the content was compared with.
    pub identity: Identity,
    /// The size of the content in bytes.
    pub size: u64,
    /// How many bytes are bad.
    pub bad_bytes: u64,
    /// How many ranges are bad.
    pub bad_ranges: u64,
    /// The first 10,000 of them, in order.
    pub bad: Vec<Finding>,
    /// Why some affected files could not be named.
    pub unnamed: Option<TreeError>,
    /// A defect of the image although all bytes match: it cannot be opened, or contradicts itself, so that other readers
    /// would see a different tree.
    pub defect: Option<TreeError>,
    /// What was replaced from a mirror, if that was wanted and something was bad.
    pub repaired: Option<Repaired>,
    /// The model, if its signature was asked for, and all is good.
    pub model: Option<VerifiedModel>,
}

/// What [`Content::verify`] replaced by right bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// How many ranges of the data and of the Merkle tree were replaced, of the content and of mirrors on this machine.
    pub ranges: u64,
    /// How many bytes of the content are bad nevertheless.
    pub bad_bytes: u64,
}

/// A model in an image, whose signature and files were checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifiedModel {
    /// What the signer called it.
    pub name: String,
    /// How many files are signed.
    pub files: usize,
}

/// A bad range.
#[derive(Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The bytes of the content.
    pub range: Range<u64>,
    /// Why its first block is bad.
    pub reason: BadReason,
    /// The files of the image in it, with their paths from the root.
    pub files: Vec<PathBuf>,
}

impl Report {
    /// Whether all is good, or is so since it was repaired.
    pub fn is_good(&self) -> bool {
        let is_whole = |repaired: Repaired| repaired.bad_bytes == 0;
        (self.bad_ranges == 0 || self.repaired.is_some_and(is_whole)) && self.defect.is_none()
    }
}

/// Reads and verifies all content, and finds every bad range and the files of an image in it.
pub(crate) fn verify(content: &Content, options: &VerifyOptions) -> Result<Report, Error> {
    let watch = &mut options.watcher.watch();
    let mut report = verify_watched(content, watch)?;
    if let Some(key) = options.model_key.as_ref().filter(|_| report.is_good()) {
        report.model = Some(verify_model(content, key, watch)?);
    }
    Ok(report)
}

pub(crate) fn verify_watched(content: &Content, watch: &mut Watch<'_>) -> Result<Report, Error> {
    let at = &content.opened.location;
    let reader = content.opened.reader.as_ref();
    let reader = reader.ok_or_else(|| ContentFault::Unverified.at(at))?;
    let alone = content.opened.mirrored.as_ref();
    let alone = alone.map(|mirrored| {
        let alone = mirrored.first_alone(at);
        alone.map_err(|error| cut_off(error, mirrored.first_place()))
    });
    let alone = alone.transpose()?;
    // What others have right is bad here nevertheless.
    let (reader, had_bad_end) = match &alone {
        Some((alone, had_bad_end)) => (alone, *had_bad_end),
        None => (&**reader, false),
    };
    let mut report = Report {
        identity: *reader.identity(),
        size: reader.size(),
        bad_bytes: 0,
        bad_ranges: 0,
        bad: Vec::new(),
        unnamed: None,
        defect: None,
        repaired: had_bad_end.then_some(Repaired {
            ranges: 1,
            bad_bytes: 0,
        }),
        model: None,
    };
    let mut progress = step(watch, Step::Verify, reader.size());
    let mut found = |bad| report.add(bad);
    survey(reader, all_processors(), &mut found, &mut progress)
        .map_err(|error| ContentFault::seal(at, error))?;
    drop(progress);
    if report.bad_ranges > 0 {
        report.name_files(content, watch)?;
        report.repair(content, watch)?;
    }
    if report.is_good() {
        report.defect = check(content.opened.source.clone()).err();
    }
    Ok(report)
}

impl Report {
    fn add(&mut self, bad: BadRange) {
        self.bad_ranges += 1;
        self.bad_bytes += bad.range.end - bad.range.start;
        if self.bad.len() < MAX_LISTED {
            self.bad.push(Finding {
                range: bad.range,
                reason: bad.reason,
                files: Vec::new(),
            });
        }
    }

    /// Reads all content from where it is right, whereby what is wrong is replaced if that is wanted, and verifies the first
    /// place once more.
    fn repair(&mut self, content: &Content, watch: &mut Watch<'_>) -> Result<(), Error> {
        let (Some(mirrored), Some(reader)) = (&content.opened.mirrored, &content.opened.reader)
        else {
            return Ok(());
        };
        if !mirrored.repairs {
            return Ok(());
        }
        let at = &content.opened.location;
        let mut bad_bytes = 0;
        let (alone, _) = mirrored.first_alone(at)?;
        for (what, reader) in [(Step::Repair, &**reader), (Step::Verify, &alone)] {
            bad_bytes = 0;
            let mut found = |bad: BadRange| bad_bytes += bad.range.end - bad.range.start;
            let mut progress = step(watch, what, reader.size());
            survey(reader, all_processors(), &mut found, &mut progress)
                .map_err(|error| ContentFault::seal(at, error))?;
            mirrored.mirrors.finish_repairs();
        }
        let end_of_seal = self.repaired.map_or(0, |repaired| repaired.ranges);
        self.repaired = Some(Repaired {
            ranges: mirrored.mirrors.stats().ranges_repaired + end_of_seal,
            bad_bytes,
        });
        Ok(())
    }

    /// Finds the files of an image that overlap the bad ranges, as far as names are readable.
    fn name_files(&mut self, content: &Content, watch: &mut Watch<'_>) -> Result<(), Error> {
        let tree = match open_damaged(content.opened.source.clone()) {
            Ok(Some(tree)) => tree,
            Ok(None) => return Ok(()),
            Err(error) => {
                self.unnamed = Some(error);
                return Ok(());
            }
        };
        let mut progress = step(watch, Step::Name, UNKNOWN);
        let mut is_cancelled = false;
        let mut left = Left {
            room: MAX_PATHS,
            steps: MAX_STEPS,
        };
        // It ends early only for reasons that are known here.
        let _ = tree.walk_places(&mut |found| {
            is_cancelled = progress(1).is_break();
            let named = found.and_then(|place| self.add_file(place.path, &place.range, &mut left));
            let may_go_on = left.room > 0 && left.steps > 0;
            if let Err(error) = named {
                self.unnamed.get_or_insert(error);
            }
            if may_go_on && !is_cancelled {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        if is_cancelled {
            Err(ContentFault::Cancelled.at(&content.opened.location))
        } else {
            Ok(())
        }
    }

    /// Adds a file that is in `range` to the findings there.
    fn add_file(
        &mut self,
        path: &Path,
        range: &Range<u64>,
        left: &mut Left,
    ) -> Result<(), TreeError> {
        for finding in overlapping(&mut self.bad, range) {
            left.steps = left.steps.saturating_sub(1);
            if left.steps == 0 {
                return Err(TreeError::unsupported(TooManySteps));
            }
            // Files come in turn, each with all its ranges.
            if finding.files.last().is_some_and(|last| last == path) {
                continue;
            }
            let cost = size_of::<PathBuf>() + path.as_os_str().len();
            left.room = left.room.saturating_sub(cost);
            if left.room == 0 {
                return Err(TreeError::unsupported(TooManyPaths));
            }
            finding.files.push(path.to_owned());
        }
        Ok(())
    }
}

/// The findings that overlap `range`. `findings` is sorted by start.
fn overlapping<'a>(
    findings: &'a mut [Finding],
    range: &Range<u64>,
) -> impl Iterator<Item = &'a mut Finding> {
    let first = findings.partition_point(|finding| finding.range.end <= range.start);
    // An empty range overlaps nothing.
    let end = if range.is_empty() { 0 } else { range.end };
    findings[first..]
        .iter_mut()
        .take_while(move |finding| finding.range.start < end)
}

#[cfg(test)]
mod tests {
    use verimount_source::ReadError;

    use super::*;

    /// Ranges of ten bytes, with ten between them.
    fn report(bad: u64) -> Report {
        let finding = |number: u64| Finding {
            range: number * 20..number * 20 + 10,
            reason: BadReason::Unreadable(ReadError::Rejected("as a test".into())),
            files: Vec::new(),
        };
        let digest = format!("sha256:{}", "0".repeat(64));
        Report {
            identity: Identity::FileDigest(digest.parse().unwrap()),
            size: bad * 20,
            bad_bytes: bad * 10,
            bad_ranges: bad,
            bad: (0..bad).map(finding).collect(),
            unnamed: None,
            defect: None,
            repaired: None,
            model: None,
        }
    }

    #[test]
    fn naming_ends_where_a_file_is_in_all_bad_ranges_again_and_again() {
        let mut report = report(1000);
        let all = 0..report.size;
        let mut left = Left {
            room: MAX_PATHS,
            steps: 3500,
        };
        let mut add = |range| report.add_file(Path::new("file"), &range, &mut left);
        for range in [all.clone(), 0..10, all.clone(), all.clone()] {
            add(range).unwrap();
        }
        assert!(matches!(add(all), Err(TreeError::Unsupported(_))));
        assert_eq!(left.steps, 0);
        let files = report.bad.iter().map(|finding| finding.files.len());
        assert!(files.eq([1; 1000]));
    }
}
