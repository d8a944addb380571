//! The programs that tasks need, their packages and their purposes.

use std::{fmt, path::Path};

use verimount_testenv::tools;

use super::Purpose::{
    self, Bench, Conformance, Containers, Demo, Dist, Installation, KernelTest, Models, Python,
    Test,
};
use crate::venv::{self, without_settings};

/// A program of another project, or a module of Python's.
pub(super) struct Tool {
    name: &'static str,
    finds: fn(&str) -> bool,
    /// The Debian package that has it.
    pub(super) package: &'static str,
    purposes: &'static [Purpose],
    /// Its purpose.
    work: &'static str,
}

impl Tool {
    pub(super) fn is_for(&self, purposes: &[Purpose]) -> bool {
        let mut own = self.purposes.iter();
        own.any(|purpose| purposes.contains(purpose))
    }

    pub(super) fn is_installed(&self) -> bool {
        (self.finds)(self.name)
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            package,
            name,
            work,
            ..
        } = self;
        write!(f, "{package}: {name} {work}")
    }
}

/// The programs that any task needs, by package.
pub(super) const TOOLS: [Tool; 64] = [
    tool(
        "getfattr",
        "attr",
        &[Containers, Test],
        "shows extended attributes",
    ),
    tool("setfacl", "acl", &[Test], "sets access control lists"),
    tool(
        "aria2c",
        "aria2",
        &[Bench],
        "is what fetching from web servers is compared with",
    ),
    tool(
        "bindfs",
        "bindfs",
        &[Bench],
        "is what bridges are compared with",
    ),
    tool(
        "mkfs.btrfs",
        "btrfs-progs",
        &[Bench, Conformance],
        "makes file systems",
    ),
    tool(
        "busybox",
        "busybox-static",
        &[KernelTest],
        "is the shell of a guest that boots",
    ),
    tool(
        "casync",
        "casync",
        &[Bench],
        "is what fetching changes is compared with",
    ),
    tool(
        "cpio",
        "cpio",
        &[KernelTest],
        "packs the initial file system of a guest",
    ),
    tool(
        "curl",
        "curl",
        &[Bench],
        "is what fetching from web servers is compared with",
    ),
    tool(
        "integritysetup",
        "cryptsetup-bin",
        &[KernelTest, Test],
        "formats volumes, and has the kernel open them",
    ),
    tool(
        "veritysetup",
        "cryptsetup-bin",
        &[KernelTest, Test],
        "makes and checks trees of dm-verity",
    ),
    tool(
        "debootstrap",
        "debootstrap",
        &[Bench, Installation],
        "makes a fresh minimal Debian",
    ),
    tool(
        "dmsetup",
        "dmsetup",
        &[KernelTest],
        "shows the state of the kernel's volumes",
    ),
    tool(
        "docker-registry",
        "docker-registry",
        &[Containers, Test],
        "stores images that are read from a registry",
    ),
    tool(
        "mkfs.ext4",
        "e2fsprogs",
        &[Bench, Conformance, KernelTest, Test],
        "makes file systems",
    ),
    tool(
        "mkfs.erofs",
        "erofs-utils",
        &[KernelTest, Python, Test],
        "makes images that ours are compared with, or that have devices",
    ),
    tool(
        "fio",
        "fio",
        &[Bench, Test],
        "reads and writes in many ways",
    ),
    tool(
        "fsverity",
        "fsverity",
        &[Bench, KernelTest, Test],
        "computes digests, and has the kernel measure them",
    ),
    tool(
        "fusermount3",
        "fuse3",
        &[Bench, Conformance, Demo, KernelTest, Models, Python, Test],
        "mounts as an ordinary user",
    ),
    tool(
        "fuse-overlayfs",
        "fuse-overlayfs",
        &[Bench],
        "is what bridges are compared with",
    ),
    tool("g++", "g++", &[Test], "compiles libFuzzer"),
    tool(
        "genromfs",
        "genromfs",
        &[KernelTest, Test],
        "makes images that ours are compared with",
    ),
    tool(
        "git",
        "git",
        &[Bench, Conformance, Test],
        "works in mirrored directories",
    ),
    tool("grub-fstest", "grub-common", &[Test], "reads our images"),
    tool(
        "httpdirfs",
        "httpdirfs",
        &[Bench],
        "is what images on web servers are compared with",
    ),
    tool(
        "ip",
        "iproute2",
        &[Bench],
        "makes a network whose speed is known",
    ),
    tool(
        "depmod",
        "kmod",
        &[KernelTest],
        "lists the modules of a kernel",
    ),
    tool(
        "bsdtar",
        "libarchive-tools",
        &[Test],
        "unpacks archives that ours are compared with",
    ),
    tool(
        "musl-gcc",
        "musl-tools",
        &[Dist, Python],
        "compiles the C libraries of the static program",
    ),
    tool("nbdcopy", "libnbd-bin", &[Test], "copies disks over NBD"),
    tool(
        "nbdfuse",
        "libnbd-bin",
        &[Bench],
        "is what images on web servers are compared with",
    ),
    tool(
        "mergerfs",
        "mergerfs",
        &[Bench],
        "is what bridges are compared with",
    ),
    tool(
        "minisign",
        "minisign",
        &[Test],
        "signs, and checks our signatures",
    ),
    tool("losetup", "mount", &[Test], "makes devices of files"),
    tool(
        "script",
        "bsdutils",
        &[Test],
        "runs a command on a terminal",
    ),
    tool(
        "nbdkit",
        "nbdkit",
        &[Bench],
        "is what our NBD server and images on web servers are compared with",
    ),
    tool(
        "nginx",
        "nginx-light",
        &[Bench, Installation, Python, Test],
        "serves images that are read from a URL",
    ),
    tool(
        "openssl",
        "openssl",
        &[Bench, Installation, Test],
        "hashes, for its speed to be compared, and makes certificates",
    ),
    tool(
        "buildah",
        "buildah",
        &[Containers],
        "makes container images",
    ),
    tool("crun", "crun", &[Containers], "is what podman asks for"),
    tool(
        "podman",
        "podman",
        &[Containers],
        "is what mounted layers are compared with",
    ),
    tool(
        "newuidmap",
        "uidmap",
        &[Containers],
        "lets ordinary users have namespaces with several users",
    ),
    tool(
        "setcap",
        "libcap2-bin",
        &[Containers],
        "gives capabilities to files",
    ),
    tool(
        "pg_ctlcluster",
        "postgresql",
        &[Conformance],
        "keeps a database on volumes that are killed",
    ),
    tool(
        "python3",
        "python3",
        &[Bench, Containers, Dist, Models, Python, Test],
        "makes system calls that no command makes, and starts from images",
    ),
    python_module(
        "ensurepip",
        "python3-venv",
        &[Dist, Models, Python],
        "puts a package manager into new environments",
    ),
    python_module(
        "torch",
        "python3-torch",
        &[Python],
        "loads models from images",
    ),
    tool(
        "f2py3",
        "python3-numpy",
        &[Bench],
        "comes with what Python loads from images",
    ),
    tool(
        "qemu-system-x86_64",
        "qemu-system-x86",
        &[KernelTest],
        "boots kernels",
    ),
    tool(
        "qemu-img",
        "qemu-utils",
        &[Test],
        "converts and compares disks over NBD",
    ),
    tool(
        "ssh-keygen",
        "openssh-client",
        &[Test],
        "uses what is mounted as one's own",
    ),
    tool(
        "sqlite3",
        "sqlite3",
        &[Conformance, Test],
        "works in mirrored directories",
    ),
    tool(
        "skopeo",
        "skopeo",
        &[Containers, Test],
        "copies images between registries",
    ),
    tool(
        "rclone",
        "rclone",
        &[Bench],
        "is what images on web servers are compared with",
    ),
    tool(
        "s3fs",
        "s3fs",
        &[Bench],
        "is what images on web servers are compared with",
    ),
    tool(
        "mksquashfs",
        "squashfs-tools",
        &[Bench],
        "makes images that ours are compared with",
    ),
    tool(
        "squashfuse",
        "squashfuse",
        &[Bench],
        "is what images are compared with",
    ),
    tool(
        "strace",
        "strace",
        &[Test],
        "shows the system calls that make files durable",
    ),
    tool(
        "rsync",
        "rsync",
        &[Bench, Test],
        "compares trees with everything that files have, and fetches what changed",
    ),
    tool(
        "zsync",
        "zsync",
        &[Bench],
        "is what fetching changes is compared with",
    ),
    tool("time", "time", &[Bench], "measures the memory of a program"),
    tool(
        "mkfs.xfs",
        "xfsprogs",
        &[Conformance, KernelTest],
        "makes file systems",
    ),
    tool(
        "xz",
        "xz-utils",
        &[KernelTest],
        "unpacks the modules of a kernel",
    ),
    tool(
        "zstd",
        "zstd",
        &[Test],
        "compresses archives that images are made of",
    ),
];

const fn tool(
    program: &'static str,
    package: &'static str,
    purposes: &'static [Purpose],
    work: &'static str,
) -> Tool {
    Tool {
        name: program,
        finds: |program| tools::locate(program).is_some(),
        package,
        purposes,
        work,
    }
}

const fn python_module(
    name: &'static str,
    package: &'static str,
    purposes: &'static [Purpose],
    work: &'static str,
) -> Tool {
    Tool {
        name,
        finds: is_python_module,
        package,
        purposes,
        work,
    }
}

fn is_python_module(name: &str) -> bool {
    let mut import = without_settings(Path::new(venv::SYSTEM));
    let output = import.args(["-c", &format!("import {name}")]).output();
    output.is_ok_and(|output| output.status.success())
}
