use clap::{
    Command, CommandFactory,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::Cli;

/// If an option is unknown to its command, suggests the commands that have it. Clap would suggest to take it for a file name,
/// and hidden options.
pub(crate) fn suggest_commands(error: &mut clap::Error) {
    if error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    let commands = all_commands();
    if let Some(suggested) = text(error, ContextKind::SuggestedArg)
        && !commands.iter().any(|command| shows(command, &suggested))
    {
        error.remove(ContextKind::SuggestedArg);
        // It has the suggestion in it.
        error.remove(ContextKind::Usage);
    }
    let unknown = text(error, ContextKind::InvalidArg).unwrap_or_default();
    let having = commands.iter().filter(|command| shows(command, &unknown));
    let having: Vec<_> = having
        .map(|command| format!("'{}'", command.get_bin_name().unwrap_or_default()))
        .collect();
    error.remove(ContextKind::Suggested);
    if !having.is_empty() {
        error.remove(ContextKind::SuggestedArg);
        let tip = StyledStr::from(format!("'{unknown}' is an option of {}", having.join(", ")));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// All of them, each of which knows its whole name.
fn all_commands() -> Vec<Command> {
    let mut root = Cli::command();
    root.build();
    let mut found = Vec::new();
    let mut left: Vec<_> = root.get_subcommands().cloned().collect();
    while let Some(command) = left.pop() {
        left.extend(command.get_subcommands().cloned());
        found.push(command);
    }
    found.sort_by(|one, other| one.get_bin_name().cmp(&other.get_bin_name()));
    found
}

/// Whether the help of a command has an option, `--long`.
fn shows(command: &Command, option: &str) -> bool {
    let name = option.strip_prefix("--").unwrap_or(option);
    let mut shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.any(|arg| {
        let aliases = arg.get_visible_aliases().unwrap_or_default();
        arg.get_long() == Some(name) || aliases.contains(&name)
    })
}
