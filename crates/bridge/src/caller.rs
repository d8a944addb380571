/// The process that requested an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The user id with which access is checked.
    pub uid: u32,
    /// The group id with which access is checked.
    pub gid: u32,
    /// The process id; 0 for a process in another pid namespace.
    pub pid: u32,
}
