//! Random changes in the source, past the mirror.

use std::{fs, io, path::Path};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use verimount_testkit::Random;

use super::{
    places::{DIRECTORY_NAMES, FILES},
    walk::{join, walk},
    world::World,
};

/// The name under which a file is written before it replaces another.
const NEW: &str = ".new";

impl World<'_> {
    /// Does something in the source. It may fail, because names are taken or directories would be moved into
    /// themselves.
    pub(super) fn change_anything(&self, dice: &mut Random) {
        self.change(|source| {
            let paths = walk(source);
            let (directories, files): (Vec<_>, Vec<_>) =
                paths.iter().partition(|(_, kind)| kind.is_dir());
            let [directories, files] = [directories, files].map(|paths| {
                paths
                    .iter()
                    .map(|(path, _)| path.as_str())
                    .collect::<Vec<_>>()
            });
            if directories.is_empty() || files.is_empty() {
                return;
            }
            let parents: Vec<&str> = directories.iter().copied().chain([""]).collect();
            let mut new = |names| source.join(join(dice.choose(&parents), dice.choose(names)));
            let (file, directory) = (new(&FILES[..]), new(&DIRECTORY_NAMES));
            let [old_file, old_directory] =
                [files, directories].map(|paths| source.join(dice.choose(&paths)));
            let _ = match dice.below(24) {
                0..6 => rename(&old_file, &file, dice),
                6..12 => rename(&old_directory, &directory, dice),
                12..16 => fs::hard_link(old_file, file),
                16..18 => replace(&old_file, &source.join(NEW)),
                18..20 => fs::remove_file(old_file),
                20..22 => fs::write(file, "root"),
                22 => fs::remove_dir(old_directory),
                _ => fs::create_dir(directory),
            };
        });
    }
}

fn rename(from: &Path, to: &Path, dice: &mut Random) -> io::Result<()> {
    let flags = match dice.below(3) {
        0 => RenameFlags::EXCHANGE,
        _ => RenameFlags::empty(),
    };
    Ok(renameat_with(CWD, from, CWD, to, flags)?)
}

fn replace(file: &Path, new: &Path) -> io::Result<()> {
    fs::write(new, "root")?;
    fs::rename(new, file)
}
