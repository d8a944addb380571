//! Files that are kept in memory, which the kernel reads there.

use std::{
    ops::Range,
    sync::{
        Arc, RwLock,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use verimount::{ErrorKind, Location, ReadAt, ReadError};
use verimount_host::{ResidentFiles, mounts::ResidentStatus};

use super::{romfs, world_with_image};
use crate::prelude::*;

/// What any test may use of it.
const LIMIT: u64 = 64 << 20;

/// Files that are loaded at once.
fn at_once(mut files: ResidentFiles) -> ResidentFiles {
    files.ahead = true;
    files
}

fn all(limit: u64) -> ResidentFiles {
    ResidentFiles::all(limit).unwrap()
}

fn mount_resident(world: &World, files: ResidentFiles) -> Mounted {
    mount_resident_from(world.path("image"), world, files)
}

fn mount_resident_from(
    source: impl Into<Location>,
    world: &World,
    files: ResidentFiles,
) -> Mounted {
    let unpinned = OpenOptions::new().unpinned();
    let options = MountOptions {
        resident: Some(files),
        ..MountOptions::default()
    };
    Mounted::with(source, &world.path("mnt"), &unpinned, &options).unwrap()
}

/// A world whose image has files of this many bytes, named by their numbers.
fn world_with_files(sizes: &[usize]) -> Option<World> {
    if !root_passes_through_or_skip() {
        return None;
    }
    let world = World::with_mount_point()?;
    let tree = world.directory("tree");
    for (number, size) in (0..).zip(sizes) {
        fs::write(tree.join(number.to_string()), noise(*size, number)).unwrap();
    }
    build(&tree, world.path("image"), &BuildOptions::default()).unwrap();
    Some(world)
}

fn resident(mounted: &Mounted) -> ResidentStatus {
    mounted.image().resident.unwrap()
}

#[test]
fn a_tree_of_everything_is_read_from_memory() {
    needs!(root_passes_through_or_skip());
    for options in [BuildOptions::default(), romfs()] {
        let world = needs!(world_with_image(&options));
        let expected = snapshot(&world.path("tree")).unwrap();
        let mounted = mount_resident(&world, all(LIMIT));
        assert_same(&snapshot(mounted.directory()).unwrap(), &expected);
        let first = resident(&mounted);
        assert_eq!(first.loads, first.files);
        assert!(first.files > 3 && first.bytes > 1 << 20, "{first:?}");
        assert_eq!((first.evictions, first.failures, first.unfit), (0, 0, 0));
        assert_same(&snapshot(mounted.directory()).unwrap(), &expected);
        assert_eq!(resident(&mounted), first);
        assert_eq!(mounted.reads(), 0);
        mounted.unmount();
    }
}

#[test]
fn a_sealed_file_is_read_from_memory() {
    needs!(root_passes_through_or_skip());
    let world = needs!(World::with_mount_point());
    let content = noise(5_000_001, 1);
    let file = world.write("image", &content);
    seal(&file, &SealOptions::default()).unwrap();
    let mounted = mount_resident(&world, all(LIMIT));
    assert!(fs::read(mounted.path("image")).unwrap() == content);
    assert_eq!(mounted.reads(), 0);
    mounted.unmount();
}

#[test]
fn only_what_matches_is_loaded() {
    let world = needs!(world_with_files(&[100_000, 200_000]));
    let nothing = ResidentFiles::matching(["*.bin", "folder/**"], LIMIT).unwrap();
    let options = MountOptions {
        resident: Some(nothing),
        ..MountOptions::default()
    };
    let unpinned = OpenOptions::new().unpinned();
    let refused = Mounted::with(world.path("image"), &world.path("mnt"), &unpinned, &options);
    assert_eq!(refused.err().unwrap().kind(), ErrorKind::InvalidInput);

    let mounted = mount_resident(&world, ResidentFiles::matching(["1"], LIMIT).unwrap());
    assert!(fs::read(mounted.path("1")).unwrap() == noise(200_000, 1));
    assert_eq!((resident(&mounted).loads, mounted.reads()), (1, 0));
    assert!(fs::read(mounted.path("0")).unwrap() == noise(100_000, 0));
    assert_eq!(resident(&mounted).loads, 1);
    assert!(mounted.reads() > 0);
    mounted.unmount();
}

#[test]
fn what_fits_is_loaded_ahead() {
    let world = needs!(world_with_files(&[3 << 20, 9 << 20, 2 << 20]));
    let mounted = mount_resident(&world, at_once(all(6 << 20)));
    eventually("all that fits is loaded", || resident(&mounted).loads == 2);
    assert!(fs::read(mounted.path("0")).unwrap() == noise(3 << 20, 0));
    assert!(fs::read(mounted.path("2")).unwrap() == noise(2 << 20, 2));
    assert_eq!((resident(&mounted).loads, mounted.reads()), (2, 0));
    mounted.unmount();
}

/// It can be read all the same but for that block. What was loaded before is not affected.
#[test]
fn a_damaged_file_is_read_lazily() {
    let world = needs!(world_with_files(&[4 << 20, 4 << 20]));
    let image = world.path("image");
    let mounted = mount_resident(&world, all(LIMIT));
    let [before, after] = [0, 1].map(|number| noise(4 << 20, number));
    assert!(fs::read(mounted.path("0")).unwrap() == before);
    let stored = fs::read(&image).unwrap();
    for (content, block) in [(&before, 500), (&after, 700)] {
        flip_at(
            &image,
            position_of(&content[block * 4096..][..4096], &stored) as u64,
        );
    }
    assert!(fs::read(mounted.path("0")).unwrap() == before);
    let file = File::open(mounted.path("1")).unwrap();
    for (block, expected) in (0..).zip(after.chunks(4096)) {
        match read_at(&file, block * 4096, 4096) {
            Ok(bytes) => assert!(bytes == expected && block != 700, "{block}"),
            refused => assert_eq!((error_of(refused), block), (Errno::IO, 700)),
        }
    }
    drop(file);
    let status = mounted.json();
    let failures = status["recent_failures"].as_array().unwrap();
    assert!(failures.iter().all(|failure| failure["file"] == "/1"));
    assert!(status["mismatches"].as_u64().unwrap() > 0);
    let counted = resident(&mounted);
    assert_eq!((counted.loads, counted.failures), (1, 1));
    mounted.unmount();
}

/// Also ahead: what is found in spite of the damage is loaded.
#[test]
fn a_damaged_directory_is_passed_over() {
    needs!(root_passes_through_or_skip());
    let world = needs!(World::with_mount_point());
    let tree = world.directory("tree");
    let names = world.directory("tree/names");
    // In several blocks.
    for number in 0..1000 {
        fs::write(names.join(format!("{number}-is-a-name")), "").unwrap();
    }
    fs::write(tree.join("wanted"), noise(100_000, 1)).unwrap();
    let image = world.path("image");
    build(&tree, &image, &BuildOptions::default()).unwrap();
    flip_where(&image, b"500-is-a-name");
    let wanted = ResidentFiles::matching(["**/wanted"], LIMIT).unwrap();
    let mounted = mount_resident(&world, at_once(wanted));
    eventually("it is loaded", || resident(&mounted).loads == 1);
    assert!(fs::read(mounted.path("wanted")).unwrap() == noise(100_000, 1));
    assert_eq!(mounted.reads(), 0);
    mounted.unmount();
}

/// As long as a file is read lazily, further opens of it are, too: the kernel would refuse them otherwise.
#[test]
fn the_least_recently_used_file_makes_room() {
    let world = needs!(world_with_files(&[2 << 20; 4]));
    let content = |number| noise(2 << 20, number);
    let mounted = mount_resident(&world, all(4 << 20));
    let open = |number: u64| File::open(mounted.path(&number.to_string())).unwrap();
    let is_right = |file: &File, number| read_at(file, 0, 2 << 20).unwrap() == content(number);
    let (zero, one) = (open(0), open(1));
    let first_two = open(2);
    assert!(is_right(&first_two, 2));
    assert!(resident(&mounted).unfit == 1 && mounted.reads() > 0);
    assert!(resident(&mounted).bytes <= 4 << 20);
    drop(one);
    // The kernel tells that after close(2) has returned.
    eventually("one was given up for three", || {
        let three = open(3);
        assert!(is_right(&three, 3));
        resident(&mounted).evictions == 1
    });
    let second_two = open(2);
    assert!(is_right(&second_two, 2) && is_right(&zero, 0));
    drop((first_two, second_two));
    let loads = resident(&mounted).loads;
    eventually("two is loaded", || {
        assert!(is_right(&open(2), 2));
        resident(&mounted).loads > loads
    });
    assert!(is_right(&zero, 0));
    drop(zero);
    mounted.unmount();
}

#[test]
fn nothing_is_given_up_in_vain() {
    let world = needs!(world_with_files(&[3 << 20, 1 << 20, 3 << 20]));
    let mounted = mount_resident(&world, all(4 << 20));
    let zero = File::open(mounted.path("0")).unwrap();
    assert!(fs::read(mounted.path("1")).unwrap() == noise(1 << 20, 1));
    assert!(fs::read(mounted.path("2")).unwrap() == noise(3 << 20, 2));
    assert!(fs::read(mounted.path("1")).unwrap() == noise(1 << 20, 1));
    let status = resident(&mounted);
    assert_eq!((status.loads, status.evictions, status.unfit), (2, 0, 1));
    drop(zero);
    mounted.unmount();
}

/// Maps the files of a directory whose names are numbers below this one, and closes them.
const MAPPING: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
for number in range(int(sys.argv[2])):
    file = os.open(os.path.join(sys.argv[1], str(number)), os.O_RDONLY)
    if libc.mmap(None, 4096, 1, 1, file, 0) == ctypes.c_void_p(-1).value:
        sys.exit("not mapped")
    os.close(file)
print("mapped", flush=True)
sys.stdin.read()
"#;

/// The memory of a file that was given up is taken as long as it is mapped.
#[test]
fn files_that_are_mapped_are_not_all_given_up_in_vain() {
    let world = needs!(world_with_files(
        &[vec![1 << 20; 7], vec![3 << 19]].concat()
    ));
    let mut python = Command::new(needs!(tools::find("python3")));
    python.args(["-c", MAPPING]).arg(world.path("mnt")).arg("7");
    let mounted = mount_resident(&world, all(8 << 20));
    python.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut mapping = python.spawn().unwrap();
    let mut said = [0; 7];
    let output = mapping.stdout.as_mut().unwrap();
    output.read_exact(&mut said).unwrap();
    assert_eq!(said, *b"mapped\n");
    // The kernel tells that after close(2) has returned.
    eventually("they count as closed", || {
        assert!(fs::read(mounted.path("7")).unwrap() == noise(3 << 19, 7));
        resident(&mounted).evictions > 0
    });
    let status = resident(&mounted);
    assert_eq!((status.evictions, status.loads), (1, 7));
    drop(mapping.stdin.take());
    assert!(mapping.wait().unwrap().success());
    mounted.unmount();
}

/// Files take whole pages.
#[test]
fn many_small_files_make_room_for_one() {
    let world = needs!(world_with_files(
        &[vec![100; 200], vec![512 << 10]].concat()
    ));
    let mounted = mount_resident(&world, all(1 << 20));
    for number in 0..200 {
        assert!(fs::read(mounted.path(&number.to_string())).unwrap() == noise(100, number));
    }
    eventually("the large one fits", || {
        assert!(fs::read(mounted.path("200")).unwrap() == noise(512 << 10, 200));
        resident(&mounted).loads == 201
    });
    let status = resident(&mounted);
    assert!(
        status.evictions > 0 && status.bytes <= 1 << 20,
        "{status:?}"
    );
    mounted.unmount();
}

/// An image of which a part can be read only while nobody writes to the gate.
#[derive(Debug)]
struct Gated {
    image: Vec<u8>,
    behind: Range<u64>,
    gate: RwLock<()>,
    /// How many bytes were read there.
    passed: AtomicU64,
}

impl ReadAt for Gated {
    fn size(&self) -> u64 {
        self.image.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let end = offset + buf.len() as u64;
        let is_behind = offset < self.behind.end && self.behind.start < end;
        let _passed = is_behind.then(|| {
            self.passed.fetch_add(buf.len() as u64, SeqCst);
            self.gate.read().unwrap()
        });
        self.image.read_exact_at(buf, offset)
    }
}

#[test]
fn no_file_waits_for_the_storage_of_another_one() {
    const SMALL: u64 = 60;
    let sizes = [vec![32 << 20], vec![100_000; SMALL as usize]].concat();
    let world = needs!(world_with_files(&sizes));
    let large = noise(32 << 20, 0);
    let image = fs::read(world.path("image")).unwrap();
    let start = position_of(&large[..4096], &image) as u64;
    let gated = Arc::new(Gated {
        behind: start..start + (32 << 20),
        image,
        gate: RwLock::new(()),
        passed: AtomicU64::new(0),
    });
    let source = Location::source("image", gated.clone());
    // Not all small files fit beside it: the memory of those before is free again.
    let mounted = mount_resident_from(source, &world, all(34 << 20));
    let closed = gated.gate.write().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| fs::read(mounted.path("0")).unwrap() == large);
        eventually("it is being loaded", || resident(&mounted).loading == 1);
        for number in 1..=SMALL {
            assert!(fs::read(mounted.path(&number.to_string())).unwrap() == noise(100_000, number));
        }
        assert!(!waiting.is_finished());
        drop(closed);
        assert!(waiting.join().unwrap());
    });
    let status = resident(&mounted);
    assert_eq!((status.loads, status.unfit), (SMALL + 1, 0));
    assert_eq!(mounted.reads(), 0);
    mounted.unmount();
}

