use std::env;

/// Set by `cargo xtask test --quick`: a test that tries all of something, which takes long, then
/// tries a part of it.
pub const QUICK: &str = "VERIMOUNT_QUICK";

/// Whether [`QUICK`] is set.
pub fn is_quick() -> bool {
    env::var_os(QUICK).is_some()
}
