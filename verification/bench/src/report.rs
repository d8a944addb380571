//! The results of a benchmark: printed as they come, and saved as JSON, Markdown and plots.

use std::{fmt, fs, path::Path};

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    before, plot,
    requirement::Requirement,
    rounds::{Samples, Spread},
    table::Table,
};

pub(crate) use crate::requirement::Bar;

/// The figure that a table of times shows besides the times.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Compare {
    /// Speed as a multiple of the first variant's, for reading this many bytes.
    Speed { bytes: u64 },
    /// Time as a multiple of the first variant's.
    Time,
}

/// All results of one benchmark.
#[derive(Debug)]
pub(crate) struct Report {
    name: String,
    /// Its subject and environment, as Markdown.
    head: String,
    blocks: Vec<Block>,
    contests: Vec<Contest>,
    plots: Vec<(String, String)>,
    requirements: Vec<Requirement>,
    left_out: Vec<String>,
}

/// A measurement: title, unit and samples.
#[derive(Debug)]
struct Contest {
    title: String,
    unit: String,
    samples: Samples,
}

/// A part of a report.
#[derive(Debug)]
pub(crate) enum Block {
    Title(String),
    Text(String),
    Table(Table),
    /// As SVG; omitted in texts.
    Plot(String),
}

impl Report {
    /// Begins a report; `name` is the name of its files.
    pub(crate) fn new(name: &str, title: &str, environment: &Value) -> Self {
        let mut head = format!("## {title}\n\n");
        for (key, value) in environment.as_object().into_iter().flatten() {
            let value = value.to_string();
            head += &format!("- {key}: {}\n", value.trim_matches('"'));
        }
        println!("{head}");
        Self {
            name: name.to_owned(),
            head,
            blocks: Vec::new(),
            contests: Vec::new(),
            plots: Vec::new(),
            requirements: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// Its subject, and where it was measured.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    pub(crate) fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Prints and keeps a paragraph or a table.
    pub(crate) fn say(&mut self, block: impl Into<Block>) {
        let block = block.into();
        println!("{block}");
        self.blocks.push(block);
    }

    /// Begins a section.
    pub(crate) fn section(&mut self, title: &str) {
        self.say(Block::Title(title.to_owned()));
    }

    /// Records what was not measured, and why.
    pub(crate) fn leave_out(&mut self, what: &str, why: &str) {
        self.say(format!("Left out: {what} ({why})"));
        self.left_out.push(format!("{what} ({why})"));
    }

    /// Records that an error ended the measurements. Files of a complete run are then not overwritten.
    pub(crate) fn cut_short(&mut self, error: &anyhow::Error) {
        self.name.push_str("-incomplete");
        self.leave_out("all that would follow", &format!("{error:#}"));
    }

    /// Adds a section about times in seconds; the others are compared with the first variant.
    pub(crate) fn times(&mut self, title: &str, samples: &Samples, compare: Compare) -> Result<()> {
        let mut header = vec![
            "variant".to_owned(),
            "median s".to_owned(),
            "min..max s".to_owned(),
        ];
        let first = samples.names().next().unwrap_or_default();
        match compare {
            Compare::Speed { .. } => header.extend(["MiB/s".into(), format!("speed / {first}")]),
            Compare::Time => header.push(format!("time / {first}")),
        }
        let mut table = Table::new(header);
        for name in samples.names() {
            let spread = samples.spread(name)?;
            let mut cells = vec![name.to_owned(), figure(spread.median), range(spread)];
            match compare {
                Compare::Speed { bytes } => {
                    cells.push(format!("{:.0}", mebibytes(bytes) / spread.median));
                    cells.push(with_range(samples.ratio(first, name)?));
                }
                Compare::Time => cells.push(with_range(samples.ratio(name, first)?)),
            }
            table.row(cells);
        }
        self.table(title, table, "s", samples)
    }

    /// Adds a section with a table and a plot of its samples.
    pub(crate) fn table(
        &mut self,
        title: &str,
        table: Table,
        unit: &str,
        samples: &Samples,
    ) -> Result<()> {
        self.section(title);
        self.say(table);
        self.keep(title, unit, samples)
    }

    /// Adds a section with a table and a plot of its values by size.
    pub(crate) fn against_size(
        &mut self,
        title: &str,
        table: Table,
        unit: &str,
        points: &[(f64, &str, Spread)],
        samples: &Samples,
    ) -> Result<()> {
        self.section(title);
        self.say(table);
        self.plot(title, plot::line(title, unit, points));
        self.keep_samples(title, unit, samples);
        Ok(())
    }

    /// Adds samples that have no table of their own, and a plot of them.
    pub(crate) fn keep(&mut self, title: &str, unit: &str, samples: &Samples) -> Result<()> {
        let bars = samples
            .names()
            .map(|name| Ok((name, samples.spread(name)?)));
        self.plot(
            title,
            plot::bars(title, unit, &bars.collect::<Result<Vec<_>>>()?),
        );
        self.keep_samples(title, unit, samples);
        Ok(())
    }

    fn keep_samples(&mut self, title: &str, unit: &str, samples: &Samples) {
        if let Some(table) = before::table(unit, samples) {
            self.say(table);
        }
        self.contests.push(Contest {
            title: title.to_owned(),
            unit: unit.to_owned(),
            samples: samples.clone(),
        });
    }

    fn plot(&mut self, title: &str, svg: String) {
        self.blocks.push(Block::Plot(svg.clone()));
        self.plots.push((title.to_owned(), svg));
    }

    /// Compares a figure with its requirement, for the end of the report.
    pub(crate) fn require(&mut self, text: &str, bar: Bar, unit: &'static str, figure: Spread) {
        self.requirements.push(Requirement {
            text: text.to_owned(),
            bar,
            unit,
            figure,
        });
    }

    /// Prints the last lines, and writes the report to files in `folder`.
    pub(crate) fn finish(&mut self, environment: &Value, folder: &Path) -> Result<()> {
        let requirements = self.requirements_text();
        println!("{requirements}");
        fs::create_dir_all(folder)?;
        let file = |end: &str| folder.join(format!("{}{end}", self.name));
        let json = json!({
            "environment": environment,
            "contests": self.contests.iter().map(Contest::to_json).collect::<Value>(),
            "requirements": self.requirements.iter().map(Requirement::to_json).collect::<Value>(),
            "left_out": self.left_out,
        });
        fs::write(file(".json"), serde_json::to_string_pretty(&json)?)?;
        let blocks = self.blocks.iter().map(|block| format!("{block}\n"));
        let blocks: String = blocks.collect();
        fs::write(
            file(".md"),
            format!("{}\n{blocks}{requirements}", self.head),
        )?;
        for (title, svg) in &self.plots {
            fs::write(file(&format!("-{}.svg", slug(title))), svg)?;
        }
        println!("Written to {}", file(".*").display());
        Ok(())
    }

    fn requirements_text(&self) -> String {
        if self.requirements.is_empty() {
            return String::new();
        }
        let mut table = Table::new(Requirement::HEADER);
        for requirement in &self.requirements {
            table.row(requirement.cells());
        }
        format!("\n### Requirements\n\n{table}")
    }
}

impl Contest {
    fn to_json(&self) -> Value {
        json!({ "title": self.title, "unit": self.unit, "samples": self.samples.to_json() })
    }
}

impl fmt::Display for Block {
    /// As Markdown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Title(title) => write!(f, "\n### {title}\n"),
            Self::Text(text) => f.write_str(text),
            Self::Table(table) => table.fmt(f),
            Self::Plot(_) => Ok(()),
        }
    }
}

impl From<Table> for Block {
    fn from(table: Table) -> Self {
        Self::Table(table)
    }
}

impl From<String> for Block {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Block {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A number with about three significant digits.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// `min..max`.
pub(crate) fn range(spread: Spread) -> String {
    format!("{}..{}", figure(spread.min), figure(spread.max))
}

/// `median (min..max)`.
pub(crate) fn with_range(spread: Spread) -> String {
    format!("{} ({})", figure(spread.median), range(spread))
}

pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// A title as a part of a file name.
fn slug(title: &str) -> String {
    let words = title
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_become_file_names() {
        assert_eq!(slug("Cold `cat` of 1 GiB"), "cold-cat-of-1-gib");
    }
}
