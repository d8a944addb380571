//! How much memory the system grants this process.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where the root of the file system is, except in tests.
const ROOT: &str = "/";

/// More bytes than any limit. Version 1 has a larger number where there is none.
const NO_LIMIT: u64 = 1 << 62;

/// The smallest memory limit of the control groups that this process is in, in bytes: their own and those of the groups
/// above them; `None` if there is none.
pub fn memory_limit() -> Option<u64> {
    limit_below(Path::new(ROOT))
}

/// `usual` bytes, or one part in `parts` of the [limit](memory_limit) if that is less.
pub fn memory_share(parts: u64, usual: usize) -> usize {
    share_of(memory_limit(), parts, usual)
}

fn share_of(limit: Option<u64>, parts: u64, usual: usize) -> usize {
    let share = limit.map_or(u64::MAX, |limit| limit / parts);
    usual.min(usize::try_from(share).unwrap_or(usize::MAX))
}

/// As [`memory_limit`], in a system whose file system begins at `root`.
fn limit_below(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let places = groups.lines().filter_map(|line| place(root, line));
    places.filter_map(|place| place.limit()).min()
}

/// Where a hierarchy of groups has its limits.
struct Limits {
    /// Where the hierarchy is mounted.
    mount: PathBuf,
    /// The group of this process in it.
    group: PathBuf,
    /// What the file with a group's limit is called.
    file: &'static str,
}

/// The place that a line of `/proc/self/cgroup` tells (cgroups(7)): `0::GROUP` in version 2,
/// `NUMBER:CONTROLLERS:GROUP` in version 1.
fn place(root: &Path, line: &str) -> Option<Limits> {
    let (number, rest) = line.split_once(':')?;
    let (controllers, group) = rest.split_once(':')?;
    let mut controllers = controllers.split(',');
    let (mount, file) = if controllers.any(|controller| controller == "memory") {
        ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
    } else if number == "0" {
        ("sys/fs/cgroup", "memory.max")
    } else {
        return None;
    };
    Some(Limits {
        mount: root.join(mount),
        group: Path::new(group).strip_prefix("/").ok()?.to_owned(),
        file,
    })
}

impl Limits {
    /// The smallest limit of the group and those above it. In a container, the groups that its host knows may not be
    /// there; the mount is then that of its own group.
    fn limit(&self) -> Option<u64> {
        let groups = self.group.ancestors();
        let limits = groups.filter_map(|group| {
            let text = fs::read_to_string(self.mount.join(group).join(self.file)).ok()?;
            // `max` is no limit.
            text.trim_end().parse().ok()
        });
        limits.filter(|limit| *limit < NO_LIMIT).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit of a system with these files.
    fn limit(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        limit_below(root.path())
    }

    #[test]
    fn the_smallest_limit_of_version_2_counts() {
        let group = ("proc/self/cgroup", "0::/a/b\n");
        let own = ("sys/fs/cgroup/a/b/memory.max", "3000\n");
        let above = ("sys/fs/cgroup/a/memory.max", "2000\n");
        let none = ("sys/fs/cgroup/a/b/memory.max", "max\n");
        let other = ("sys/fs/cgroup/c/memory.max", "1000\n");
        assert_eq!(limit(&[group, own, other]), Some(3000));
        assert_eq!(limit(&[group, own, above]), Some(2000));
        assert_eq!(limit(&[group, none, above]), Some(2000));
        assert_eq!(limit(&[group, none, other]), None);
        assert_eq!(limit(&[group]), None);
        assert_eq!(limit(&[]), None);
    }

    #[test]
    fn version_1_has_a_hierarchy_for_memory() {
        let group = (
            "proc/self/cgroup",
            "5:cpu,cpuacct:/x\n4:memory:/a\n1:name=systemd:/x\n0::/x\n",
        );
        let own = ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "67108864\n");
        let top = (
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        assert_eq!(limit(&[group, own, top]), Some(64 << 20));
        assert_eq!(limit(&[group, top]), None);
        let shared = ("proc/self/cgroup", "4:hugetlb,memory:/a\n");
        assert_eq!(limit(&[shared, own]), Some(64 << 20));
        let other = ("proc/self/cgroup", "4:cpu:/a\n");
        assert_eq!(limit(&[other, own]), None);
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_top() {
        let group = ("proc/self/cgroup", "0::/kubepods/pod1/container2\n");
        let own = ("sys/fs/cgroup/memory.max", "5000\n");
        assert_eq!(limit(&[group, own]), Some(5000));
    }

    #[test]
    fn little_memory_is_shared() {
        let share = |limit| share_of(limit, 4, 256 << 20);
        assert_eq!(share(None), 256 << 20);
        assert_eq!(share(Some(u64::MAX)), 256 << 20);
        assert_eq!(share(Some(64 << 20)), 16 << 20);
        assert_eq!(share(Some(0)), 0);
    }

    #[test]
    fn nonsense_is_no_limit() {
        for group in ["", "0", "0:", "0::a", "::::", "0::/../../a"] {
            let nonsense = ("sys/fs/cgroup/memory.max", "-1\n");
            assert_eq!(limit(&[("proc/self/cgroup", group), nonsense]), None);
        }
    }
}
