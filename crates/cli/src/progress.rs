use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A progress bar for `total` bytes on stderr, shown only on a terminal.
pub(crate) fn bytes_bar(total: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(
        "{msg} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}",
    );
    bar.set_style(style.expect("the template is valid"));
    bar.set_message(what.to_owned());
    bar
}
