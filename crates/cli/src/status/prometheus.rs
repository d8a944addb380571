//! Prometheus' text format 0.0.4.

use std::{
    fmt::Display,
    io::{self, Write},
};

use super::help::help;

/// A metric with its samples of one mount or export.
pub(super) struct Metric {
    /// Without `verimount_`. It ends with `_total` if the number only grows.
    name: &'static str,
    /// Further labels, besides the target, each after a comma; and the value.
    samples: Vec<(String, String)>,
}

impl Metric {
    /// A metric without samples.
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            samples: Vec::new(),
        }
    }

    /// Adds a sample with these labels.
    pub(super) fn sample(mut self, labels: &[(&str, &str)], value: impl Display) -> Self {
        let labels = labels.iter();
        let labels = labels.map(|(label, text)| format!(",{label}=\"{}\"", escaped(text)));
        self.samples.push((labels.collect(), value.to_string()));
        self
    }
}

/// The metrics of any number of mounts and exports. All samples of a metric are printed together, as the format
/// requires.
#[derive(Default)]
pub(super) struct Metrics {
    families: Vec<Family>,
}

/// A metric with all of its samples, as lines.
struct Family {
    name: &'static str,
    lines: String,
}

impl Metrics {
    /// Adds the metrics of what is served at `target`, which is a label of each.
    pub(super) fn add(&mut self, metrics: &[Metric], target: &str) {
        let target = escaped(target);
        for metric in metrics {
            let name = metric.name;
            let lines = metric.samples.iter().map(|(labels, value)| {
                format!("verimount_{name}{{target=\"{target}\"{labels}}} {value}\n")
            });
            self.lines_of(metric).extend(lines);
        }
    }

    /// The lines so far of a metric.
    fn lines_of(&mut self, metric: &Metric) -> &mut String {
        let name = metric.name;
        let known = self.families.iter().position(|family| family.name == name);
        let index = known.unwrap_or_else(|| {
            let lines = String::new();
            self.families.push(Family { name, lines });
            self.families.len() - 1
        });
        &mut self.families[index].lines
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        self.families.iter().try_for_each(|family| {
            let Family { name, lines } = family;
            let kind = if name.ends_with("_total") {
                "counter"
            } else {
                "gauge"
            };
            writeln!(out, "# HELP verimount_{name} {}", help(name))?;
            writeln!(out, "# TYPE verimount_{name} {kind}")?;
            out.write_all(lines.as_bytes())
        })
    }
}

/// A label's value. Backslashes, quotes and newlines are escaped, as are all control characters.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', r"\\").replace('"', r#"\""#);
    let printable = |character: char| match character {
        '\n' => r"\n".to_owned(),
        other if other.is_control() => '\u{fffd}'.to_string(),
        other => other.to_string(),
    };
    text.chars().map(printable).collect()
}
