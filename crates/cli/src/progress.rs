use std::ops::ControlFlow;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use verimount::{Step, Watch};

use crate::interrupt::Interrupt;

/// Runs an operation, and shows a progress bar on stderr for each of its steps. `interrupt`, if given,
/// ends it; otherwise signals end the process.
pub(crate) fn with_progress<T>(
    interrupt: Option<&Interrupt>,
    operation: impl FnOnce(&mut Watch<'_>) -> T,
) -> T {
    let mut shown: Option<(Step, ProgressBar)> = None;
    let result = operation(&mut |progress| {
        let (step, bar) = shown.get_or_insert_with(|| {
            (
                progress.step,
                bytes_bar(progress.total, name(progress.step)),
            )
        });
        if *step != progress.step {
            bar.finish_and_clear();
            (*step, *bar) = (
                progress.step,
                bytes_bar(progress.total, name(progress.step)),
            );
        }
        bar.set_position(progress.done);
        interrupt.map_or(ControlFlow::Continue(()), Interrupt::go_on)
    });
    if let Some((_, bar)) = shown {
        bar.finish_and_clear();
    }
    result
}

fn name(step: Step) -> &'static str {
    match step {
        Step::Build => "building",
        Step::Seal => "sealing",
        Step::Hash => "hashing",
        Step::Verify => "verifying",
        Step::Extract => "extracting",
        _ => "working",
    }
}

/// A progress bar for `total` bytes on stderr, shown only on a terminal.
pub(crate) fn bytes_bar(total: u64, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(
        "{msg} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}",
    );
    bar.set_style(style.expect("the template is valid"));
    bar.set_message(what);
    bar
}
