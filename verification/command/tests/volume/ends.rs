//! However a volume's daemon ends, no flushed writes are lost.

use super::{MODES, format, json, mount, open_disk};
use crate::prelude::*;

#[test]
fn a_killed_daemon_loses_nothing_that_was_flushed() {
    let content = noise(2 << 20, 1);
    for mode in MODES {
        let world = needs!(World::with_mount_point());
        let path = format(&world, &[]);
        let mut killed = mount(&world, &["--mode", mode]);
        let disk = open_disk(&killed);
        disk.write_all_at(&content, 4096).unwrap();
        disk.sync_all().unwrap();
        killed.signal(Signal::KILL);
        assert_eq!(killed.wait().signal(), Some(Signal::KILL.as_raw()));
        drop(disk);
        let info = json(args!["volume info --json", &path], 0);
        assert_eq!(info["dirty_bitmap"], mode == "bitmap");
        // The dead mount makes way for the new one.
        let mounted = mount(&world, &["--mode", mode]);
        assert!(read_at(&open_disk(&mounted), 4096, content.len()).unwrap() == content);
        mounted.unmount();
        verimount(args!["volume check", &path]).succeeds_quietly();
        let info = json(args!["volume info --json", &path], 0);
        assert_eq!(info["dirty_bitmap"], false);
        assert!(info["recalculation_sector"].is_null());
    }
}

/// After a crash in bitmap mode, tags are recalculated by the command that opens the volume first.
#[test]
fn tags_are_recalculated() {
    for checks in [false, true] {
        let world = needs!(World::with_mount_point());
        let path = format(&world, &[]);
        let mut killed = mount(&world, &["--mode", "bitmap"]);
        open_disk(&killed)
            .write_all_at(&noise(1 << 20, 1), 0)
            .unwrap();
        killed.signal(Signal::KILL);
        killed.wait();
        drop(killed);
        if checks {
            let checked = verimount(args!["volume check", &path]);
            checked.succeeds_quietly();
            checked.notes("recalculated the tags");
        } else {
            let mounted = mount(&world, &["--mode", "bitmap"]);
            eventually("all is checked again", || {
                let status = json(args!["status --json", mounted.directory()], 0);
                status["unchecked_from"].is_null()
            });
            mounted.unmount();
        }
        let checked = verimount(args!["volume check", &path]);
        assert!(!checked.succeeds_quietly().stderr.contains("recalculated"));
    }
}

#[test]
fn open_disks_are_served_to_the_end() {
    for signal in [Signal::TERM, Signal::INT] {
        let world = needs!(World::with_mount_point());
        let path = format(&world, &[]);
        let mounted = mount(&world, &["--mode", "bitmap"]);
        let disk = open_disk(&mounted);
        disk.write_all_at(b"before ", 0).unwrap();
        verimount(args!["umount", mounted.directory()]).fails_saying("in use");
        mounted.signal(signal);
        eventually("it is out of sight", || {
            std::fs::read_dir(mounted.directory()).is_ok_and(|names| names.count() == 0)
        });
        disk.write_all_at(b"after", 7).unwrap();
        drop(disk);
        mounted.ends_well();
        let info = json(args!["volume info --json", &path], 0);
        assert_eq!(info["dirty_bitmap"], false);
        let mounted = mount(&world, &[]);
        assert_eq!(
            read_at(&open_disk(&mounted), 0, 12).unwrap(),
            b"before after"
        );
        mounted.unmount();
    }
}

/// So that nobody takes the volume for free while its disk is still written to.
#[test]
fn a_volume_that_is_ending_stays_visible() {
    needs!(root_or_skip());
    let world = needs!(World::with_mount_point());
    format(&world, &[]);
    let mounted = mount(&world, &[]);
    let mnt = mounted.directory().to_owned();
    let disk = open_disk(&mounted);
    mounted.signal(Signal::TERM);
    eventually("it is out of sight", || {
        std::fs::read_dir(&mnt).is_ok_and(|names| names.count() == 0)
    });
    // Beside those that other tests are starting, and that have not let go of it yet.
    let user = format!(" {} (", std::process::id());
    eventually("it says so", || mounted.log().contains(&user));
    let list = || -> Vec<Value> {
        let list = verimount(["list", "--json"]);
        serde_json::from_value(list.succeeds_quietly().json()).unwrap()
    };
    let target = mnt.to_str().unwrap();
    let of_it = |list: Vec<Value>| list.into_iter().find(|listed| listed["target"] == target);
    let ending = of_it(list()).unwrap();
    assert_eq!(ending["state"], "ending");
    assert_eq!(ending["pid"], mounted.pid());
    assert!(
        ending["error"].as_str().unwrap().contains(&user),
        "{ending}"
    );
    verimount(args!["status", &mnt])
        .fails_saying(&user)
        .ends_with(3);
    let mut waiting = User::Current.command();
    let waiting = waiting.arg("umount").arg(&mnt).stderr(Stdio::piped());
    let mut waiting = waiting.spawn().unwrap();
    let mut said = String::new();
    let mut stderr = BufReader::new(waiting.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    assert!(said.starts_with("note: ") && said.contains(&user), "{said}");
    let grow = verimount(args!["volume grow", world.path("vol.img")]);
    grow.fails_saying(&format!("in use by process {} (", mounted.pid()));
    grow.fails_saying(&format!("on {target}, which is in use by "))
        .fails_saying(&user);
    assert!(waiting.try_wait().unwrap().is_none());
    drop(disk);
    assert!(waiting.wait().unwrap().success());
    mounted.ends_well();
    assert!(of_it(list()).is_none());
}

#[test]
fn a_daemon_in_the_background() {
    let world = needs!(World::with_mount_point());
    format(&world, &[]);
    let mnt = world.path("mnt");
    let mounted = Background::adopt(&mnt);
    let mut command = User::Current.command();
    // All are found although the daemon leaves this directory.
    command.args(["volume", "mount", "vol.img", "mnt", "--log", "log"]);
    command.current_dir(world.root());
    finish(command).succeeds();
    let disk = std::fs::File::options().write(true).open(mnt.join("disk"));
    disk.unwrap().write_all_at(b"content", 0).unwrap();
    umount(&mnt);
    drop(mounted);
    // It is closed by then.
    verimount(args!["volume check", world.path("vol.img")]).succeeds_quietly();
}

/// Other programs' `umount` returns while the daemon still closes the volume. The next command waits for
/// that, and prints a note.
#[test]
fn a_volume_that_is_being_closed_is_waited_for() {
    let world = needs!(World::with_mount_point());
    let path = format(&world, &[]);
    let closing = File::open(&path).unwrap();
    closing.lock().unwrap();
    let mut check = User::Current.command();
    check.args(["volume", "check"]).arg(&path);
    let mut check = check.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut stderr = BufReader::new(check.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    assert!(
        said.starts_with("note: ") && said.contains("is in use"),
        "{said}"
    );
    drop(closing);
    assert!(check.wait().unwrap().success());
}
