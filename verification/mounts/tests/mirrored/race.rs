//! Many threads open, change, move and replace the same files. The kernel returns `EIO` if a file is open
//! both passed through and cached, so no order of opens and closes may cause that.

use std::sync::atomic::Ordering::Relaxed;

use super::{mount_by, passes_through_or_skip, status};
use crate::prelude::*;

/// The number of threads, each with a part of the file that only it writes to.
const THREADS: usize = 50;

/// Length of such a part: not a divisor of the page, so that writers share pages.
const PART: usize = 3000;

/// The duration in seconds; overridden by `VERIMOUNT_RACE_SECONDS`.
const SECONDS: u32 = 4;

/// Opens for reading only are passed through and others relayed, so that both modes compete.
const POLICY: &str = "[[rule]]\naction = \"relay\"\naccess = \"write\"\n";

fn duration() -> Duration {
    let given = std::env::var("VERIMOUNT_RACE_SECONDS").ok();
    let seconds = given.map_or_else(|| random_cases(SECONDS), |text| text.parse().unwrap());
    Duration::from_secs(seconds.into())
}

/// Names of one file, some existing and some not.
fn names(directory: &Path) -> Vec<PathBuf> {
    let names = (0..4).map(|number| directory.join(format!("name {number}")));
    names.collect()
}

/// Opens the file by any of its names: they change, but one always exists.
fn open(names: &[PathBuf], write: bool, number: u64) -> io::Result<File> {
    for attempt in 0..1000 {
        let name = &names[(number as usize + attempt) % names.len()];
        match OpenOptions::new().read(true).write(write).open(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
    }
    panic!("no name leads to it");
}

/// Writes one thread's part of the file and reads all of it back.
fn work(names: &[PathBuf], part: usize, number: u64) -> io::Result<()> {
    let offset = (part * PART) as u64;
    let byte = (number >> 32) as u8;
    {
        let file = open(names, true, number)?;
        file.write_all_at(&[byte; PART], offset)?;
    }
    let mut found = [0; PART];
    open(names, number & 1 == 0, number >> 8)?.read_exact_at(&mut found, offset)?;
    assert!(found == [byte; PART], "wrong bytes in part {part}");
    Ok(())
}

/// Adds and removes names of the file, and always keeps the first.
fn rename(names: &[PathBuf], number: u64) -> io::Result<()> {
    let [one, other] = [0, 2].map(|shift| &names[1 + (number >> shift) as usize % 3]);
    let done = match number >> 60 {
        0..5 => fs::hard_link(&names[0], one),
        5..8 => fs::remove_file(one),
        _ => fs::rename(one, other),
    };
    match done {
        Err(error) if !is_about_names(&error) => Err(error),
        _ => Ok(()),
    }
}

fn is_about_names(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, NotFound};
    matches!(error.kind(), AlreadyExists | NotFound)
}

#[test]
fn one_file_is_opened_by_many() {
    let world = needs!(World::with_source());
    let source = world.path("src");
    fs::write(source.join("name 0"), vec![0; THREADS * PART]).unwrap();
    let mounted = mount_by(&world, POLICY);
    let names = names(mounted.directory());
    let opens = || {
        let opens = status(mounted.directory())["opens"].clone();
        ["passthrough", "relay", "followed"].map(|way| opens[way].as_u64().unwrap())
    };
    // Alone, each is served as the policy says.
    let passes_through = is_root() && passes_through_or_skip(mounted.directory());
    for write in [false, true] {
        drop(open(&names, write, 0).unwrap());
    }
    let expected = if passes_through { [1, 1, 0] } else { [0, 2, 0] };
    assert_eq!(opens(), expected);
    let (seed, end, count) = (seed(), Instant::now() + duration(), AtomicU64::new(0));
    thread::scope(|scope| {
        for part in 0..THREADS {
            let (names, count) = (&names, &count);
            scope.spawn(move || {
                for round in 0.. {
                    if Instant::now() > end {
                        break;
                    }
                    let seed = seed.wrapping_add((part as u64) << 32 | round);
                    let numbers = random_numbers(2, u64::MAX, seed);
                    work(names, part, numbers[0]).unwrap();
                    if part < 4 {
                        rename(names, numbers[1]).unwrap();
                    }
                    count.fetch_add(1, Relaxed);
                }
            });
        }
    });
    let [passthrough, relay, followed] = opens();
    let rounds = count.into_inner();
    eprintln!(
        "{rounds} rounds; {passthrough} passed through, {relay} relayed, {followed} followed"
    );
    assert!(rounds > THREADS as u64, "{rounds}");
    assert!(passthrough + relay >= 2 + 2 * rounds);
    // Some had to be served in the other way, because the file was open in it.
    assert_eq!(followed > 0, passes_through, "{followed}");
    let status = status(mounted.directory());
    assert_eq!(status["passthrough"]["open"], 0);
    mounted.unmount();
}

/// A file that is replaced by a rename exists at any time, and is complete.
#[test]
fn a_file_is_replaced_while_it_is_read() {
    let world = needs!(World::with_source());
    let mounted = mount_by(&world, POLICY);
    let path = mounted.path("file");
    let content = |writer: u8| vec![writer; 5000];
    fs::write(&path, content(0)).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 1..3 {
            let (path, done) = (&path, &done);
            scope.spawn(move || {
                let new = path.with_extension(writer.to_string());
                while !done.load(Relaxed) {
                    fs::write(&new, content(writer)).unwrap();
                    fs::rename(&new, path).unwrap();
                }
            });
        }
        let readers: Vec<_> = (0..4)
            .map(|_| {
                let path = &path;
                scope.spawn(move || {
                    let end = Instant::now() + duration() / 2;
                    while Instant::now() < end {
                        let found = fs::read(path)?;
                        assert!(found == content(found[0]), "a mixture");
                    }
                    Ok::<_, io::Error>(())
                })
            })
            .collect();
        let results: Vec<_> = readers
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        done.store(true, Relaxed);
        for result in results {
            result.unwrap().unwrap();
        }
    });
    mounted.unmount();
}

/// As with lock files: a process that finds none creates one.
#[test]
fn a_file_is_created_and_removed_by_many() {
    let world = needs!(World::with_source());
    let mounted = mount_by(&world, POLICY);
    let path = mounted.path("lock");
    let end = Instant::now() + duration() / 2;
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while Instant::now() < end {
                    let made = File::create_new(&path);
                    let refused = made.err().and_then(|error| Errno::from_io_error(&error));
                    assert!(matches!(refused, None | Some(Errno::EXIST)), "{refused:?}");
                    let opened = OpenOptions::new().append(true).create(true).open(&path);
                    opened.unwrap();
                    let removed = fs::remove_file(&path);
                    let refused = removed.err().and_then(|error| Errno::from_io_error(&error));
                    assert!(matches!(refused, None | Some(Errno::NOENT)), "{refused:?}");
                }
            });
        }
    });
    mounted.unmount();
}
