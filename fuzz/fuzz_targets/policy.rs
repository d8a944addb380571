//! Reads bytes as a policy, and decides an open and a move by whatever comes of it.

#![no_main]

use std::{ffi::OsStr, path::Path};

use libfuzzer_sys::fuzz_target;
use rustix::io::Errno;
use verimount_bridge::{
    Caller,
    policy::{Access, Decision, Facts, Kind, Move, Policy},
};
use verimount_verity::FileDigest;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    match Policy::parse(text, Path::new("policy.toml")) {
        Ok(policy) => {
            let mut audits = 0;
            let decision = decide(&policy, FROM, &mut || audits += 1);
            let explanation = policy.explain(&Open(FROM));
            let explained = explanation.expect("nothing that can fail is asked");
            let steps: Vec<&str> = explained.lines().collect();
            assert_eq!(steps.last(), Some(&&*decision.to_string()));
            let audited = steps.iter().filter(|step| step.ends_with(" logs the open"));
            assert_eq!(audited.count(), audits);
            for (kind, from, to) in [
                (Kind::File, FROM, TO),
                (Kind::Directory, "models", "public"),
            ] {
                let [from, to] = [from, to].map(Path::new);
                let moved = Move { kind, from, to };
                if decision == Decision::Deny && policy.loosened_by(moved, None).is_none() {
                    assert_eq!(decide(&policy, TO, &mut || ()), Decision::Deny);
                }
            }
        }
        Err(error) => {
            assert!(error.line <= text.split('\n').count());
            assert!(error.column > 0);
        }
    }
});

/// Where a file is, and where it is moved to.
const FROM: &str = "models/a/weights-01.bin";
const TO: &str = "public/a/weights-01.bin";

fn decide(policy: &Policy, path: &'static str, audit: &mut dyn FnMut()) -> Decision {
    let decided = policy.decide(&Open(path), &mut |_| audit());
    let (decision, _) = decided.expect("nothing that can fail is asked");
    decision
}

/// An open of some file at this path.
struct Open(&'static str);

impl Facts for Open {
    fn access(&self) -> Access {
        Access::Write
    }

    fn caller(&self) -> Caller {
        Caller {
            uid: 1000,
            gid: 100,
            pid: 1,
            request: 0,
        }
    }

    fn path(&self) -> Result<&Path, Errno> {
        Ok(Path::new(self.0))
    }

    fn size(&self) -> Result<u64, Errno> {
        Ok(1 << 20)
    }

    fn owner(&self) -> Result<(u32, u32), Errno> {
        Ok((0, 100))
    }

    fn content(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, Errno> {
        assert!(offset + bytes.len() as u64 <= 4096);
        bytes.fill(b'A');
        Ok(bytes.len())
    }

    fn xattr(&self, name: &OsStr) -> Result<Option<Vec<u8>>, Errno> {
        Ok(Some(name.as_encoded_bytes().to_vec()))
    }

    fn verity_digest(&self) -> Result<Option<FileDigest>, Errno> {
        Ok(None)
    }
}
