use std::{fs, thread};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::mounted::{Mounted, Wanted};

fn only(processor: usize) -> CpuSet {
    let mut only = CpuSet::new();
    only.set(processor);
    only
}

/// Requests come from all processors, even those on which the daemon may not run.
#[test]
fn requests_from_processors_on_which_the_daemon_may_not_run() {
    let all = sched_getaffinity(None).unwrap();
    let processors: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&i| all.is_set(i)).collect();
    let first = processors[0];
    let mounted = thread::spawn(move || {
        sched_setaffinity(None, &only(first)).unwrap();
        Mounted::new(Wanted::IoUring)
    });
    let Some(mounted) = mounted.join().unwrap() else {
        return;
    };
    thread::scope(|scope| {
        for processor in processors {
            let path = mounted.path(&processor.to_string());
            scope.spawn(move || {
                sched_setaffinity(None, &only(processor)).unwrap();
                for _ in 0..100 {
                    fs::write(&path, "content").unwrap();
                    assert_eq!(fs::read(&path).unwrap(), b"content");
                }
            });
        }
    });
    mounted.unmount();
}
