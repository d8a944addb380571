//! Requirements for figures.

use serde_json::{Value, json};

use crate::{
    report::{figure, range},
    rounds::Spread,
};

/// The bound of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

impl Bar {
    fn is_met_by(self, figure: f64) -> bool {
        match self {
            Self::AtLeast(bound) => figure >= bound,
            Self::AtMost(bound) => figure <= bound,
        }
    }
}

/// A figure and its requirement.
#[derive(Debug)]
pub(crate) struct Requirement {
    pub(crate) text: String,
    pub(crate) bar: Bar,
    pub(crate) unit: &'static str,
    pub(crate) figure: Spread,
}

impl Requirement {
    pub(crate) const HEADER: [&str; 4] = ["requirement", "bar", "figure (min..max)", "met"];

    pub(crate) fn is_met(&self) -> bool {
        self.bar.is_met_by(self.figure.median)
    }

    /// The cells under the header.
    pub(crate) fn cells(&self) -> [String; 4] {
        let unit = self.unit;
        let bar = match self.bar {
            Bar::AtLeast(bound) => format!(">= {bound}{unit}"),
            Bar::AtMost(bound) => format!("<= {bound}{unit}"),
        };
        let met = if self.is_met() { "met" } else { "NOT MET" };
        let Spread { median, .. } = self.figure;
        let figure = format!("{}{unit} ({})", figure(median), range(self.figure));
        [self.text.clone(), bar, figure, met.to_owned()]
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "requirement": self.text,
            "bar": self.cells()[1],
            "figure": self.figure.to_json(),
            "met": self.is_met(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_met_at_its_bound() {
        assert!(Bar::AtLeast(0.6).is_met_by(0.6));
        assert!(!Bar::AtLeast(0.6).is_met_by(0.59));
        assert!(Bar::AtMost(1.3).is_met_by(1.3));
        assert!(!Bar::AtMost(1.3).is_met_by(1.31));
    }
}
