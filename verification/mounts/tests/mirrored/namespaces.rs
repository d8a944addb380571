//! A process with capabilities in a user namespace of its own, such as a container's root.

use super::{CachePolicy, Shown, for_all, mount};
use crate::prelude::*;

/// The first id of the namespace, outside.
const FIRST: u32 = 100_000;

/// Runs a command as root of a new user namespace. The numbers are those of x86-64 for `unshare`,
/// with `CLONE_NEWUSER`, `setresgid` and `setresuid`.
const IN_NAMESPACE: &str = r#"
    use strict;
    pipe(my $told, my $tell); pipe(my $ended, my $end);
    my $child = fork();
    if (!$child) {
        syscall(272, 0x10000000) == 0 or exit 77;
        syswrite($tell, 'x'); sysread($ended, my $byte, 1);
        syscall(119, 0, 0, 0) == 0 and syscall(117, 0, 0, 0) == 0 or die;
        exec @ARGV;
    }
    sysread($told, my $byte, 1);
    for my $name ('uid_map', 'gid_map') {
        open(my $map, '>', "/proc/$child/$name") or exit 77;
        syswrite($map, "0 100000 65536\n");
    }
    syswrite($end, 'x'); waitpid($child, 0); exit($? >> 8);
"#;

/// What such a root may do with its own files, and not with those of others.
const SCRIPT: &str = "
    id -u; try() { \"$@\" > /dev/null 2>&1 && echo \"done: $*\" || echo \"refused: $*\"; }
    show() { stat -c '%n %u %g %a' * | sort; }
    touch file; mkdir folder
    try chown 5:7 file; try chmod 6755 file; show
    try chmod 2750 file; try touch -d 2001-01-01 file; try setfattr -n user.x -v y file
    try chown 0:0 file; try chmod 0711 file; try setcap cap_net_raw+ep file; show
    for other in root mixed; do
        try chmod 4777 $other; try chown 0 $other; try chgrp 0 $other; try truncate -s 1 $other
        try touch -d 2001-01-01 $other; try setfattr -n user.x -v y $other; try rm -f sticky/$other
        try mv sticky/$other sticky/moved; try ln $other linked; try setcap cap_net_raw+ep $other
    done
    try rm -f sticky/own; try mkdir closed/new; try rm -r folder; show; ls sticky
";

fn in_namespace(directory: &Path, script: &str) -> Ended {
    let mut command = Command::new("perl");
    command
        .args(["-e", IN_NAMESPACE, "sh", "-c", script])
        .current_dir(directory);
    finish(command)
}

/// Files of the namespace's root, of the system's root, and one whose group is not in the namespace.
fn make(directory: &Path) {
    let own = |path: &Path, uid, gid| chown(path, Some(uid), Some(gid)).unwrap();
    for (name, mode) in [("", 0o777), ("sticky", 0o1777), ("closed", 0o700)] {
        let path = directory.join(name);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    own(&directory.join("closed"), FIRST + 9, FIRST + 9);
    for directory in [directory.to_owned(), directory.join("sticky")] {
        for (name, uid, gid) in [
            ("root", 0, 0),
            ("mixed", FIRST + 9, 0),
            ("own", FIRST + 9, FIRST + 9),
        ] {
            let path = directory.join(name);
            fs::write(&path, "content").unwrap();
            own(&path, uid, gid);
        }
    }
    own(&directory.join("sticky"), 0, FIRST);
}

#[test]
fn a_containers_root_may_do_what_it_may_on_the_source() {
    let can_run = cfg!(target_arch = "x86_64") && tools::find("perl").is_some();
    if !root_or_skip() || !can_run {
        return;
    }
    for cache in [CachePolicy::Strict, CachePolicy::Normal] {
        let world = needs!(World::with_source());
        let (source, native) = (world.path("src"), world.directory("native"));
        make(&source);
        make(&native);
        let mounted = mount(
            &world,
            Shown {
                cache,
                ..for_all("auto")
            },
        );
        let here = in_namespace(&native, SCRIPT);
        if here.status.code() == Some(77) {
            return skip("no user namespaces here");
        }
        let there = in_namespace(&mounted.path(""), SCRIPT);
        assert_eq!(there.text(), here.text(), "{cache}");
        here.says("done: chown 5:7 file");
        here.says("refused: chmod 4777 root");
        let found = |at: &Path| {
            in_namespace(at, "getcap file; getfattr -dm- file")
                .text()
                .to_owned()
        };
        assert_eq!(found(&source), found(&native));
        mounted.unmount();
    }
}
