//! The documentation: its links lead somewhere, no page is too long, and all are in the table of contents.

use verimount_support::workspace::root;

use crate::prelude::*;

/// The most words of a page, but for tables of the benchmark.
const LONGEST: usize = 3000;

/// The Markdown files below `folder`, except in folders that are hidden or of a compiler.
pub(crate) fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            pages.extend(self::pages(&path));
        } else if path.extension().is_some_and(|end| end == "md") {
            pages.push(path);
        }
    }
    pages
}

/// A page's lines outside of blocks of code.
fn prose(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        let is_border = line.starts_with("```");
        is_code ^= is_border;
        !is_code && !is_border
    });
    lines.map(str::to_owned).collect()
}

/// The targets of a page's links.
fn links(page: &Path) -> Vec<String> {
    // A link can be broken between its text's words.
    let text = prose(page).join("\n");
    let parts = text.split("](").skip(1);
    let targets = parts.filter_map(|part| Some(part.split_once(')')?.0.to_owned()));
    targets.collect()
}

/// What links can name in a page, as GitHub makes it of headings.
fn anchors(page: &Path) -> BTreeSet<String> {
    let lines = prose(page);
    let headings = lines.iter().filter(|line| line.starts_with('#'));
    let anchor = |heading: &String| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut checked = 0;
    let docs = root().join("docs").canonicalize().unwrap();
    for page in pages(root()) {
        for link in links(&page) {
            if link.contains("://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match path {
                "" => page.clone(),
                _ => page.parent().unwrap().join(path),
            };
            let found = target.canonicalize();
            let found = found.unwrap_or_else(|error| panic!("{page:?}: {link}: {error}"));
            // As they are a book, which has nothing else.
            let stays = !page.starts_with(&docs) || found.starts_with(&docs);
            assert!(stays, "{page:?}: {link} leads out of docs");
            let is_known = anchor.is_empty() || anchors(&found).contains(anchor);
            assert!(is_known, "{page:?}: no heading for {link}");
            checked += 1;
        }
    }
    assert!(checked > 300, "{checked}");
}

/// The README's plots, and the tables that they are of.
const PLOTS: [(&str, &str, &str); 3] = [
    ("digest", "images", "Digest of 1 GiB, warm"),
    ("untar", "bridge", "Untar of 9600 files, 501 MB"),
    (
        "random-writes",
        "volumes",
        "As a file, 78.125 MiB: randwrite of 4 KiB, 16 at once, with fsync at the end",
    ),
];

#[test]
fn plots_are_of_the_tables() {
    let docs = root().join("docs");
    for (plot, page, title) in PLOTS {
        let svg = fs::read_to_string(docs.join(format!("plots/{plot}.svg"))).unwrap();
        assert!(svg.contains(title), "{plot}: {title}");
        let page = fs::read_to_string(docs.join(format!("benchmarks/{page}.md"))).unwrap();
        let (_, table) = page.split_once(&format!("#### {title}\n\n")).unwrap();
        let rows = table.lines().take_while(|line| line.starts_with('|'));
        // Name and median in seconds; behind the header.
        let rows = rows
            .skip(2)
            .map(|row| row.split('|').skip(1).map(str::trim));
        let expected = rows.flat_map(|mut cells| {
            let name = cells.next().unwrap().to_owned();
            [name, format!("{} s", cells.next().unwrap())]
        });
        // Behind the title.
        let texts = svg.split("</text>").skip(1);
        let texts = texts.filter_map(|text| Some(text.rsplit_once('>')?.1.to_owned()));
        let shown: Vec<_> = texts.filter(|text| !text.trim().is_empty()).collect();
        assert_eq!(shown, expected.collect::<Vec<_>>(), "{plot}");
    }
}

#[test]
fn no_page_is_too_long() {
    for page in pages(root()) {
        let words = fs::read_to_string(&page)
            .unwrap()
            .split_whitespace()
            .count();
        let has_tables = page.starts_with(root().join("docs/benchmarks"));
        assert!(words <= LONGEST || has_tables, "{page:?}: {words} words");
    }
}

#[test]
fn all_pages_are_in_the_table_of_contents() {
    let docs = root().join("docs");
    let contents = docs.join("SUMMARY.md");
    let listed: BTreeSet<_> = links(&contents)
        .iter()
        .map(|link| docs.join(link))
        .collect();
    let there = pages(&docs).into_iter().filter(|page| *page != contents);
    assert_eq!(listed, there.collect());
}
