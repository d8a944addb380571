/// Who asked for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The user id by which access is checked.
    pub uid: u32,
    /// The group id by which access is checked.
    pub gid: u32,
    /// The process; 0 for one that cannot be seen from here.
    pub pid: u32,
}
