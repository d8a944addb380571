//! Comparative measurement: every variant once per round, in turn, and ratios within each round.

use std::io::{self, IsTerminal};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use verimount_support::interrupt;

use crate::lab::{Lab, Which};

/// Median, minimum and maximum of a few values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// For a count, which is the same each time.
    pub(crate) fn exact(value: f64) -> Self {
        Self {
            median: value,
            min: value,
            max: value,
        }
    }

    /// `None` without values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let half = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[half - 1], sorted[half])
        } else {
            sorted[half]
        };
        Some(Self { median, min, max })
    }

    /// This spread in another unit.
    pub(crate) fn times(self, factor: f64) -> Self {
        Self {
            median: self.median * factor,
            min: self.min * factor,
            max: self.max * factor,
        }
    }

    pub(crate) fn to_json(self) -> Value {
        json!({ "median": self.median, "min": self.min, "max": self.max })
    }
}

/// Measures a variant once; returns the round's value, usually in seconds.
type Measure<'a> = Box<dyn FnMut() -> Result<f64> + 'a>;

/// Named variants to be compared.
#[derive(Default)]
pub(crate) struct Contest<'a> {
    variants: Vec<(String, Measure<'a>)>,
}

impl<'a> Contest<'a> {
    /// Adds a variant. `measure` is called in each round and returns the value.
    pub(crate) fn variant(
        mut self,
        name: impl Into<String>,
        measure: impl FnMut() -> Result<f64> + 'a,
    ) -> Self {
        self.variants.push((name.into(), Box::new(measure)));
        self
    }

    /// Adds a variant for each of `subjects`, by name. All are measured in the same way.
    pub(crate) fn variants<S: Copy + 'a>(
        self,
        subjects: impl IntoIterator<Item = (&'a str, S)>,
        measure: impl Fn(S) -> Result<f64> + Copy + 'a,
    ) -> Self {
        subjects.into_iter().fold(self, |contest, (name, subject)| {
            contest.variant(name, move || measure(subject))
        })
    }

    /// Runs the measurement. Each round begins with another variant, so that none always follows the same
    /// one.
    pub(crate) fn run(self, rounds: usize) -> Result<Samples> {
        let [rows] = self.measure(rounds, [()], |()| {})?;
        Ok(Samples {
            rows,
            before: Vec::new(),
        })
    }

    /// Runs the measurement with the number of rounds from `lab`. If there is an older program, each variant is
    /// measured with both programs in direct succession, since the speed of the machine itself varies.
    pub(crate) fn run_in(self, lab: &Lab) -> Result<Samples> {
        if !lab.has_older_program() {
            return self.run(lab.rounds);
        }
        let programs = [Which::Today, Which::Older];
        let measured = self.measure(lab.rounds, programs, |program| lab.choose(program));
        lab.choose(Which::Today);
        let [rows, before] = measured?;
        Ok(Samples { rows, before })
    }

    /// Each variant's values with each of `programs`, selected by `choose`; the order changes in each round.
    fn measure<const N: usize, P: Copy>(
        mut self,
        rounds: usize,
        programs: [P; N],
        choose: impl Fn(P),
    ) -> Result<[Rows; N]> {
        let count = self.variants.len();
        let mut values = [(); N].map(|()| vec![Vec::with_capacity(rounds); count]);
        for round in 0..rounds {
            for turn in 0..count {
                let index = (round + turn) % count;
                let (name, measure) = &mut self.variants[index];
                show_progress(&format!("round {} of {rounds}: {name}", round + 1));
                for program in (0..N).map(|turn| (round + turn) % N) {
                    choose(programs[program]);
                    let value = measure().with_context(|| format!("measuring {name}"))?;
                    values[program][index].push(value);
                    interrupt::check()?;
                }
            }
        }
        show_progress("");
        let names = || self.variants.iter().map(|(name, _)| name.clone());
        Ok(values.map(|values| names().zip(values).collect()))
    }
}

/// Replaces the last line of the terminal, if the output is one.
fn show_progress(text: &str) {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
    }
}

/// The results: one value per round for each variant.
#[derive(Debug, Clone)]
pub(crate) struct Samples {
    rows: Rows,
    /// The values with the older program, if there is one.
    before: Rows,
}

/// Variants by name, each with one value per round.
type Rows = Vec<(String, Vec<f64>)>;

impl Samples {
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|(name, _)| name.as_str())
    }

    /// The values of `name`.
    ///
    /// # Errors
    /// There is no such variant.
    pub(crate) fn spread(&self, name: &str) -> Result<Spread> {
        Spread::of(self.values(name)?.iter().copied()).context("no rounds")
    }

    /// For each round, the value of `dividend` divided by that of `divisor`.
    ///
    /// # Errors
    /// There is no such variant.
    pub(crate) fn ratio(&self, dividend: &str, divisor: &str) -> Result<Spread> {
        self.compare(dividend, divisor, |a, b| a / b)
    }

    /// For each round, the value of `minuend` minus that of `subtrahend`.
    ///
    /// # Errors
    /// There is no such variant.
    pub(crate) fn difference(&self, minuend: &str, subtrahend: &str) -> Result<Spread> {
        self.compare(minuend, subtrahend, |a, b| a - b)
    }

    fn compare(&self, a: &str, b: &str, compare: fn(f64, f64) -> f64) -> Result<Spread> {
        let pairs = self.values(a)?.iter().zip(self.values(b)?);
        Spread::of(pairs.map(|(a, b)| compare(*a, *b))).context("no rounds")
    }

    fn values(&self, name: &str) -> Result<&[f64]> {
        let row = self.rows.iter().find(|(row, _)| row == name);
        let (_, values) = row.with_context(|| format!("{name} was not measured"))?;
        Ok(values)
    }

    /// The variants, each with the older program's and today's value per round.
    pub(crate) fn before_and_after(&self) -> impl Iterator<Item = (&str, &[f64], &[f64])> {
        let pairs = self.before.iter().zip(&self.rows);
        pairs.map(|((name, before), (_, after))| (&**name, &**before, &**after))
    }

    pub(crate) fn to_json(&self) -> Value {
        let row = |(name, values): &(String, Vec<f64>)| json!({ "name": name, "values": values });
        let before = |row: &(String, Vec<f64>)| (format!("{}, before", row.0), row.1.clone());
        let rows = self.rows.iter().cloned();
        let rows = rows.chain(self.before.iter().map(before));
        rows.map(|named| row(&named)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_is_between_the_middle_two() {
        let spread = |values: &[f64]| Spread::of(values.iter().copied());
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[3.0, 1.0, 2.0]).unwrap().median, 2.0);
        assert_eq!(
            spread(&[4.0, 1.0, 3.0, 2.0]),
            Some(Spread {
                median: 2.5,
                min: 1.0,
                max: 4.0
            })
        );
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let mut slow = [2.0, 20.0, 6.0].into_iter();
        let mut fast = [1.0, 10.0, 1.0].into_iter();
        let samples = Contest::default()
            .variant("slow", || Ok(slow.next().unwrap()))
            .variant("fast", || Ok(fast.next().unwrap()))
            .run(3)
            .unwrap();
        let ratio = samples.ratio("slow", "fast").unwrap();
        assert_eq!(
            ratio,
            Spread {
                median: 2.0,
                min: 2.0,
                max: 6.0
            }
        );
        assert_eq!(samples.difference("slow", "fast").unwrap().max, 10.0);
        assert!(samples.ratio("slow", "none").is_err());
    }
}
