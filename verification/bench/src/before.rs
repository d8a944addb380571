//! Compares an older program with today's.

use crate::{
    report::{Report, figure, with_range},
    rounds::Spread,
    table::Table,
};

/// Adds a section about everything that was measured with both programs.
pub(crate) fn add(report: &mut Report) {
    let mut table = Table::new([
        "what",
        "variant",
        "unit",
        "before",
        "after",
        "after / before",
    ]);
    for (title, unit, samples) in report.contests() {
        for (variant, before, after) in samples.before_and_after() {
            let ratios = before
                .iter()
                .zip(after)
                .map(|(before, after)| after / before);
            let Some(ratio) = Spread::of(ratios) else {
                continue;
            };
            table.row([
                title.to_owned(),
                variant.to_owned(),
                unit.to_owned(),
                median(before),
                median(after),
                with_range(ratio),
            ]);
        }
    }
    report.section("Before and after");
    report.say(
        "Each round measures a variant with one program and then with the other; the ratio is taken \
         within a round. What neither program has a part in shows how much the machine varies.",
    );
    report.say(table);
}

fn median(values: &[f64]) -> String {
    let spread = Spread::of(values.iter().copied());
    figure(spread.map_or(f64::NAN, |spread| spread.median))
}
