//! Real mounts. All of this also runs as an ordinary user, by `ordinary_user`.

mod damage;
mod ends;
mod kinds;
mod listed;
mod log;
mod option_list;
mod owners;
mod points;
mod powers;
mod programs;
mod reading;
mod reports;
mod service;

use crate::common::daemon::world;
use crate::prelude::*;

/// A world with a mount point `mnt`, a tree of everything, and its image `image`; `None`, after a
/// note, where nothing can be mounted.
fn world_with_image(options: &[&str]) -> Option<World> {
    let world = world()?;
    let tree = world.directory("tree");
    create(&tree, false);
    verimount(args!["build", &tree, world.path("image"); options.iter()]).succeeds();
    Some(world)
}

/// The system's error number of what failed.
#[track_caller]
fn error_number<T>(result: io::Result<T>) -> Option<i32> {
    match result {
        Ok(_) => panic!("it should have failed"),
        Err(error) => error.raw_os_error(),
    }
}

const EIO: Option<i32> = Some(rustix::io::Errno::IO.raw_os_error());
const ENOTCONN: Option<i32> = Some(rustix::io::Errno::NOTCONN.raw_os_error());

/// Whether a directory shows nothing.
fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}
