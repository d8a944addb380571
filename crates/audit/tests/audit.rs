//! What reaches the target, whatever becomes of that.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File},
    io::{BufRead, BufReader},
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, net::UnixStream},
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::channel,
    },
    thread,
    time::Duration,
};

use arbtest::arbtest;
use serde_json::Value;
use verimount_audit::{
    AuditLog, AuditOptions, Full, Kept, Kind, Line, Outcome, Record, Rule, Tally, Target,
};
use verimount_testkit::eventually;

const WAIT: AuditOptions = AuditOptions {
    full: Full::Wait,
    patience: Duration::from_secs(60),
    is_sync: false,
};

fn record(path: &Path) -> Record<'_> {
    Record {
        kind: Kind::Audit,
        mount: Path::new("/mnt"),
        rule: Some(Rule {
            number: 1,
            line: 2,
            name: Some("programs"),
        }),
        operation: "open",
        access: Some("read"),
        path: Some(path),
        to: None,
        result: "passthrough",
        uid: 1,
        gid: 2,
        pid: 3,
    }
}

fn numbered(number: u64, tally: &Arc<Tally>) -> Vec<Line> {
    vec![record(Path::new(&number.to_string())).line(tally.clone())]
}

fn file(path: &Path) -> std::io::Result<Target> {
    let file = File::options().append(true).create(true).open(path)?;
    Target::new(file.into(), path)
}

fn log_to(path: PathBuf, options: AuditOptions) -> AuditLog {
    let target = file(&path).unwrap();
    AuditLog::start(target, Box::new(move || file(&path)), options).unwrap()
}

/// Keeps the lines of a request, however long that takes.
fn keep(log: &AuditLog, request: u64, lines: impl Fn() -> Vec<Line>) -> Outcome {
    loop {
        match log.keep(request, lines()) {
            Kept::Ended(outcome) => return outcome,
            Kept::Held => {
                let (told, tells) = channel();
                log.held(request, move |outcome| told.send(outcome).unwrap());
                if tells.recv().unwrap() == Outcome::Refused {
                    return Outcome::Refused;
                }
            }
        }
    }
}

/// The paths of all records, each of which parses.
fn paths(bytes: &[u8]) -> Vec<String> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines
        .map(|line| {
            assert_eq!(line.last(), Some(&b'\n'));
            let record: Value = serde_json::from_slice(line).unwrap();
            record["path"].as_str().unwrap().to_owned()
        })
        .collect()
}

/// What `printf %b` makes of a text.
fn undone(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match (byte, byte == b'\\') {
            (_, true) => match rest.next().unwrap() {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'x' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                other => other,
            },
            (plain, false) => plain,
        });
    }
    bytes
}

#[test]
fn a_line_gives_each_name_back() {
    arbtest(|u| {
        let name: &[u8] = u.arbitrary()?;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = log_to(path.clone(), WAIT);
        let lines = || vec![record(Path::new(OsStr::from_bytes(name))).line(Arc::default())];
        assert_eq!(log.keep(1, lines()), Kept::Ended(Outcome::Written));
        let written = fs::read(path).unwrap();
        assert!(
            !written[..written.len() - 1]
                .iter()
                .any(u8::is_ascii_control)
        );
        assert_eq!(paths(&written).len(), 1);
        assert_eq!(undone(&paths(&written)[0]), name);
        Ok(())
    })
    .size_max(200)
    .budget_ms(500);
}

#[test]
fn each_request_has_one_line_whoever_writes_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = &log_to(path.clone(), WAIT);
    let tally = &Arc::<Tally>::default();
    thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for number in (thread..8000).step_by(8) {
                    let kept = keep(log, number, || numbered(number, tally));
                    assert_eq!(kept, Outcome::Written);
                }
            });
        }
    });
    let mut numbers: Vec<u64> = paths(&fs::read(path).unwrap())
        .iter()
        .map(|path| path.parse().unwrap())
        .collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..8000));
    assert_eq!(tally.counts().decided, 8000);
}

