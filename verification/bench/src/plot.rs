//! Charts as self-contained SVG files.

use std::fmt::Write;

use crate::{page::escape, report::figure, rounds::Spread};

const LABELS: f64 = 260.0;
const BARS: f64 = 440.0;
const ROW: f64 = 28.0;
const TOP: f64 = 48.0;

/// A horizontal bar per row: its length is the median, with a line from the minimum to the maximum.
pub(crate) fn bars(title: &str, unit: &str, rows: &[(&str, Spread)]) -> String {
    let longest = rows
        .iter()
        .map(|(_, spread)| spread.max)
        .fold(f64::MIN_POSITIVE, f64::max);
    let x = |value: f64| LABELS + value / longest * BARS;
    let (width, height) = (LABELS + BARS + 110.0, TOP + ROW * rows.len() as f64 + 12.0);
    let mut svg = begin(title, width, height);
    for (index, (name, spread)) in rows.iter().enumerate() {
        let y = TOP + ROW * index as f64;
        let middle = y + 9.0;
        // Writing to a string cannot fail.
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n\
             <rect x=\"{LABELS}\" y=\"{y}\" width=\"{:.1}\" height=\"18\" fill=\"{}\"/>\n\
             <path d=\"M{:.1} {middle}H{:.1}\" stroke=\"black\" stroke-width=\"2\"/>\n\
             <text x=\"{:.1}\" y=\"{}\">{} {unit}</text>\n",
            LABELS - 8.0,
            y + 14.0,
            escape(name),
            x(spread.median) - LABELS,
            if name.contains("verimount") {
                "#3a7ca5"
            } else {
                "#b8c4cc"
            },
            x(spread.min),
            x(spread.max),
            x(spread.max) + 6.0,
            y + 14.0,
            figure(spread.median),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

const PLOT_LEFT: f64 = 90.0;
const PLOT_WIDTH: f64 = 600.0;
const PLOT_HEIGHT: f64 = 240.0;

/// A line through the medians, with a mark from the minimum to the maximum at each point. The horizontal
/// axis has sizes, on a logarithmic scale; the vertical one starts at 0.
pub(crate) fn line(title: &str, unit: &str, points: &[(f64, &str, Spread)]) -> String {
    let sizes = points.iter().map(|(size, ..)| size.ln());
    let least = sizes.clone().fold(f64::INFINITY, f64::min);
    let span = sizes.fold(f64::MIN_POSITIVE, |span, size| span.max(size - least));
    let highest = points
        .iter()
        .map(|(.., spread)| spread.max)
        .fold(f64::MIN_POSITIVE, f64::max);
    let x = |size: f64| PLOT_LEFT + (size.ln() - least) / span * PLOT_WIDTH;
    let bottom = TOP + PLOT_HEIGHT;
    let y = |value: f64| bottom - value / highest * PLOT_HEIGHT;
    let (width, height) = (PLOT_LEFT + PLOT_WIDTH + 70.0, bottom + 40.0);
    let mut svg = begin(title, width, height);
    let (right, left) = (PLOT_LEFT + PLOT_WIDTH, PLOT_LEFT - 8.0);
    // Writing to a string cannot fail.
    for value in [0.0, highest / 2.0, highest] {
        let _ = write!(
            svg,
            "<path d=\"M{PLOT_LEFT} {y:.1}H{right}\" stroke=\"#ddd\"/>\n\
             <text x=\"{left}\" y=\"{:.1}\" text-anchor=\"end\">{} {unit}</text>\n",
            y(value) + 4.0,
            figure(value),
            y = y(value),
        );
    }
    let path = points
        .iter()
        .map(|(size, _, spread)| format!("{:.1},{:.1}", x(*size), y(spread.median)));
    let path = path.collect::<Vec<_>>().join(" ");
    let _ = writeln!(
        svg,
        "<polyline points=\"{path}\" fill=\"none\" stroke=\"#3a7ca5\" stroke-width=\"2\"/>"
    );
    for (size, label, spread) in points {
        let _ = write!(
            svg,
            "<path d=\"M{x:.1} {:.1}V{:.1}\" stroke=\"black\" stroke-width=\"2\"/>\n\
             <circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"#3a7ca5\"/>\n\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
            y(spread.min),
            y(spread.max),
            y(spread.median),
            bottom + 22.0,
            escape(label),
            x = x(*size),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// An empty chart with a title.
fn begin(title: &str, width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"12\" y=\"24\" font-size=\"15\" font-weight=\"bold\">{}</text>\n",
        // Titles are Markdown, charts are not.
        escape(&title.replace('`', ""))
    )
}
