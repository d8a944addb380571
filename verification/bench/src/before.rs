//! Compares an older program with today's.

use crate::{
    report::{figure, with_range},
    rounds::{Samples, Spread},
    table::Table,
};

/// The values in `unit` of everything that was measured with both programs, if there are two.
///
/// Each round measures a variant with one program and then with the other; the ratio is taken within a round.
/// What neither program has a part in shows how much the machine varies.
pub(crate) fn table(unit: &str, samples: &Samples) -> Option<Table> {
    let mut rows = samples.before_and_after().peekable();
    rows.peek()?;
    let [before, after] = ["before", "after"].map(|when| format!("{when}, {unit}"));
    let mut table = Table::new(["variant", &before, &after, "after / before"]);
    for (variant, before, after) in rows {
        let ratios = before
            .iter()
            .zip(after)
            .map(|(before, after)| after / before);
        let ratio = Spread::of(ratios)?;
        table.row([
            variant.to_owned(),
            median(before),
            median(after),
            with_range(ratio),
        ]);
    }
    Some(table)
}

fn median(values: &[f64]) -> String {
    let spread = Spread::of(values.iter().copied());
    figure(spread.map_or(f64::NAN, |spread| spread.median))
}