#[test]
fn a_moved_file_is_left_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = log_to(path.clone(), WAIT);
    let tally = Arc::default();
    let mut request = 0;
    let mut write = || {
        request += 1;
        assert_eq!(
            keep(&log, request, || numbered(request, &tally)),
            Outcome::Written
        );
        request
    };
    write();
    fs::rename(&path, folder.path().join("old")).unwrap();
    log.reopen();
    eventually("it is opened again", || {
        write();
        path.exists()
    });
    // Without being told; and when it was removed.
    fs::rename(&path, folder.path().join("older")).unwrap();
    eventually("it is missed", || {
        write();
        path.exists()
    });
    let last = write();
    let all = ["old", "older", "log"].map(|name| fs::read(folder.path().join(name)).unwrap());
    assert!(
        paths(&all.concat())
            .into_iter()
            .eq((1..=last).map(|number| number.to_string()))
    );
    fs::remove_file(&path).unwrap();
    let next = write();
    assert_eq!(paths(&fs::read(&path).unwrap()), [next.to_string()]);
}

/// A socket whose other end reads nothing is full soon.
struct Stalled {
    log: AuditLog,
    reader: UnixStream,
    tally: Arc<Tally>,
    next: AtomicU64,
}

impl Stalled {
    fn new(options: AuditOptions) -> Self {
        let (ours, reader) = UnixStream::pair().unwrap();
        let target = Target::new(OwnedFd::from(ours), Path::new("socket")).unwrap();
        let again = || Err(std::io::ErrorKind::NotFound.into());
        Self {
            log: AuditLog::start(target, Box::new(again), options).unwrap(),
            reader,
            tally: Arc::default(),
            next: AtomicU64::new(0),
        }
    }

    fn try_next(&self) -> (u64, Kept) {
        let request = self.next.fetch_add(1, Relaxed);
        (
            request,
            self.log.keep(request, numbered(request, &self.tally)),
        )
    }

    /// Fills the socket. Returns the first request that is not written.
    fn fill(&self) -> (u64, Kept) {
        loop {
            let (request, kept) = self.try_next();
            if kept != Kept::Ended(Outcome::Written) {
                return (request, kept);
            }
        }
    }

    /// Reads this many lines.
    fn read(&self, count: u64) -> Vec<u64> {
        let lines = BufReader::new(&self.reader).lines();
        let lines = lines.take(count as usize).map(Result::unwrap);
        lines
            .map(|line| paths(format!("{line}\n").as_bytes())[0].parse().unwrap())
            .collect()
    }
}

#[test]
fn who_waits_goes_on_when_the_target_takes_more() {
    let stalled = Stalled::new(WAIT);
    let (first, kept) = stalled.fill();
    assert_eq!(kept, Kept::Held);
    let mut held = vec![first];
    held.extend((0..300).map(|_| stalled.try_next()).map(|(request, kept)| {
        assert_eq!(kept, Kept::Held);
        request
    }));
    let (told, tells) = channel();
    for request in &held {
        let (told, request) = (told.clone(), *request);
        stalled.log.held(request, move |outcome| {
            told.send((request, outcome)).unwrap();
        });
    }
    assert!(stalled.read(first + 301).into_iter().eq(0..first + 301));
    for request in held {
        assert_eq!(tells.recv().unwrap(), (request, Outcome::Written));
        // Asked again, it is not written again.
        let lines = numbered(request, &stalled.tally);
        assert_eq!(
            stalled.log.keep(request, lines),
            Kept::Ended(Outcome::Written)
        );
    }
    assert_eq!(stalled.log.status().waiting, 0);
    assert_eq!(stalled.tally.counts().decided, first + 301);
    assert_eq!(stalled.tally.counts().refused, 0);
}

/// A file was renamed meanwhile, for example.
#[test]
fn another_decision_than_the_one_that_waited_has_a_line_of_its_own() {
    let stalled = Stalled::new(WAIT);
    let (first, _) = stalled.fill();
    let (told, tells) = channel();
    stalled
        .log
        .held(first, move |outcome| told.send(outcome).unwrap());
    stalled.read(first + 1);
    assert_eq!(tells.recv().unwrap(), Outcome::Written);
    let lines = numbered(1_000_000, &stalled.tally);
    assert_eq!(
        stalled.log.keep(first, lines),
        Kept::Ended(Outcome::Written)
    );
    assert_eq!(stalled.read(1), [1_000_000]);
}

