//! Owners of new files, and permissions: as on the source.

use rustix::mount::mount as mount_system;

use super::{Mirrored, WAYS, for_all, mount, mount_in, world_on_ext4};
use crate::prelude::*;

/// A world whose source everybody may change, for root.
fn open_world() -> Option<World> {
    if !root_or_skip() {
        return None;
    }
    let world = World::with_source()?;
    fs::set_permissions(world.path("src"), PermissionsExt::from_mode(0o777)).unwrap();
    Some(world)
}

/// Does the same in the mirror and in a directory like the source, and compares the results.
#[track_caller]
fn comes_out_alike(
    world: &World,
    way: &str,
    prepare: &str,
    users: &[(u32, u32, &[u32])],
    script: &str,
) {
    let native = world.directory(&format!("native {way}"));
    let source = world.directory(&format!("source {way}"));
    let root = |at: &Path, script: &str| shell_as(0, 0, &[], at, script);
    for at in [&native, &source] {
        fs::set_permissions(at, PermissionsExt::from_mode(0o777)).unwrap();
        root(at, prepare).succeeds();
    }
    let mnt = world.path("mnt");
    let mounted = Mirrored::new(&source, &mnt, for_all(way));
    for (uid, gid, groups) in users {
        let [here, there] = [&native, &mnt].map(|at| shell_as(*uid, *gid, groups, at, script));
        assert_eq!(there.text(), here.text());
        assert_eq!(there.stderr, here.stderr);
        let list = "find . ! -path . -printf '%p %y %m %U %G %n %s\n' | sort";
        let [here, there] = [&native, &mnt].map(|at| root(at, list).text().to_owned());
        assert_eq!(there, here);
        assert_eq!(root(&source, list).text(), here);
    }
    mounted.unmount();
}

const NOBODY: (u32, u32, &[u32]) = (65534, 65534, &[]);
const SOMEBODY: (u32, u32, &[u32]) = (4321, 8765, &[777, 888]);

#[test]
fn new_files_belong_to_their_creators() {
    let world = needs!(open_world());
    let script = "
        umask 027; d=d$(id -u); mkdir $d; echo file > $d/file; ln -s file $d/link; mkfifo $d/fifo
        ln $d/file $d/hard; umask 0; echo open > $d/open; mkdir -m 1777 $d/sticky
        install -m 755 /bin/true $d/program; $d/program
        touch -d '2001-02-03 04:05:06.789 UTC' $d/file; stat -c %y $d/file
        ! chown 0 $d/file 2>&1; ! chgrp 0 $d/file 2>&1; chmod 6755 $d/program; stat -c %a $d/program
        [ $(id -u) = 0 ] || echo x >> $d/program
    ";
    for way in WAYS {
        comes_out_alike(&world, way, "", &[NOBODY, SOMEBODY, (0, 0, &[])], script);
    }
}

/// Set-group-ID directories, groups of the caller, and bits that only members may set.
#[test]
fn setgid_directories_pass_on_their_group() {
    let world = needs!(open_world());
    let prepare = "
        mkdir shared; chgrp 777 shared; chmod 2775 shared
        mkdir closed; chgrp 888 closed; chmod 770 closed; echo secret > closed/file; chmod 640 closed/file
        chgrp 888 closed/file; mkdir other; chmod 2777 other; chgrp 999 other
    ";
    let script = "
        u=$(id -u); umask 002
        ( mkdir shared/d$u; echo > shared/f$u; echo > shared/d$u/inner; chmod 2755 shared/f$u ) 2>&1 || true
        ( cat closed/file; echo > closed/new$u ) 2>&1 || true
        ( mkdir other/d$u; echo > other/f$u; chmod 2755 other/f$u; chgrp 888 other/f$u ) 2>&1 || true
    ";
    for way in WAYS {
        let users = [NOBODY, SOMEBODY];
        comes_out_alike(&world, way, prepare, &users, script);
    }
}