#[test]
fn nothing_is_loaded_ahead_after_the_end() {
    const SIZE: usize = 4 << 20;
    let world = needs!(world_with_files(&[SIZE, SIZE]));
    let image = fs::read(world.path("image")).unwrap();
    let starts = [0, 1].map(|number| position_of(&noise(SIZE, number)[..4096], &image) as u64);
    let gated = Arc::new(Gated {
        // What is read to open the image may reach into the first one.
        behind: starts[0] + SIZE as u64 / 2..starts[1] + SIZE as u64,
        image,
        gate: RwLock::new(()),
        passed: AtomicU64::new(0),
    });
    let source = Location::source("image", gated.clone());
    let closed = gated.gate.write().unwrap();
    let mounted = mount_resident_from(source, &world, at_once(all(LIMIT)));
    eventually("one is being loaded", || resident(&mounted).loading == 1);
    mounted.unmount();
    drop(closed);
    eventually("nobody reads it", || Arc::strong_count(&gated) == 1);
    assert!(gated.passed.load(SeqCst) <= SIZE as u64);
}

#[test]
fn many_open_a_file_at_once() {
    let world = needs!(world_with_files(&[8 << 20]));
    let mounted = mount_resident(&world, all(LIMIT));
    let content = noise(8 << 20, 0);
    thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| assert!(fs::read(mounted.path("0")).unwrap() == content));
        }
    });
    assert_eq!((resident(&mounted).loads, mounted.reads()), (1, 0));
    mounted.unmount();
}

