//! Text tables, as Markdown that is also readable in a terminal.

use std::{fmt, iter};

/// A table; its first column has names, the others figures.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Self {
        Self {
            header: header.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row, which must have as many cells as the header.
    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        assert_eq!(cells.len(), self.header.len(), "a row fits its header");
        self.rows.push(cells);
    }

    /// The cells of its header, followed by those of its rows.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &Vec<String>> {
        iter::once(&self.header).chain(&self.rows)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            self.lines()
                .map(|cells| cells[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        for (index, cells) in self.lines().enumerate() {
            for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                if column == 0 {
                    write!(f, "| {cell:width$} ")?;
                } else {
                    write!(f, "| {cell:>width$} ")?;
                }
            }
            writeln!(f, "|")?;
            if index == 0 {
                for (column, width) in widths.iter().enumerate() {
                    let end = if column == 0 { '-' } else { ':' };
                    write!(f, "|{}{end}", "-".repeat(width + 1))?;
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_left_and_figures_right() {
        let mut table = Table::new(["read", "s"]);
        table.row(["plain", "1.25"]);
        table.row(["é", "10.00"]);
        assert_eq!(
            table.to_string(),
            "| read  |     s |\n|-------|------:|\n| plain |  1.25 |\n| é     | 10.00 |\n"
        );
    }
}