#[test]
fn permissions_of_the_source_apply() {
    let world = needs!(open_world());
    let prepare = "
        echo secret > private; chmod 600 private; echo public > public; mkdir -m 700 closed
        echo hidden > closed/file; mkdir -m 1777 sticky; echo mine > sticky/mine; mkdir -m 711 passage
        echo found > passage/file; echo append > append; chmod 622 append; chmod 755 .
    ";
    let script = "
        for command in 'cat private' 'cat closed/file' 'ls closed' 'echo x >> public' 'rm public' \
            'mv public other' 'rm -f sticky/mine' 'mv sticky/mine sticky/yours' 'ls passage' \
            'cat passage/file' 'chmod 777 public' 'touch -d 2001-01-01 public' 'mkdir new' 'ln public hard' \
            'ln -s x link' 'mknod null c 1 3' 'truncate -s 0 public' 'echo x >> append' 'cat append' \
            'setfattr -n user.x -v y public' 'cat public'
        do sh -c \"$command\" > out$$ 2>&1 || echo \"$command: failed\"; done 2> /dev/null; true
    ";
    for way in WAYS {
        comes_out_alike(&world, way, prepare, &[NOBODY, SOMEBODY], script);
    }
}

/// Access control lists decide, and new files inherit them.
#[test]
fn access_control_lists() {
    let world = needs!(open_world());
    needs!(tools::find("setfacl"));
    let prepare = "
        mkdir d; chmod 700 d; setfacl -m u:4321:rwx -d -m u:65534:rw,g::r,o::- d
        echo listed > listed; chmod 600 listed; setfacl -m u:65534:r,g:888:rw listed
    ";
    let script = "
        umask 022; u=$(id -u); cat listed 2>&1 || true; ( echo x >> listed ) 2>&1 || true
        ( echo > d/new$u; mkdir d/d$u ) 2>&1 || true; getfacl -nR . 2>&1 | grep -v '^# file' | sort
    ";
    for way in WAYS {
        comes_out_alike(&world, way, prepare, &[NOBODY, SOMEBODY], script);
    }
}

/// Every user's write clears a program's set-user-ID bit, passed through or not.
#[test]
fn changed_programs_lose_their_privileges() {
    let world = needs!(open_world());
    for way in WAYS {
        let mounted = mount(&world, for_all(way));
        let program = world.path("src/program");
        for change in [
            "echo x >> program",
            "truncate -s 1 program",
            "echo > program",
        ] {
            fs::write(&program, "program").unwrap();
            fs::set_permissions(&program, PermissionsExt::from_mode(0o6777)).unwrap();
            eventually("its rights are seen", || {
                fs::metadata(mounted.path("program")).unwrap().mode() & 0o7777 == 0o6777
            });
            shell_as(65534, 65534, &[], mounted.directory(), change).succeeds();
            let mode = fs::metadata(&program).unwrap().mode() & 0o7777;
            assert_eq!(mode, 0o777, "{change}");
        }
        mounted.unmount();
    }
}

/// Set-ID bits are cleared and kept as on the source, for changes of nothing else.
#[test]
fn set_id_bits_are_cleared_as_on_the_source() {
    let world = needs!(open_world());
    if tools::find("python3").is_none() || tools::find("setfacl").is_none() {
        return;
    }
    let prepare = "
        touch mine marked; chown 4321 mine; chmod 6755 mine; chgrp 777 marked; chmod 2746 marked
        mkdir folder; chown 4321:0 folder; chmod 2775 folder; touch given; chown 4321 given; chmod 4755 given
    ";
    let script = "
        python=$(PATH=/usr/local/bin:/usr/bin:/bin; command -v python3)
        for file in mine given; do
            $python -c \"import os; os.chown('$file', -1, -1)\" 2> /dev/null || echo $file: failed
        done
        [ $(id -u) = 0 ] && chown 1 marked || setfacl -m u:1:rwx folder 2> /dev/null || true
    ";
    for way in WAYS {
        let users = [SOMEBODY, (0, 0, &[][..])];
        comes_out_alike(&world, way, prepare, &users, script);
    }
}

