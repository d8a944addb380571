/// Where the owners and permissions in a tree's attributes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ownership {
    /// The tree stores them, for each file.
    Stored,
    /// The tree stores none; all files have those of the file that the tree is stored in.
    Borrowed,
    /// The tree stores none; all files have owner and group 0, and permissions that depend on their type.
    Unknown,
}
