//! Opens many sealed objects on one server, reads each at random places in 16 threads, and prints what that took of memory,
//! threads and descriptors; without and with a cache on disk. Then objects are opened beside 16 threads that read others in order,
//! over a slower network. Each of these has a process of its own.
//!
//! `cargo run --release -p verimount --features remote --example many [COUNT]`

use std::{
    env,
    error::Error,
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::fs::FileExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use verimount::{Cache, Content, FileDigest, Location, OpenOptions, ReadAt, SealOptions, seal};
use verimount_testkit::{HttpPace, HttpServer, Random, noise};

const SIZE: usize = 4 << 20;
const READS: usize = 10;
const READ: usize = 64 << 10;
const THREADS: usize = 16;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub(crate) fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["serve", folder] => serve(Path::new(folder)),
        ["read", url, folder] => read(url, Path::new(folder), false),
        ["read-cached", url, folder] => read(url, Path::new(folder), true),
        ["open-beside", url, folder] => open_beside(url, Path::new(folder)),
        [] => compare(1000),
        [count] => compare(count.parse()?),
        _ => Err("many [COUNT]".into()),
    }
}

/// Makes the objects, and reads them through a server, without and with a cache on disk.
fn compare(count: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut digests = String::new();
    for number in 0..count {
        let path = folder.path().join(number.to_string());
        fs::write(&path, noise(SIZE, number as u64))?;
        let options = SealOptions {
            append: true,
            ..SealOptions::default()
        };
        let sealed = seal(&path, &options)?;
        digests += &format!("{}\n", sealed.identity);
    }
    fs::write(folder.path().join("digests"), digests)?;
    let at = folder.path().to_str().ok_or("the folder has no name")?;
    let mut server = Killed(ourselves(&["serve", at]).stdout(Stdio::piped()).spawn()?);
    let told = server.0.stdout.take().ok_or("it has an output")?;
    let mut url = String::new();
    BufReader::new(told).read_line(&mut url)?;
    for way in ["read", "read-cached", "open-beside"] {
        let status = ourselves(&[way, url.trim(), at]).status()?;
        if !status.success() {
            return Err(format!("{way}: {status}").into());
        }
    }
    Ok(())
}

fn ourselves(arguments: &[&str]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(arguments);
    command
}

/// A process that ends with this.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It has ended if this fails.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Serves the objects, which all have the same size.
fn serve(folder: &Path) -> Result<()> {
    let size = fs::metadata(folder.join("0"))?.len();
    let objects = folder.to_owned();
    let server = HttpServer::with_ends(vec![0; size as usize], move |_, request, mut right| {
        let start = request.range.as_ref().map_or(0, |range| range.start);
        let name = request.path.trim_start_matches('/');
        let slow = name.strip_prefix("slow/");
        right.pace = slow.map(|_| HttpPace {
            piece: 32 << 10,
            pause: Duration::from_millis(1),
        });
        let object = File::open(objects.join(slow.unwrap_or(name)));
        match object.and_then(|object| object.read_exact_at(&mut right.body, start)) {
            Ok(()) => right,
            Err(_) => right.only_status(404),
        }
    });
    println!("{}", server.url(""));
    loop {
        thread::park();
    }
}

fn digests(folder: &Path) -> Result<Vec<FileDigest>> {
    let digests = fs::read_to_string(folder.join("digests"))?;
    let digests: std::result::Result<_, _> = digests.lines().map(str::parse).collect();
    Ok(digests?)
}

fn open(url: &str, number: usize, digest: FileDigest, options: &OpenOptions) -> Content {
    let at: Location = format!("{url}/{number}").parse().expect("a URL");
    let content = Content::open(at, &options.clone().digest(digest));
    content.expect("it is there")
}

/// Opens all objects, reads them, and prints what that took.
fn read(url: &str, folder: &Path, is_cached: bool) -> Result<()> {
    let digests = digests(folder)?;
    let cache = is_cached.then(|| Cache::open(folder.join("cache"), None));
    let options = OpenOptions::new().cache(cache.transpose()?);
    let before = of_status("VmHWM:")?;
    let is_over = AtomicBool::new(false);
    let (most_threads, most_files) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (next, opened) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let since = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                most_threads.fetch_max(of_status("Threads:").unwrap_or(0), Relaxed);
                most_files.fetch_max(count("/proc/self/fd"), Relaxed);
                thread::sleep(Duration::from_millis(5));
            }
        });
        let readers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Relaxed);
                        let Some(digest) = digests.get(number) else {
                            break;
                        };
                        let content = open(url, number, *digest, &options);
                        read_some(&content, number);
                        opened.lock().expect("nothing panics").push(content);
                    }
                })
            })
            .collect();
        let read = readers
            .into_iter()
            .try_for_each(thread::ScopedJoinHandle::join);
        is_over.store(true, Relaxed);
        read.expect("all is read");
    });
    let name = if is_cached {
        "cache on disk"
    } else {
        "no cache"
    };
    println!(
        "{name}: {} objects open, {:.1} s, {} MiB above the start, {} threads, {} descriptors",
        digests.len(),
        since.elapsed().as_secs_f64(),
        (of_status("VmHWM:")? - before) >> 10,
        most_threads.into_inner() - 1,
        most_files.into_inner(),
    );
    Ok(())
}

/// Opens every second object and reads its beginning, while others are read in order; prints how long that took.
fn open_beside(url: &str, folder: &Path) -> Result<()> {
    let digests = digests(folder)?;
    let url = format!("{url}/slow");
    let options = OpenOptions::new();
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut took = Vec::new();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut buf = vec![0; 256 << 10];
                while !is_over.load(Relaxed) {
                    let number = next.fetch_add(2, Relaxed) % digests.len();
                    let content = open(&url, number, digests[number], &options);
                    for at in (0..SIZE).step_by(buf.len()) {
                        content
                            .file()
                            .read_exact_at(&mut buf, at as u64)
                            .expect("it comes");
                    }
                }
            });
        }
        for number in (1..digests.len()).step_by(2).take(100) {
            thread::sleep(Duration::from_millis(20));
            let since = Instant::now();
            let content = open(&url, number, digests[number], &options);
            content
                .file()
                .read_exact_at(&mut [0; READ], 0)
                .expect("it comes");
            took.push(since.elapsed().as_millis());
        }
        is_over.store(true, Relaxed);
    });
    took.sort_unstable();
    println!(
        "opened and read beside {THREADS} readers in order: median {} ms, longest {} ms",
        took[took.len() / 2],
        took[took.len() - 1],
    );
    Ok(())
}

fn read_some(content: &Content, number: usize) {
    let mut random = Random::new(number as u64);
    let mut buf = vec![0; READ];
    for _ in 0..READS {
        let at = random.below(SIZE - READ) as u64;
        content
            .file()
            .read_exact_at(&mut buf, at)
            .expect("it comes");
    }
}

/// A number of the status of this process; sizes are in KiB.
fn of_status(name: &str) -> Result<usize> {
    let status = fs::read_to_string("/proc/self/status")?;
    let mut words = status.split_whitespace().skip_while(|word| *word != name);
    Ok(words.nth(1).ok_or("the system tells it")?.parse()?)
}

fn count(folder: &str) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}