/// An ordinary user cannot use more blocks through the mount than on the source: the rest is reserved for
/// root.
#[test]
fn blocks_that_are_reserved_for_root() {
    for way in WAYS {
        let world = needs!(world_on_ext4(&["-m", "30"]));
        let src = world.path("src");
        fs::set_permissions(&src, PermissionsExt::from_mode(0o777)).unwrap();
        let mounted = mount(&world, for_all(way));
        let fill = |at: &Path, script: &str| {
            let ended = shell_as(65534, 65534, &[], at, script);
            ended.notes("No space left");
            let len = fs::metadata(src.join("large")).unwrap().len();
            fs::remove_file(at.join("large")).unwrap();
            eventually("the room is free again", || {
                let usage = statvfs(&src).unwrap();
                usage.f_bavail > usage.f_blocks / 2
            });
            len
        };
        let write = "exec head -c 64M /dev/zero > large";
        let (here, there) = (fill(&src, write), fill(mounted.directory(), write));
        // The last block can be one of its extents.
        assert!(here.abs_diff(there) <= 64 << 10, "{here} and {there}");
        fill(mounted.directory(), "exec fallocate -l 50M large");
        mounted.unmount();
    }
}

#[test]
fn device_nodes_are_shown_and_lead_nowhere() {
    let world = needs!(open_world());
    let mounted = mount_in(&world, "auto");
    shell_as(
        0,
        0,
        &[],
        mounted.directory(),
        "mknod null c 1 3; mknod disk b 259 65535",
    )
    .succeeds();
    let (known, seen) = (world.path("src/null"), mounted.path("null"));
    let [known, seen] = [known, seen].map(|path| fs::metadata(path).unwrap());
    assert_eq!((seen.mode(), seen.rdev()), (known.mode(), known.rdev()));
    assert!(fs::read(mounted.path("null")).is_err());
    assert!(fs::read(mounted.path("disk")).is_err());
    mounted.unmount();
}

/// Without `--allow-other` no other user has access.
#[test]
fn other_users_are_kept_out() {
    let world = needs!(open_world());
    fs::write(world.path("src/file"), "content").unwrap();
    let mounted = mount_in(&world, "auto");
    let script = format!("cat '{}'", mounted.path("file").to_str().unwrap());
    assert!(
        !shell_as(65534, 65534, &[], Path::new("/"), &script)
            .status
            .success()
    );
    mounted.unmount();
}

/// The names of attributes that only root may see.
#[test]
fn trusted_attributes_are_roots() {
    let world = needs!(open_world());
    let file = world.path("src/file");
    fs::write(&file, "content").unwrap();
    for name in ["trusted.one", "user.two"] {
        let set = rustix::fs::setxattr(&file, name, b"value", rustix::fs::XattrFlags::CREATE);
        if set.is_err() {
            return skip("there are no such attributes here");
        }
    }
    chown(&file, Some(65534), Some(65534)).unwrap();
    let mounted = mount(&world, for_all("auto"));
    let list = "import os; print(sorted(os.listxattr('file')))";
    let script = format!("python3 -c \"{list}\"");
    needs!(tools::find("python3"));
    let seen = |uid| shell_as(uid, uid, &[], mounted.directory(), &script);
    assert_eq!(seen(0).text(), "['trusted.one', 'user.two']\n");
    assert_eq!(seen(65534).text(), "['user.two']\n");
    mounted.unmount();
}

/// Mounts in the source are not part of the mirror.
#[test]
fn mounts_in_the_source_are_left_out() {
    let world = needs!(open_world());
    let inner = world.path("src/inner");
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("below"), "").unwrap();
    mount_system("tmpfs", &inner, "tmpfs", MountFlags::empty(), None).unwrap();
    fs::write(inner.join("above"), "").unwrap();
    let mounted = mount_in(&world, "auto");
    mount_system(
        "tmpfs",
        world.path("src"),
        "tmpfs",
        MountFlags::empty(),
        None,
    )
    .unwrap();
    let names = fs::read_dir(mounted.path("inner")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["below"]);
    mounted.unmount();
}
