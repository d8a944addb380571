use std::{collections::BTreeMap, fs, path::PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, Erratum, LandlockStatus, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use crate::{FileRights, Kind};

/// The newest interface that is used.
const NEWEST: ABI = ABI::V10;

/// Whether files are held back of this kind of daemon.
///
/// A bridge opens files by their handles. Until its third erratum was mended, Landlock refuses those whose directory the
/// kernel does not have in memory; and by its first version none may be moved to another directory.
pub(crate) fn takes_files(kind: Kind) -> bool {
    kind != Kind::Bridge || Erratum::current().contains(Erratum::DisconnectedDirectoryHandling)
}

/// Leaves this thread, and those that it starts, only these files and, if so, the network. Returns the version of the
/// interface by which that holds; 0 if it does not.
pub(crate) fn enter(
    files: Option<&BTreeMap<PathBuf, FileRights>>,
    network: bool,
) -> Result<u32, RulesetError> {
    let mut rules = Ruleset::default();
    if files.is_some() {
        rules = rules.handle_access(AccessFs::from_all(NEWEST))?;
    }
    let net = if network {
        // Only requests tell which servers are asked.
        AccessNet::from_all(NEWEST) & !AccessNet::ConnectTcp
    } else {
        AccessNet::from_all(NEWEST)
    };
    let rules = rules.handle_access(net)?.scope(Scope::from_all(NEWEST))?;
    let mut rules = rules.create()?;
    for (path, rights) in files.into_iter().flatten() {
        allow(&mut rules, path, *rights);
    }
    let status = rules.restrict_self()?;
    Ok(match status.landlock {
        LandlockStatus::Available { effective_abi, .. }
            if status.ruleset != RulesetStatus::NotEnforced =>
        {
            effective_abi as u32
        }
        _ => 0,
    })
}

/// Leaves a file, or a directory with all below it. What does not exist is not left, and pipes need not be.
fn allow(rules: &mut RulesetCreated, path: &PathBuf, rights: FileRights) {
    let (Ok(found), Ok(opened)) = (fs::metadata(path), PathFd::new(path)) else {
        return;
    };
    let access = if found.is_dir() {
        access(rights)
    } else {
        access(rights) & AccessFs::from_file(NEWEST)
    };
    // What is refused here cannot be opened later, which is told then.
    let _ = rules.add_rule(PathBeneath::new(opened, access));
}

fn access(rights: FileRights) -> BitFlags<AccessFs> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::IoctlDev;
    match rights {
        FileRights::Read => read,
        FileRights::Write => read | AccessFs::WriteFile | AccessFs::Truncate,
        FileRights::Change => access(FileRights::Mirror) & !AccessFs::Execute,
        FileRights::Mirror => AccessFs::from_all(NEWEST) & !AccessFs::ResolveUnix,
    }
}
