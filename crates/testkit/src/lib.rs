//! Shared by Verimount's tests and benchmarks: failing and slow sources, devices with simulated
//! crashes, generated data and trees, what trees show, and the environment of tests.

mod bytes;
mod crash_point;
pub mod directory;
mod doubtful;
mod draw;
mod ended;
mod failing;
mod faulty;
mod flat_romfs;
mod flipped;
mod hard_disk;
mod hog;
mod http_server;
mod https;
mod mirrored;
mod mounts;
mod needs;
mod pattern;
pub mod plain_tree;
mod random;
mod read_blocks;
mod recording;
mod registry_server;
mod rich_tree;
pub mod romfs_decoder;
pub mod romfs_image;
pub mod seen;
mod shown;
mod slow;
mod stored;
mod tar_archive;
mod told;
mod unreadable;
mod users;
mod waiting;
mod watched;
mod world;

pub use bytes::{error_of, flip_at, flip_where, overwrite, position_of, read_at};
pub use crash_point::CrashPoint;
pub use doubtful::Doubtful;
pub use draw::{cases, odd_name, several, weighted};
pub use ended::{Ended, PATIENCE, Watchdog, finish, finish_spawned, python};
pub use failing::{Failing, Outage, OutageKind, Panicked};
pub use faulty::{Fault, Faulty};
pub use flat_romfs::flat_romfs;
pub use flipped::Flipped;
pub use hard_disk::HardDisk;
pub use hog::Hog;
pub use http_server::{HttpAnswer, HttpEnd, HttpPace, HttpRequest, HttpServer};
pub use mirrored::{DENYING_POLICY, others_can_work};
pub use mounts::{KernelMount, Loop, fuse_or_skip, native_or_skip, unmount_lazily};
pub use needs::Needed;
pub use pattern::{noise, pattern};
pub use random::{Random, random_numbers};
pub use read_blocks::read_blocks;
pub use recording::{Recorder, Recording};
pub use registry_server::{RegistryLogin, RegistryServer};
pub use rich_tree::{RichTree, set_time};
pub use romfs_image::RomfsImage;
pub use shown::{Differences, Shown, ShownTree, as_copied, compare, numbers, shown, unreadable};
pub use slow::Slow;
pub use stored::{Snapshot, Stored, assert_same, create, give_away, snapshot};
pub use tar_archive::{TarArchive, pax_record};
pub use told::when_told;
pub use unreadable::Unreadable;
pub use users::{
    NOBODY, as_nobody, is_root, pass_again_as_nobody, pass_as_nobody, reachable_copy, root_or_skip,
    root_passes_through_or_skip, shell_as,
};
pub use verimount_testenv::{
    AS_NOBODY, CRASH_SEEDS, SKIPS, all_or_one, all_or_some, is_exhaustive, random_cases, seed,
    skip, tools,
};
pub use waiting::{eventually, go_on};
pub use watched::{Watched, WatchedEvent};
pub use world::{World, unescaped};
