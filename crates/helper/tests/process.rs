//! A process and its helper. Without the usual harness, whose threads would keep the helper from being started.

use std::{
    fs::{self, File, Permissions},
    io::{self, Read},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process, thread,
};

use rustix::process::{Pid, Signal, kill_process};
use verimount_helper::{Answer, Task, ask, detach, remove_file, removing, start};

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let [file, other, theirs] = ["file", "other", "theirs"].map(|name| folder.path().join(name));
    for path in [&file, &other] {
        fs::write(path, "text").unwrap();
    }
    fs::create_dir(&theirs).unwrap();
    fs::set_permissions(&theirs, Permissions::from_mode(0o777)).unwrap();
    assert!(ask("pid", &[]).is_none(), "there is no helper yet");
    detach().unwrap();
    let moved = theirs.join("directory/other");
    start(tasks(&file, &moved)).unwrap();

    let own = process::id().to_string();
    let helper = String::from_utf8(bytes("pid", &[])).unwrap();
    assert_ne!(helper, own);
    let helper = Pid::from_raw(helper.parse().unwrap()).unwrap();
    assert!(start(Vec::new()).is_err(), "there is one already");
    it_does_only_its_tasks(&file, &other);
    it_removes_nothing_elsewhere(&moved, &other);
    many_ask_at_once();
    signals_do_not_end_it(helper);
    it_leaves_when_it_is_told(helper);
    signals_do_not_end_it(helper);
    it_ends(helper);
}

fn tasks(file: &Path, moved: &Path) -> Vec<Task> {
    let opened = file.to_owned();
    vec![
        Task::new("pid", |_| {
            Ok(Answer::of_bytes(process::id().to_string().into()))
        }),
        Task::new("groups", |_| Ok(Answer::of_bytes(groups().into()))),
        Task::new("reverse", |given| {
            Ok(Answer::of_bytes(given.iter().rev().copied().collect()))
        }),
        Task::new("open", move |_| {
            Ok(Answer::of_file(File::open(&opened)?.into()))
        }),
        Task::new("panic", |_| panic!("on purpose")),
        removing(vec![file.to_owned(), moved.to_owned()]),
    ]
}

/// The process group and the session of this process, from proc(5): both may be 0, of another PID namespace, which
/// [`Pid`] cannot hold.
fn groups() -> String {
    let status = fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = status.rsplit_once(") ").unwrap();
    fields.split(' ').collect::<Vec<_>>()[2..4].join(" ")
}

fn bytes(task: &str, given: &[u8]) -> Vec<u8> {
    ask(task, given).unwrap().unwrap().bytes
}

fn it_does_only_its_tasks(file: &Path, other: &Path) {
    let unknown = ask("become root", &[]).unwrap().unwrap_err();
    assert_eq!(unknown.kind(), io::ErrorKind::PermissionDenied);
    let panicked = ask("panic", &[]).unwrap().unwrap_err();
    assert!(panicked.to_string().contains("has failed"), "{panicked}");
    assert!(ask("reverse", &vec![0; 1 << 20]).unwrap().is_err());

    let opened = ask("open", &[]).unwrap().unwrap().file.unwrap();
    let mut text = String::new();
    File::from(opened).read_to_string(&mut text).unwrap();
    assert_eq!(text, "text");

    let refused = remove_file(other).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    assert!(other.exists());
    remove_file(file).unwrap();
    assert!(!file.exists());
    let missing = remove_file(file).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
}

/// Others may change the directory meanwhile in which a file to be removed is.
fn it_removes_nothing_elsewhere(moved: &Path, other: &Path) {
    symlink("..", moved.parent().unwrap()).unwrap();
    assert!(moved.exists());
    let refused = remove_file(moved).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    assert!(other.exists());
}

fn many_ask_at_once() {
    thread::scope(|scope| {
        for number in 0..8_u8 {
            scope.spawn(move || {
                for second in 0..50 {
                    assert_eq!(bytes("reverse", &[number, second]), [second, number]);
                }
            });
        }
    });
}

/// They reach it from the terminal, too, as long as it is in the group of whoever started it.
fn signals_do_not_end_it(helper: Pid) {
    for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
        kill_process(helper, signal).unwrap();
        assert_eq!(bytes("reverse", &[1, 2]), [2, 1]);
    }
}

/// The automounter that it mounts for is known by its process group: autofs lets all others wait for that mount.
fn it_leaves_when_it_is_told(helper: Pid) {
    let its = || String::from_utf8(bytes("groups", &[])).unwrap();
    assert_eq!(its(), groups());
    // Again does no harm.
    for _ in 0..2 {
        detach().unwrap();
        assert_eq!(its(), format!("{helper} {helper}"));
    }
}

/// A helper that is gone is an error, and nothing waits for it.
fn it_ends(helper: Pid) {
    kill_process(helper, Signal::KILL).unwrap();
    rustix::process::waitpid(Some(helper), rustix::process::WaitOptions::empty()).unwrap();
    assert!(ask("pid", &[]).unwrap().is_err());
    assert!(detach().is_err());
}