/// Random files are opened, mapped and closed by processes of which each holds some mappings longer, under a limit of a
/// tenth of all.
#[test]
fn a_limit_far_below_the_files() {
    let mut random = Random::new(seed());
    let sizes: Vec<_> = (0..200)
        .map(|_| {
            let most = 1 << random.below(20);
            random.below(most)
        })
        .collect();
    let world = needs!(world_with_files(&sizes));
    let limit = (sizes.iter().sum::<usize>() as u64 / 10).next_multiple_of(4096);
    let mounted = mount_resident(&world, all(limit));
    // Ten minutes in all.
    let (rounds, seconds) = if is_exhaustive() {
        (20, "30")
    } else {
        (1, "3")
    };
    let script = include_str!("resident.py");
    let (mnt, tree) = (world.path("mnt"), world.path("tree"));
    let arguments = [&mnt, &tree, Path::new("16"), Path::new(seconds)];
    for _ in 0..rounds {
        needs!(python(script, &arguments)).succeeds();
        assert!(resident(&mounted).bytes <= limit);
    }
    let status = resident(&mounted);
    assert!(status.evictions > 0 && status.loads > 0, "{status:?}");
    assert_eq!(status.failures, 0);
    assert_eq!((status.loading, status.loading_bytes), (0, 0));
    mounted.unmount();
}
