use std::{
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use verimount_sys::GuardedPath;

use crate::{Answer, Task, ask};

const NAME: &str = "remove";

/// The task of removing any of these files, by their absolute paths.
pub fn removing(files: Vec<PathBuf>) -> Task {
    Task::new(NAME, move |given| {
        let asked = Path::new(OsStr::from_bytes(given));
        if files.iter().any(|file| file == asked) {
            remove_here(asked).map(|()| Answer::default())
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    })
}

/// Removes a file by its absolute path, through the helper of this process if it has one.
///
/// # Errors
/// The system's error, and `PermissionDenied` for a file that [`removing`] was not given.
pub fn remove_file(path: &Path) -> io::Result<()> {
    match ask(NAME, path.as_os_str().as_bytes()) {
        Some(answer) => answer.map(drop),
        None => remove_here(path),
    }
}

/// The directory that it is in may be one of another user, who may have put something else in its place by now.
fn remove_here(path: &Path) -> io::Result<()> {
    fs::remove_file(GuardedPath::new(path)?.path())
}
