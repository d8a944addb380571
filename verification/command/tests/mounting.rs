//! Real mounts. All of this also runs as an ordinary user, by `ordinary_user`.

mod automounts;
mod damage;
mod ends;
mod handles;
mod kinds;
mod listed;
mod log;
mod mirrors;
mod native;
mod opening;
mod option_list;
mod owners;
mod points;
mod powers;
mod programs;
mod reading;
mod replaced;
mod reports;
mod resident;
mod service;

use crate::prelude::*;

/// A world with a mount point `mnt`, a tree of everything, and its image `image`; `None`, after a
/// note, where nothing can be mounted.
fn world_with_image(options: &[&str]) -> Option<World> {
    let world = World::with_mount_point()?;
    let tree = world.directory("tree");
    create(&tree, false);
    verimount(args!["build", &tree, world.path("image"); options.iter()]).succeeds();
    Some(world)
}

/// Whether a directory shows nothing.
fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}
