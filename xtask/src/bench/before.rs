//! A benchmark run with an older program and with today's, to see what has become slower.

use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use super::{
    Benchmark, Options,
    lab::{Lab, Program},
    report::{Report, figure, with_range},
    rounds::{Samples, Spread},
    table::Table,
};

/// What one variant of one contest needed, round by round.
struct Row {
    contest: String,
    unit: String,
    variant: String,
    before: Vec<f64>,
    after: Vec<f64>,
}

/// Runs `benchmark` once a round with the program `before` and once with today's, each of them first
/// in turn. What does not use either, such as the peers, is measured, too: it shows how much the
/// machine itself varies.
pub(super) fn run(
    benchmark: &Benchmark,
    before: &Path,
    options: &Options,
    report: &mut Report,
    environment: &Value,
) -> Result<()> {
    let mut rows: Vec<Row> = Vec::new();
    for round in 0..options.rounds {
        let mut programs = [Program::At(before), Program::Today];
        programs.rotate_left(round % 2);
        for program in programs {
            let lab = Lab::new(&options.dir, 1, options.sizes(), program)?;
            let mut once = Report::new(benchmark.title, benchmark.title, environment);
            (benchmark.run)(&lab, &mut once)?;
            for (contest, unit, samples) in once.contests() {
                add(&mut rows, contest, unit, samples, program);
            }
        }
    }
    report.section("Before and after");
    report.say(
        "One value a round from each program; the ratio is taken within a round. What both programs \
         have no part in shows how much the machine varies.",
    );
    report.say(table(&rows));
    Ok(())
}

fn add(rows: &mut Vec<Row>, contest: &str, unit: &str, samples: &Samples, program: Program<'_>) {
    for (variant, values) in samples.rows() {
        let known = rows
            .iter()
            .position(|row| row.contest == contest && row.variant == variant);
        let index = known.unwrap_or_else(|| {
            rows.push(Row {
                contest: contest.to_owned(),
                unit: unit.to_owned(),
                variant: variant.to_owned(),
                before: Vec::new(),
                after: Vec::new(),
            });
            rows.len() - 1
        });
        let row = &mut rows[index];
        match program {
            Program::At(_) => row.before.extend(values),
            Program::Today => row.after.extend(values),
        }
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new([
        "what",
        "variant",
        "unit",
        "before",
        "after",
        "after / before",
    ]);
    for row in rows {
        // What only one program can do is not compared.
        let pairs = row.before.iter().zip(&row.after);
        let Some(ratio) = Spread::of(pairs.map(|(before, after)| after / before)) else {
            continue;
        };
        let median = |values: &[f64]| {
            let spread = Spread::of(values.iter().copied());
            figure(spread.map_or(f64::NAN, |spread| spread.median))
        };
        table.row([
            row.contest.clone(),
            row.variant.clone(),
            row.unit.clone(),
            median(&row.before),
            median(&row.after),
            with_range(ratio),
        ]);
    }
    table
}
