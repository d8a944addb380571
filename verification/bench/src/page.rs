//! Reports as a self-contained HTML page.

use std::{
    fmt::{self, Write},
    fs, iter,
    path::Path,
};

use anyhow::Result;
use serde_json::Value;

use crate::{
    report::{Block, Report},
    requirement::Requirement,
};

const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<title>Verimount: benchmarks</title>
<style>
body { font: 15px/1.5 sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
h2 { margin-top: 3rem; border-bottom: 2px solid #3a7ca5 }
h3 { margin-top: 2rem }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }
th, td { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap }
th:first-child, td:first-child { text-align: left }
th { background: #eef3f6 }
.met { background: #e7f5ea }
.unmet { background: #fbe9e7; font-weight: bold }
svg { max-width: 100%; height: auto }
nav a { margin-right: 1rem }
code { background: #f3f3f3 }
</style>
</head>
<body>
<h1>Verimount: benchmarks</h1>
";

/// Writes the reports of one run to `file`.
///
/// # Errors
/// The system's error.
pub(crate) fn write(reports: &[Report], environment: &Value, file: &Path) -> Result<()> {
    Ok(fs::write(file, page(reports, environment)?)?)
}

fn page(reports: &[Report], environment: &Value) -> Result<String, fmt::Error> {
    let mut page = HEAD.to_owned();
    page.push_str("<table>\n");
    for (key, value) in environment.as_object().into_iter().flatten() {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        row(&mut page, "td", "", [key.as_str(), &value])?;
    }
    page.push_str("</table>\n<nav>");
    for report in reports {
        let name = escape(report.name());
        write!(page, "<a href=\"#{name}\">{name}</a>")?;
    }
    page.push_str("</nav>\n");
    for report in reports {
        let name = escape(report.name());
        writeln!(page, "<h2 id=\"{name}\">{name}</h2>")?;
        requirements(&mut page, report.requirements())?;
        for block in report.blocks() {
            self::block(&mut page, block)?;
        }
    }
    page.push_str("</body>\n</html>\n");
    Ok(page)
}

fn requirements(page: &mut String, requirements: &[Requirement]) -> fmt::Result {
    if requirements.is_empty() {
        return Ok(());
    }
    page.push_str("<table>\n");
    row(page, "th", "", Requirement::HEADER)?;
    for requirement in requirements {
        let class = if requirement.is_met() { "met" } else { "unmet" };
        row(
            page,
            "td",
            class,
            requirement.cells().iter().map(String::as_str),
        )?;
    }
    page.push_str("</table>\n");
    Ok(())
}

fn block(page: &mut String, block: &Block) -> fmt::Result {
    match block {
        Block::Title(title) => writeln!(page, "<h3>{}</h3>", text(title)),
        Block::Text(paragraph) => writeln!(page, "<p>{}</p>", text(paragraph)),
        Block::Plot(svg) => writeln!(page, "<p>{svg}</p>"),
        Block::Table(table) => {
            page.push_str("<table>\n");
            let mut lines = table.lines();
            let header = lines.next().into_iter().flatten();
            row(page, "th", "", header.map(String::as_str))?;
            for line in lines {
                row(page, "td", "", line.iter().map(String::as_str))?;
            }
            page.push_str("</table>\n");
            Ok(())
        }
    }
}

fn row<'a>(
    page: &mut String,
    element: &str,
    class: &str,
    cells: impl IntoIterator<Item = &'a str>,
) -> fmt::Result {
    write!(page, "<tr class=\"{class}\">")?;
    for cell in cells {
        write!(page, "<{element}>{}</{element}>", text(cell))?;
    }
    page.push_str("</tr>\n");
    Ok(())
}

/// Text with code between back quotes.
fn text(text: &str) -> String {
    let elements = iter::repeat(["<code>", "</code>"]).flatten();
    let mut parts = text.split('`').map(escape);
    let first = parts.next().unwrap_or_default();
    parts
        .zip(elements)
        .fold(first, |text, (part, element)| text + element + &part)
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_characters_of_html() {
        assert_eq!(
            text("`cat` <1 GiB & `x`"),
            "<code>cat</code> &lt;1 GiB &amp; <code>x</code>"
        );
        assert_eq!(text(""), "");
    }
}
