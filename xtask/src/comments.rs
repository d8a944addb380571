//! That each comment can be understood by itself: rustdoc shows an item without those above it.

use std::{fs, iter};

use anyhow::{Context, Result, ensure};
use verimount_support::workspace::root;

use crate::lines::sources;

/// The folders with sources.
const FOLDERS: [&str; 5] = ["bindings", "crates", "fuzz", "verification", "xtask"];

/// What may follow "The same" where nothing is named that is the same.
const NO_NAMES: [&str; 21] = [
    "about", "also", "and", "as", "at", "because", "but", "by", "for", "from", "if", "in", "of",
    "on", "through", "to", "under", "where", "whose", "with", "without",
];

/// Ensures that no comment says that something is the same, and not as what.
pub(crate) fn check() -> Result<()> {
    let mut found = String::new();
    for folder in FOLDERS {
        for path in sources(&root().join(folder))? {
            let file = path.strip_prefix(root())?.display();
            let text = fs::read_to_string(&path).with_context(|| file.to_string())?;
            found.extend(vague(&text).map(|line| format!("  {file}:{line}\n")));
        }
    }
    ensure!(
        found.is_empty(),
        "comments that begin with \"The same\", and only those who read what is above know as what:\n{found}"
    );
    Ok(())
}

/// The numbers of the lines at which a vague comment begins.
fn vague(text: &str) -> impl Iterator<Item = usize> {
    let lines = iter::once("").chain(text.lines()).map(comment);
    let lines = lines.clone().zip(lines.skip(1)).enumerate();
    let vague = lines.filter(|(_, (above, line))| above.is_none() && line.is_some_and(is_vague));
    vague.map(|(index, _)| index + 1)
}

/// What is said in a line that is only a comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim_start())
}

/// Whether a comment begins with "The same", and not with what is the same as what: no word follows, or one of [`NO_NAMES`], or
/// one with which the sentence ends or pauses, as in "The same options, with these".
fn is_vague(comment: &str) -> bool {
    let Some(rest) = comment.strip_prefix("The same") else {
        return false;
    };
    let word = rest.split_whitespace().next().unwrap_or_default();
    word.is_empty() || word.ends_with([',', '.', ':', ';']) || NO_NAMES.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_says_what_is_the_same() {
        for comment in [
            "The same",
            "The same.",
            "The same, of a bridge.",
            "The same; `None` if it does not exist.",
            "The same: nothing is kept.",
            "The same for hash blocks.",
            "The same as text.",
            "The same options, with these.",
        ] {
            assert!(is_vague(comment), "{comment}");
        }
        for comment in [
            "The same bytes as in `old`.",
            "The same `size` as the source's.",
            "The same tree always gives the same image.",
            "Whether both are the same.",
        ] {
            assert!(!is_vague(comment), "{comment}");
        }
    }

    #[test]
    fn a_vague_comment_is_found_where_it_begins() {
        let text = "//! The same.\n\n    /// The same, but\n    /// The same.\n    a();\n    // The same if";
        assert_eq!(vague(text).collect::<Vec<_>>(), [1, 3, 6]);
    }
}
