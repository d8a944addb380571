//! What someone would try who has taken a daemon over.

use std::io;

use libc::{
    AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, AT_FDCWD, CLONE_NEWNS, CLONE_NEWUSER,
    MAP_ANONYMOUS, MAP_PRIVATE, O_CREAT, O_DIRECTORY, O_RDONLY, O_WRONLY, PROT_EXEC, PROT_READ,
    SIGCHLD, SOCK_DGRAM, SOCK_STREAM, c_long,
};

use crate::thread::{
    Argument::{self, Number, Text, Zeros},
    Stopped,
};

/// A system call that a daemon has no reason to make.
pub struct Attempt<'a> {
    /// What it would do.
    pub name: &'static str,
    /// The number of the call.
    pub number: c_long,
    arguments: [Argument<'a>; 6],
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(name: &'static str, number: c_long, first: &[Argument<'a>]) -> Self {
        let mut arguments = [Number(0); 6];
        arguments[..first.len()].copy_from_slice(first);
        Self {
            name,
            number,
            arguments,
        }
    }

    fn open(path: &'static str, name: &'static str, flags: i32) -> Self {
        let arguments = [
            Number(AT_FDCWD.into()),
            Text(path),
            Number(flags.into()),
            Number(0o600),
        ];
        Self::new(name, libc::SYS_openat, &arguments)
    }

    fn socket(name: &'static str, family: i32, kind: i32) -> Self {
        let arguments = [Number(family.into()), Number(kind.into())];
        Self::new(name, libc::SYS_socket, &arguments)
    }

    /// Whether it makes a socket.
    pub fn is_socket(&self) -> bool {
        self.number == libc::SYS_socket
    }

    /// Tries it in a thread.
    ///
    /// # Errors
    /// That of the system, as it should be.
    pub fn make(&self, thread: &Stopped) -> io::Result<i64> {
        thread.call(self.number, self.arguments)
    }
}

/// What no daemon may do.
pub fn never() -> Vec<Attempt<'static>> {
    let number = |value: i32| Number(value.into());
    vec![
        Attempt::open("/etc/passwd", "read /etc/passwd", O_RDONLY),
        Attempt::open("/", "list /", O_RDONLY | O_DIRECTORY),
        Attempt::open("/tmp/taken-over", "create a file", O_CREAT | O_WRONLY),
        Attempt::open("/proc/sys/kernel/core_pattern", "write a setting", O_WRONLY),
        Attempt::open("/proc/1/mem", "read another process's memory", O_RDONLY),
        Attempt::new(
            "read another process's memory by the system call",
            libc::SYS_process_vm_readv,
            &[Number(1), Zeros, Number(1), Zeros, Number(1)],
        ),
        Attempt::new(
            "run a program",
            libc::SYS_execve,
            &[Text("/bin/true"), Zeros, Zeros],
        ),
        Attempt::new(
            "run a program by its descriptor",
            libc::SYS_execveat,
            &[number(AT_FDCWD), Text("/bin/true"), Zeros, Zeros],
        ),
        Attempt::new("start a process", libc::SYS_clone, &[number(SIGCHLD)]),
        Attempt::new(
            "trace a process",
            libc::SYS_ptrace,
            &[Number(16), Number(1)],
        ),
        Attempt::new("signal a process", libc::SYS_kill, &[Number(1), Number(0)]),
        Attempt::new(
            "mount",
            libc::SYS_mount,
            &[Text("none"), Text("/mnt"), Text("tmpfs")],
        ),
        Attempt::new("unmount", libc::SYS_umount2, &[Text("/mnt"), Number(0)]),
        Attempt::new(
            "load a program into the kernel",
            libc::SYS_bpf,
            &[Number(0), Zeros, Number(48)],
        ),
        Attempt::new(
            "use the kernel's keys",
            libc::SYS_keyctl,
            &[Number(0), Number(-3), Number(0)],
        ),
        Attempt::new(
            "get a mount namespace",
            libc::SYS_unshare,
            &[number(CLONE_NEWNS)],
        ),
        Attempt::new(
            "get a user namespace",
            libc::SYS_unshare,
            &[number(CLONE_NEWUSER)],
        ),
        Attempt::new("become root", libc::SYS_setuid, &[Number(0)]),
        Attempt::new("load a module", libc::SYS_finit_module, &[Number(0), Zeros]),
        Attempt::new(
            "change the root directory",
            libc::SYS_chroot,
            &[Text("/tmp")],
        ),
        Attempt::socket("send datagrams", AF_INET, SOCK_DGRAM),
        Attempt::new(
            "map memory that can be executed",
            libc::SYS_mmap,
            &[
                Number(0),
                Number(4096),
                number(PROT_READ | PROT_EXEC),
                number(MAP_PRIVATE | MAP_ANONYMOUS),
                Number(-1),
            ],
        ),
        Attempt::socket("ask services of this machine", AF_UNIX, SOCK_STREAM),
        Attempt::socket("configure the network", AF_NETLINK, SOCK_DGRAM),
        Attempt::socket("see the network's packets", AF_PACKET, SOCK_DGRAM),
    ]
}

/// What only a daemon may do whose content is on other machines.
pub fn network() -> Vec<Attempt<'static>> {
    vec![
        Attempt::socket("reach servers by IPv4", AF_INET, SOCK_STREAM),
        Attempt::socket("reach servers by IPv6", AF_INET6, SOCK_STREAM),
    ]
}

/// What only a daemon may do that acts for its users.
pub fn for_users() -> Vec<Attempt<'static>> {
    vec![
        Attempt::new("act as another user", libc::SYS_setfsuid, &[Number(65_534)]),
        Attempt::new(
            "change an owner",
            libc::SYS_fchownat,
            &[Number(-1), Text("none")],
        ),
    ]
}