#[test]
fn who_waits_for_too_long_fails() {
    let stalled = Stalled::new(AuditOptions {
        patience: Duration::from_millis(300),
        ..WAIT
    });
    let (first, _) = stalled.fill();
    let (second, _) = stalled.try_next();
    let (told, tells) = channel();
    for request in [first, second] {
        let told = told.clone();
        stalled.log.held(request, move |outcome| {
            told.send((request, outcome)).unwrap();
        });
    }
    let mut failed = [tells.recv().unwrap(), tells.recv().unwrap()];
    failed.sort_by_key(|(request, _)| *request);
    assert_eq!(
        failed,
        [(first, Outcome::Refused), (second, Outcome::Refused)]
    );
    // What was begun is written to its end: no line is torn.
    let read = stalled.read(first);
    assert!(read.into_iter().eq(0..first));
    eventually("there is room", || {
        stalled.try_next().1 == Kept::Ended(Outcome::Written)
    });
}

#[test]
fn a_killed_caller_waits_no_longer() {
    let stalled = Stalled::new(WAIT);
    let (first, _) = stalled.fill();
    let (second, _) = stalled.try_next();
    stalled.log.held(second, |_| panic!("nobody waits"));
    stalled.log.forget(second);
    let (third, _) = stalled.try_next();
    let expected: Vec<u64> = (0..=first).chain([third]).collect();
    assert_eq!(stalled.read(first + 2), expected);
    assert_eq!(stalled.tally.counts().refused, 1);
}

#[test]
fn deny_fails_at_once() {
    let stalled = Stalled::new(AuditOptions {
        full: Full::Deny,
        ..WAIT
    });
    let (first, kept) = stalled.fill();
    assert_eq!(kept, Kept::Ended(Outcome::Refused));
    assert_eq!(stalled.try_next().1, Kept::Ended(Outcome::Refused));
    let counts = stalled.tally.counts();
    let read = stalled.read(first);
    assert!(read.into_iter().eq(0..first));
    eventually("there is room", || {
        stalled.try_next().1 == Kept::Ended(Outcome::Written)
    });
    assert!((1..=2).contains(&counts.refused));
}

#[test]
fn drop_counts_what_is_lost() {
    let stalled = Stalled::new(AuditOptions {
        full: Full::Drop,
        ..WAIT
    });
    const ALL: u64 = 50_000;
    for _ in 0..ALL {
        assert_eq!(stalled.try_next().1, Kept::Ended(Outcome::Written));
    }
    let lost = stalled.tally.counts().lost;
    assert!(lost > 0);
    assert_eq!(stalled.read(ALL - lost).len() as u64, ALL - lost);
    eventually("all is written", || stalled.log.status().waiting == 0);
    assert_eq!(stalled.tally.counts().decided, ALL);
    // The next one says so.
    stalled.try_next();
    let mut line = String::new();
    BufReader::new(&stalled.reader)
        .read_line(&mut line)
        .unwrap();
    let record: BTreeMap<String, Value> = serde_json::from_str(&line).unwrap();
    assert_eq!(record["lost"], lost);
}

#[test]
fn a_socket_that_has_gone_is_opened_again() {
    let (ours, reader) = UnixStream::pair().unwrap();
    let (next, next_reader) = UnixStream::pair().unwrap();
    let again = move || Target::new(next.try_clone()?.into(), Path::new("socket"));
    let target = Target::new(ours.into(), Path::new("socket")).unwrap();
    let log = AuditLog::start(target, Box::new(again), WAIT).unwrap();
    let tally = Arc::default();
    assert_eq!(keep(&log, 1, || numbered(1, &tally)), Outcome::Written);
    drop(reader);
    assert_eq!(keep(&log, 2, || numbered(2, &tally)), Outcome::Written);
    let mut line = String::new();
    BufReader::new(next_reader).read_line(&mut line).unwrap();
    assert_eq!(paths(line.as_bytes()), ["2"]);
}

#[test]
fn only_files_and_stream_sockets_are_targets() {
    let null = File::options().write(true).open("/dev/null").unwrap();
    let refused = Target::new(null.into(), Path::new("/dev/null")).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
}
