use std::ops::ControlFlow;

/// Called from time to time during long work with how much was done since the last call, in bytes
/// unless the work says otherwise; returns whether to go on.
pub type Progress<'a> = dyn FnMut(u64) -> ControlFlow<()> + 'a;
