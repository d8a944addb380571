//! However a mirror ends, no writes are lost, and programs that still use it get an error.

use super::{WAYS, mount_in};
use crate::prelude::*;

#[test]
fn a_killed_daemon_loses_nothing() {
    for way in WAYS {
        let world = needs!(World::with_source());
        let mut killed = mount_in(&world, way);
        let mnt = world.path("mnt");
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(true).read(true).write(true);
        let file = file.open(mnt.join("file")).unwrap();
        file.write_all_at(b"content", 0).unwrap();
        file.sync_all().unwrap();
        killed.signal(Signal::KILL);
        assert_eq!(killed.wait().signal(), Some(Signal::KILL.as_raw()));
        for result in [
            File::open(mnt.join("file")).map(drop),
            fs::create_dir(mnt.join("new")),
            file.sync_all(),
        ] {
            assert_is_over(result);
        }
        if way == "never" {
            assert_is_over(file.write_at(b"lost", 0));
        }
        assert_eq!(fs::read(world.path("src/file")).unwrap(), b"content");
        let replaced = mount_in(&world, way);
        assert_eq!(fs::read(mnt.join("file")).unwrap(), b"content");
        drop(file);
        replaced.unmount();
    }
}

/// Over io_uring, a process can end before its connection; requests in between are cancelled.
#[track_caller]
fn assert_is_over<T>(result: io::Result<T>) {
    let error = error_of(result);
    let errors = [Errno::NOTCONN, Errno::CONNABORTED, Errno::CANCELED];
    assert!(errors.contains(&error), "{error}");
}

#[test]
fn open_files_are_served_to_the_end() {
    for way in WAYS {
        for signal in [Signal::TERM, Signal::INT] {
            let world = needs!(World::with_source());
            let mounted = mount_in(&world, way);
            let file = File::create_new(mounted.path("file")).unwrap();
            file.write_all_at(b"before ", 0).unwrap();
            mounted.signal(signal);
            eventually("it is out of sight", || {
                fs::read_dir(mounted.directory()).is_ok_and(|names| names.count() == 0)
            });
            file.write_all_at(b"after", 7).unwrap();
            file.sync_all().unwrap();
            drop(file);
            mounted.ends_well();
            assert_eq!(fs::read(world.path("src/file")).unwrap(), b"before after");
        }
    }
}

#[test]
fn a_mount_in_use_is_not_unmounted() {
    let world = needs!(World::with_source());
    let mounted = mount_in(&world, "auto");
    let file = File::create_new(mounted.path("file")).unwrap();
    verimount(args!["umount", mounted.directory()]).fails_saying("in use");
    file.write_all_at(b"content", 0).unwrap();
    drop(file);
    umount(mounted.directory());
    mounted.ends_well();
    assert_eq!(fs::read(world.path("src/file")).unwrap(), b"content");
}

/// The command returns when the mirror can be used, and the daemon writes the given log.
#[test]
fn a_daemon_in_the_background() {
    let world = needs!(World::with_source());
    let (src, mnt, log) = (world.path("src"), world.path("mnt"), world.path("log"));
    let policy = world.write(
        "policy.toml",
        "[[rule]]\nname = \"all\"\naction = \"audit\"\n",
    );
    let mut command = crate::common::user::User::Current.command();
    // All are found although the daemon leaves this directory.
    command.args([
        "bridge",
        "src",
        "mnt",
        "--policy",
        "policy.toml",
        "--log",
        "log",
    ]);
    command.current_dir(world.root());
    let mounted = Background::adopt(&mnt);
    finish(command).succeeds();
    fs::write(mnt.join("file"), "content").unwrap();
    assert_eq!(fs::read(src.join("file")).unwrap(), b"content");
    // The daemon answers first and logs then.
    eventually("the audited file is logged", || {
        let said = fs::read_to_string(&log).unwrap();
        said.contains("all") && said.contains("file")
    });
    fs::write(&policy, "default = \"deny\"").unwrap();
    let daemons = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let path = entry.ok()?.path();
        let arguments = fs::read(path.join("cmdline")).ok()?;
        let directory = fs::read_link(path.join("fd/2")).ok()?;
        let is_it = directory == log && arguments.windows(6).any(|word| word == b"bridge");
        is_it.then(|| path.file_name()?.to_str()?.parse().ok())?
    });
    let pid = daemons
        .last()
        .and_then(rustix::process::Pid::from_raw)
        .unwrap();
    rustix::process::kill_process(pid, Signal::HUP).unwrap();
    eventually("the policy is read again", || {
        File::open(mnt.join("file")).is_err()
    });
    umount(&mnt);
    drop(mounted);
}
