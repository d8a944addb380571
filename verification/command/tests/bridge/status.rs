//! Reads and writes that are passed through never reach the bridge: ordinary, asynchronous and mapped
//! ones.

use super::{mount, mount_by, mount_in, passes_through_or_skip, status};
use crate::prelude::*;

/// The relayed requests: reads and their bytes, writes and their bytes.
fn relayed(status: &Value) -> [u64; 4] {
    ["reads", "read_bytes", "writes", "written_bytes"]
        .map(|what| status["relayed"][what].as_u64().unwrap())
}

/// Reads and writes a file in one of fio's ways, with each block checked after. `false`, after a
/// note, where it is not to be had.
fn fio(engine: &str, path: &Path) -> bool {
    let Some(fio) = tools::find("fio") else {
        return false;
    };
    let mut fio = Command::new(fio);
    fio.args([
        "--name=job",
        "--size=4M",
        "--bs=4k",
        "--rw=randrw",
        "--verify=crc32c",
    ]);
    fio.args([
        "--iodepth=8",
        "--verify_fatal=1",
        "--verify_state_save=0",
        "--fallocate=none",
    ]);
    fio.arg(format!("--ioengine={engine}"));
    fio.arg(format!("--filename={}", path.to_str().unwrap()));
    let ended = finish(fio);
    let is_refused = ended.stderr.contains("Operation not permitted");
    if engine == "io_uring" && is_refused {
        skip("io_uring is not allowed here");
        return false;
    }
    ended.succeeds();
    true
}

#[test]
fn passed_through_requests_do_not_reach_the_bridge() {
    let world = needs!(World::with_source());
    let mounted = mount_in(&world, "auto");
    let directory = mounted.directory();
    needs!(passes_through_or_skip(directory));
    fs::write(mounted.path("file"), vec![7; 4 << 20]).unwrap();
    for engine in ["psync", "mmap", "libaio", "io_uring"] {
        fio(engine, &mounted.path("file"));
        let status = status(directory);
        assert_eq!(relayed(&status), [0; 4], "{engine}");
        assert_eq!(status["opens"]["relay"], 0);
    }
    assert!(status(directory)["opens"]["passthrough"].as_u64() > Some(4));
    mounted.unmount();
}

#[test]
fn relayed_requests_are_counted() {
    let world = needs!(World::with_source());
    let mounted = mount_in(&world, "never");
    fs::write(mounted.path("file"), [7; 300_000]).unwrap();
    assert_eq!(fs::read(mounted.path("file")).unwrap().len(), 300_000);
    let [reads, read, writes, written] = relayed(&status(mounted.directory()));
    assert!(reads > 0 && read >= 300_000);
    assert!(writes > 0 && written == 300_000);
    for engine in ["psync", "mmap", "libaio"] {
        fio(engine, &mounted.path("engine"));
    }
    mounted.unmount();
}

#[test]
fn open_files_are_counted() {
    let world = needs!(World::with_source());
    let mounted = mount_in(&world, "auto");
    let directory = mounted.directory();
    needs!(passes_through_or_skip(directory));
    fs::write(mounted.path("file"), "content").unwrap();
    let before = status(directory);
    let open: Vec<_> = (0..5)
        .map(|_| File::open(mounted.path("file")).unwrap())
        .collect();
    let during = status(directory);
    assert_eq!(during["passthrough"]["open"], 5);
    let count = |status: &Value, what: &str| status["passthrough"][what].as_u64().unwrap();
    // One backing file does for all of them.
    let registered = count(&during, "registered") - count(&before, "registered");
    let reused = count(&during, "reused") - count(&before, "reused");
    assert_eq!((registered + reused, registered <= 1), (5, true));
    drop(open);
    eventually("they are released", || {
        status(directory)["passthrough"]["open"] == 0
    });
    mounted.unmount();
}

#[test]
fn status_as_text() {
    let world = needs!(World::with_source());
    fs::write(world.path("src/file"), "content").unwrap();
    let mounted = mount(&world, &["--passthrough", "never"]);
    fs::read(mounted.path("file")).unwrap();
    let status = verimount(args!["status", mounted.directory()]);
    let text = status.succeeds_quietly().text().to_owned();
    assert!(
        text.contains("0 passed through, 1 relayed, 0 denied"),
        "{text}"
    );
    assert!(text.contains("1 reads of 7 bytes"), "{text}");
    mounted.unmount();
}

/// What was said when the policy was reloaded last, in the three forms.
#[test]
fn a_failed_reload_is_shown_until_one_succeeds() {
    let world = needs!(World::with_source());
    let policy = world.write("policy.toml", "default = \"relay\"");
    let mounted = mount_by(&world, "default = \"relay\"");
    let directory = mounted.directory();
    let shown = |options: &[&str]| {
        // It is not a mismatch.
        verimount(args!["status", directory; options.iter()])
            .succeeds_quietly()
            .text()
            .to_owned()
    };
    let failure = || status(directory)["policy"]["failure"].clone();
    let metric = |name: &str| {
        let text = shown(&["--prometheus"]);
        let path = policy.to_str().unwrap();
        let is_meant = |line: &&str| line.starts_with(&format!("verimount_policy_{name}{{"));
        let line = text.lines().find(is_meant).unwrap();
        assert!(line.contains(&format!("file=\"{path}\"")), "{line}");
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let began = status(directory)["policy"].clone();
    assert_eq!(began["file"], policy.to_str().unwrap());
    assert!(began["failure"].is_null());
    assert_eq!(metric("reload_failed"), 0);
    assert_eq!(
        metric("load_time_seconds"),
        began["loaded"].as_u64().unwrap()
    );
    assert!(!shown(&[]).contains("RELOAD"));

    world.write("policy.toml", "default = \"d\u{e9}ny\"");
    mounted.signal(Signal::HUP);
    eventually("it has failed", || !failure().is_null());
    let reason = failure()["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("policy.toml:1:11: "), "{reason}");
    assert!(failure()["at"].as_u64() >= began["loaded"].as_u64());
    assert_eq!(status(directory)["policy"]["loaded"], began["loaded"]);
    assert_eq!(metric("reload_failed"), 1);
    assert_eq!(
        metric("load_time_seconds"),
        began["loaded"].as_u64().unwrap()
    );
    let text = shown(&[]);
    let lines: Vec<_> = text.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.starts_with("RELOAD FAILED"))
        .unwrap();
    assert!(lines[at - 1].contains(policy.to_str().unwrap()), "{text}");
    assert!(lines[at].ends_with(&reason), "{text}");
    assert!(lines[at + 1].contains("the old policy"), "{text}");
    assert!(lines[at + 1].contains("is still in force"), "{text}");

    world.write("policy.toml", "");
    mounted.signal(Signal::HUP);
    eventually("it has succeeded", || failure().is_null());
    assert!(status(directory)["policy"]["loaded"].as_u64() >= began["loaded"].as_u64());
    assert_eq!(metric("reload_failed"), 0);
    assert!(!shown(&[]).contains("RELOAD"));
    mounted.unmount();
}
