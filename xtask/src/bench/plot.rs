//! Bar charts as SVG files that need nothing else.

use std::fmt::Write;

use super::rounds::Spread;

const LABELS: f64 = 260.0;
const BARS: f64 = 440.0;
const ROW: f64 = 28.0;
const TOP: f64 = 48.0;

/// One horizontal bar a row, as long as the median, with a line from the least to the greatest.
pub(crate) fn bars(title: &str, unit: &str, rows: &[(&str, Spread)]) -> String {
    let longest = rows
        .iter()
        .map(|(_, spread)| spread.max)
        .fold(f64::MIN_POSITIVE, f64::max);
    let x = |value: f64| LABELS + value / longest * BARS;
    let (width, height) = (LABELS + BARS + 110.0, TOP + ROW * rows.len() as f64 + 12.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"12\" y=\"24\" font-size=\"15\" font-weight=\"bold\">{}</text>\n",
        escape(title)
    );
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
            super::report::figure(spread.median),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
