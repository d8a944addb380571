//! What a bridge records of what it decides.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::SeqCst},
        mpsc::channel,
    },
    time::Duration,
};

use rustix::io::Errno;
use serde_json::Value;
use verimount_audit::{AuditLog, AuditOptions, Full, Outcome, Target};
use verimount_bridge::{Audit, Caller};
use verimount_fuse::HELD;

/// A log, and what each request has come to.
pub(crate) struct Records {
    folder: tempfile::TempDir,
    pub(crate) audit: Audit,
    last: AtomicU32,
    ends: Mutex<BTreeMap<u32, End>>,
}

/// What a request has come to.
#[derive(Debug)]
struct End {
    asked: Asked,
    /// How often it was held.
    held: usize,
    result: Result<(), Errno>,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Content, so that all rules are asked.
    Content,
    /// A change of names.
    Names,
}

impl Records {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let open = move || {
            let file = fs::File::options().create(true).append(true).open(&path)?;
            Target::new(file.into(), &path)
        };
        let options = AuditOptions {
            full: Full::Wait,
            patience: Duration::from_secs(60),
            is_sync: false,
        };
        let log = AuditLog::start(open().unwrap(), Box::new(open), options).unwrap();
        Self {
            folder,
            audit: Audit {
                log: Arc::new(log),
                mount: Path::new("/mnt").to_owned(),
            },
            last: AtomicU32::new(0),
            ends: Mutex::default(),
        }
    }

    /// Does an operation for a user as one request, also if that is held. Its records have its number as the thread.
    pub(crate) fn ask<T>(
        &self,
        uid: u32,
        asked: Asked,
        operation: impl Fn(Caller) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let number = self.last.fetch_add(1, SeqCst) + 1;
        let (pid, request) = (number, u64::from(number));
        let gid = 100;
        let caller = Caller {
            uid,
            gid,
            pid,
            request,
        };
        let mut held = 0;
        let ended = loop {
            let done = operation(caller);
            if !matches!(done, Err(HELD)) {
                break done;
            }
            held += 1;
            let (told, tells) = channel();
            let log = &self.audit.log;
            log.held(request, move |outcome| told.send(outcome).unwrap());
            assert_eq!(tells.recv().unwrap(), Outcome::Written);
        };
        self.audit.log.forget(request);
        let end = End {
            asked,
            held,
            result: ended.as_ref().map(drop).map_err(|errno| *errno),
        };
        self.ends.lock().unwrap().insert(number, end);
        ended
    }

    /// Asserts that each decision has exactly one record, if all opens are audited. A request that was held is decided again:
    /// another decision by then is one more.
    pub(crate) fn check(&self) {
        let text = fs::read_to_string(self.folder.path().join("log")).unwrap();
        let mut records = BTreeMap::<u32, Vec<Value>>::new();
        for line in text.lines() {
            let mut record: Value = serde_json::from_str(line).unwrap();
            record["time"].take();
            let number = u32::try_from(record["pid"].as_u64().unwrap()).unwrap();
            let others = records.entry(number).or_default();
            assert!(!others.contains(&record), "twice: {record}");
            others.push(record);
        }
        let ends = self.ends.lock().unwrap();
        for (number, end) in &*ends {
            end.check(records.get(number).map_or(&[], Vec::as_slice));
        }
        let recorded: usize = records.values().map(Vec::len).sum();
        println!("{recorded} records of {} requests", ends.len());
    }
}

impl End {
    fn check(&self, records: &[Value]) {
        let is_denied = self.result == Err(Errno::ACCESS);
        let (denials, audits): (Vec<_>, Vec<_>) = records
            .iter()
            .partition(|record| record["kind"] == "denial");
        let expected_audits = match self.asked {
            // One that fails before it is decided has none.
            Asked::Content => usize::from(self.result.is_ok() || is_denied)..=1 + self.held,
            Asked::Names => 0..=0,
        };
        assert!(
            expected_audits.contains(&audits.len()),
            "{self:?} {audits:?}"
        );
        if let Some(last) = audits.last() {
            assert_eq!(last["result"] == "deny", is_denied, "{self:?} {last}");
        }
        let expected_denials = usize::from(is_denied)..=usize::from(is_denied) + self.held;
        assert!(
            expected_denials.contains(&denials.len()),
            "{self:?} {denials:?}"
        );
    }
}
