use std::{
    io,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use signal_hook::consts::{SIGINT, SIGTERM};

/// Notices that the user wants to end the work, so that it can be undone first.
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches for SIGINT and SIGTERM from now on. A second one ends the process.
    pub(crate) fn watch() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // Registered first, so that the first signal does not yet find the flag set.
            signal_hook::flag::register_conditional_default(signal, asked.clone())?;
            signal_hook::flag::register(signal, asked.clone())?;
        }
        Ok(Self(asked))
    }

    /// Whether to go on.
    pub(crate) fn go_on(&self) -> ControlFlow<()> {
        match self.0.load(Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}
