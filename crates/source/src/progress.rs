use std::ops::ControlFlow;

/// Called from time to time during long work with the number of bytes done since the last call;
/// returns whether to go on.
pub type Progress<'a> = dyn FnMut(u64) -> ControlFlow<()> + 'a;
