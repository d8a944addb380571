//! What a manual page tells besides what `--help` does.

use std::io::{self, Write};

use clap::Command;

use crate::outcome::EXIT_CODES;

/// What a command may leave or look for, with the pages that tell of it.
const FILES: [(&str, &str, &[&str]); 5] = [
    (
        "FILE.verity",
        "Where the Merkle tree of FILE is, unless it is at the end of FILE.",
        &[
            "mount", "seal", "sign", "verify", "info", "ls", "cat", "extract", "push", "pull",
        ],
    ),
    (
        "$REGISTRY_AUTH_FILE, $XDG_RUNTIME_DIR/containers/auth.json, ~/.config/containers/auth.json, ~/.docker/config.json",
        "Where podman login and docker login store credentials for registries. $DOCKER_CONFIG is another \
         folder than ~/.docker.",
        &[
            "mount", "verify", "info", "ls", "cat", "extract", "push", "pull",
        ],
    ),
    (
        "/run/verimount, $XDG_RUNTIME_DIR/verimount",
        "Links to the sockets of exports, named by the process: of root, and of anybody else.",
        &["list", "volume-serve"],
    ),
    (
        "/sbin/mount.fuse.verimount",
        "A link to verimount, by which mount(8) and fstab mount the type fuse.verimount. Mount options are \
         the options of this page without dashes; for a volume, volume is one more.",
        &["mount", "bridge", "volume-mount"],
    ),
    (
        "/dev/fuse",
        "The device that mounts are made with; without root also fusermount3(1).",
        &["mount", "bridge", "volume-mount"],
    ),
];

/// Variables of the environment, and what they are for.
const ENVIRONMENT: [(&str, &str); 3] = [
    (
        "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL, AWS_SKIP_SIGNATURE, AWS_ALLOW_HTTP",
        "Credentials and settings for s3://.",
    ),
    (
        "GOOGLE_APPLICATION_CREDENTIALS, GOOGLE_SKIP_SIGNATURE, GOOGLE_ALLOW_HTTP",
        "Credentials and settings for gs://.",
    ),
    (
        "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_ENDPOINT, AZURE_SKIP_SIGNATURE, AZURE_ALLOW_HTTP",
        "Credentials and settings for az://.",
    ),
];

/// The pages of what reads or stores objects in clouds.
const OF_CLOUDS: [&str; 7] = ["mount", "verify", "info", "ls", "cat", "extract", "push"];

/// The pages of what stays until it is told to end.
const STAYING: [&str; 4] = ["mount", "bridge", "volume-mount", "volume-serve"];

/// What the page of the command that is called shows how to do, and how: a line for each, and an empty one behind.
const EXAMPLES: &str = include_str!("examples.txt");

/// Appends to the page of a command what its parser does not know.
pub(super) fn write_sections(page: &mut impl Write, command: &Command) -> io::Result<()> {
    let name = page_name(command);
    writeln!(page, ".SH \"EXIT STATUS\"")?;
    for (code, meaning) in EXIT_CODES {
        write_item(page, code, meaning)?;
    }
    let files = FILES.iter().filter(|(.., pages)| pages.contains(&name));
    write_section(
        page,
        "FILES",
        files.map(|(file, meaning, _)| (*file, *meaning)),
    )?;
    if OF_CLOUDS.contains(&name) {
        write_section(page, "ENVIRONMENT", ENVIRONMENT.into_iter())?;
    }
    let signals = signals(name);
    write_section(page, "SIGNALS", signals.iter().copied())?;
    let examples = examples().filter(|(how, _)| is_call(how, command));
    write_section(page, "EXAMPLES", examples)?;
    write_see_also(page, command)
}

/// The lines of examples, each with what it does.
fn examples() -> impl Iterator<Item = (&'static str, &'static str)> {
    let each = EXAMPLES.split("\n\n");
    let each = each.filter_map(|example| example.split_once('\n'));
    each.map(|(what, how)| (how.trim(), what))
}

/// The command's name without that of the program: that of the program itself is empty.
fn page_name(command: &Command) -> &str {
    let name = command.get_display_name().unwrap_or(command.get_name());
    name.strip_prefix("verimount-").unwrap_or_default()
}

/// Whether a line calls this command, and not a subcommand of it.
fn is_call(line: &str, command: &Command) -> bool {
    let called = format!("verimount {} ", page_name(command).replace('-', " "));
    line.starts_with(&called) && !command.has_subcommands()
}

fn signals(name: &str) -> Vec<(&'static str, &'static str)> {
    const ENDS: &str = "Ends it when all that is open is closed, or what has been asked for is answered. A second one ends it at once.";
    const LEFT: &str = "With --foreground, as SIGTERM. Any other SIGHUP ends nothing.";
    let reloads = ("SIGHUP", "Reads the policy again, if there is one.");
    let left = ("SIGHUP of a terminal that is gone", LEFT);
    match name {
        "bridge" => vec![("SIGTERM, SIGINT", ENDS), reloads, left],
        name if STAYING.contains(&name) => vec![("SIGTERM, SIGINT", ENDS), left],
        _ => Vec::new(),
    }
}

/// Writes a section of items, if there are any.
fn write_section<'a>(
    page: &mut impl Write,
    title: &str,
    items: impl Iterator<Item = (&'a str, &'a str)>,
) -> io::Result<()> {
    let mut items = items.peekable();
    if items.peek().is_none() {
        return Ok(());
    }
    writeln!(page, ".SH {title}")?;
    items.try_for_each(|(term, meaning)| write_item(page, term, meaning))
}

fn write_item(page: &mut impl Write, term: &str, meaning: &str) -> io::Result<()> {
    writeln!(page, ".TP\n\\fB{}\\fR\n{}", escaped(term), escaped(meaning))
}

/// Other pages: those of the subcommands, or of the program.
fn write_see_also(page: &mut impl Write, command: &Command) -> io::Result<()> {
    let subcommands = command.get_subcommands();
    let mut others: Vec<&str> = subcommands.filter_map(Command::get_display_name).collect();
    if !page_name(command).is_empty() {
        others.insert(0, "verimount");
    }
    let others: Vec<String> = others
        .into_iter()
        .map(|other| format!("\\fB{}\\fR(1)", escaped(other)))
        .collect();
    writeln!(page, ".SH \"SEE ALSO\"\n{}", others.join(", "))
}

/// Text that roff shows unchanged: a hyphen stays one, and no line is taken for a request.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) {
        format!("\\&{text}")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::Cli;

    #[test]
    fn examples_can_be_run() {
        for (example, _) in examples() {
            let words: Vec<&str> = example.split(' ').collect();
            assert!(Cli::try_parse_from(&words).is_ok(), "{example}");
        }
    }

    #[test]
    fn every_page_that_is_told_of_is_one() {
        let mut command = Cli::command();
        command.build();
        let volume = command.find_subcommand("volume").unwrap();
        let commands = command.get_subcommands().chain(volume.get_subcommands());
        let commands: Vec<&Command> = commands.collect();
        let pages: Vec<&str> = commands.iter().map(|command| page_name(command)).collect();
        let told = FILES.iter().flat_map(|(.., pages)| pages.iter());
        for page in told.chain(&STAYING) {
            assert!(pages.contains(page), "{page}");
        }
        for (example, _) in examples() {
            let shown = commands.iter().filter(|page| is_call(example, page));
            assert_eq!(shown.count(), 1, "{example}");
        }
    }

    #[test]
    fn text_stays_text() {
        assert_eq!(escaped(".TH -x \\n"), "\\&.TH \\-x \\en");
    }
}
