/// What a daemon serves, which decides the rights that it keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An image or a file, mounted.
    Image,
    /// A mirrored directory, mounted: it acts for its users.
    Bridge,
    /// A volume, mounted.
    Volume,
    /// A volume, served to clients of a socket.
    Export,
}
