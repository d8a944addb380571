//! With a low limit of open files, all files are visible, and as many can be open as the system allows.

use super::{WAYS, status};
use crate::prelude::*;

/// `verimount`, with these limits of open files.
pub(super) fn limited(limits: &str) -> Command {
    let prlimit = tools::find("prlimit").expect("util-linux is part of every system");
    let mut command = Command::new(prlimit);
    command.arg(format!("--nofile={limits}")).arg(binary());
    command
}

#[test]
fn more_files_than_can_be_open() {
    for way in WAYS {
        let world = needs!(World::with_source());
        let (src, mnt) = (world.path("src"), world.path("mnt"));
        for folder in 0..20 {
            fs::create_dir_all(src.join(format!("{folder}/deep"))).unwrap();
            for file in 0..50 {
                fs::write(src.join(format!("{folder}/deep/{file}")), file.to_string()).unwrap();
            }
        }
        let options = ["--passthrough", way];
        let mounted = Daemon::bridge_as(limited("64:64"), &src, &mnt, &options);
        let said = mounted.log();
        assert!(
            said.contains("note: only 64 descriptors are allowed"),
            "{said}"
        );
        for _ in 0..2 {
            for folder in 0..20 {
                for file in 0..50 {
                    let path = mnt.join(format!("{folder}/deep/{file}"));
                    assert_eq!(fs::read_to_string(&path).unwrap(), file.to_string());
                }
            }
        }
        let status = status(&mnt);
        assert!(status["held_files"].as_u64() <= Some(64), "{status}");
        mounted.unmount();
    }
}

/// The soft limit is raised to the hard limit, as each open file takes descriptors.
#[test]
fn many_files_are_open() {
    for way in WAYS {
        let world = needs!(World::with_source());
        let (src, mnt) = (world.path("src"), world.path("mnt"));
        for file in 0..200 {
            fs::write(src.join(file.to_string()), "").unwrap();
        }
        let options = ["--passthrough", way];
        let mounted = Daemon::bridge_as(limited("64:1024"), &src, &mnt, &options);
        let open = (0..200).map(|file| {
            let mut options = File::options();
            options
                .read(true)
                .write(true)
                .open(mnt.join(file.to_string()))
        });
        let open: Vec<_> = open.collect::<Result<_, _>>().unwrap();
        drop(open);
        assert!(!mounted.log().contains("descriptors"), "{}", mounted.log());
        mounted.unmount();
    }
}
