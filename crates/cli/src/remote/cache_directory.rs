//! Where content of URLs is kept if nothing else is said.

use std::{
    env, fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use rustix::process::{Uid, geteuid};
use verimount_host::printable;

/// The directory for services of root, which may run without a home.
const OF_ROOT: &str = "/var/cache";

/// The directory of the XDG Base Directory Specification, for which a directory of another user is not used: root
/// would leave there what its owner can neither use nor remove, as with `sudo`, which may keep `HOME`.
///
/// # Errors
/// If there is none; the message says why.
pub(crate) fn usual_directory() -> Result<PathBuf> {
    let directory = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let bases = [
        directory("XDG_CACHE_HOME").map(|cache| ("XDG_CACHE_HOME", cache.clone(), cache)),
        directory("HOME").map(|home| ("HOME", home.join(".cache"), home)),
    ];
    choose(bases.into_iter().flatten(), geteuid(), &owner)
}

/// The first usable of some directories: each with the variable that names it, and with what must not be another user's.
fn choose(
    bases: impl Iterator<Item = (&'static str, PathBuf, PathBuf)>,
    caller: Uid,
    owner: &dyn Fn(&Path) -> io::Result<Uid>,
) -> Result<PathBuf> {
    let mut foreign = None;
    for (variable, base, checked) in bases {
        match other_owner(&checked, caller, owner) {
            None => return Ok(base.join("verimount")),
            Some(other) => {
                let why = format!(
                    "{variable} names {}, which belongs to the user {other}",
                    printable(&checked)
                );
                tracing::debug!(why, "the cache is not there");
                foreign = Some(why);
            }
        }
    }
    match (caller.is_root(), foreign) {
        (true, _) => Ok(Path::new(OF_ROOT).join("verimount")),
        (false, Some(why)) => bail!("{why}: give --cache"),
        (false, None) => bail!("there is no directory for it: give --cache"),
    }
}

/// Who else owns a directory, or that in which it would be made. What is root's, like `/` or `/tmp`, has its own rules.
fn other_owner(path: &Path, caller: Uid, owner: &dyn Fn(&Path) -> io::Result<Uid>) -> Option<Uid> {
    let found = path.ancestors().find_map(|path| owner(path).ok());
    found.filter(|owner| *owner != caller && !owner.is_root())
}

fn owner(path: &Path) -> io::Result<Uid> {
    Ok(Uid::from_raw(fs::metadata(path)?.uid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the users 0, 1 and 2.
    const OWNERS: [(&str, u32); 4] = [("/", 0), ("/root", 0), ("/home/one", 1), ("/home/two", 2)];

    fn owner(path: &Path) -> io::Result<Uid> {
        let mut owners = OWNERS.iter();
        let found = owners.find(|(known, _)| Path::new(known) == path);
        let (_, uid) = found.ok_or(io::ErrorKind::NotFound)?;
        Ok(Uid::from_raw(*uid))
    }

    /// The directory of a user with these variables.
    fn chosen(caller: u32, cache: Option<&str>, home: Option<&str>) -> Result<PathBuf> {
        let bases = [
            cache.map(|cache| ("XDG_CACHE_HOME", cache.into(), cache.into())),
            home.map(|home| ("HOME", Path::new(home).join(".cache"), home.into())),
        ];
        choose(bases.into_iter().flatten(), Uid::from_raw(caller), &owner)
    }

    #[test]
    fn directories_of_other_users_are_not_used() {
        for (caller, cache, home, expected) in [
            (1, None, Some("/home/one"), "/home/one/.cache/verimount"),
            (1, Some("/home/one/c/d"), None, "/home/one/c/d/verimount"),
            (1, Some("/tmp/c"), Some("/home/one"), "/tmp/c/verimount"),
            (
                1,
                Some("/home/two/c"),
                Some("/home/one"),
                "/home/one/.cache/verimount",
            ),
            (0, None, Some("/root"), "/root/.cache/verimount"),
            (0, None, Some("/home/one"), "/var/cache/verimount"),
            (
                0,
                Some("/home/one/.cache"),
                Some("/home/one"),
                "/var/cache/verimount",
            ),
            (0, None, None, "/var/cache/verimount"),
        ] {
            let chosen = chosen(caller, cache, home).unwrap();
            assert_eq!(chosen, Path::new(expected), "{caller} {cache:?} {home:?}");
        }
    }

    #[test]
    fn a_user_without_any_is_told_why() {
        let foreign = chosen(2, None, Some("/home/one")).unwrap_err().to_string();
        assert!(
            foreign.contains("HOME names /home/one, which belongs to the user 1"),
            "{foreign}"
        );
        let none = chosen(2, None, None).unwrap_err().to_string();
        assert!(none.contains("give --cache"), "{none}");
    }
}
