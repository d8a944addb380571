//! A process and its helper. Without the usual harness, whose threads would keep the helper from being started.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
    process, thread,
};

use verimount_helper::{Answer, Task, ask, remove_file, removing, start};

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let [file, other] = ["file", "other"].map(|name| folder.path().join(name));
    for path in [&file, &other] {
        fs::write(path, "text").unwrap();
    }
    assert!(ask("pid", &[]).is_none(), "there is no helper yet");
    start(tasks(&file)).unwrap();

    let own = process::id().to_string();
    let helper = String::from_utf8(bytes("pid", &[])).unwrap();
    assert_ne!(helper, own);
    assert!(start(Vec::new()).is_err(), "there is one already");
    it_does_only_its_tasks(&file, &other);
    many_ask_at_once();
    it_ends(&helper);
}

fn tasks(file: &Path) -> Vec<Task> {
    let opened = file.to_owned();
    vec![
        Task::new("pid", |_| {
            Ok(Answer::of_bytes(process::id().to_string().into()))
        }),
        Task::new("reverse", |given| {
            Ok(Answer::of_bytes(given.iter().rev().copied().collect()))
        }),
        Task::new("open", move |_| {
            Ok(Answer::of_file(File::open(&opened)?.into()))
        }),
        Task::new("panic", |_| panic!("on purpose")),
        removing(vec![file.to_owned()]),
    ]
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

/// A helper that is gone is an error, and nothing waits for it.
fn it_ends(helper: &str) {
    let pid = rustix::process::Pid::from_raw(helper.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap();
    assert!(ask("pid", &[]).unwrap().is_err());
}
