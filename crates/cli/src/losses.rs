use std::path::Path;

use anyhow::{Result, bail};
use clap::Args;
use verimount_names::{one_line, printable};
use verimount_romfs::{Example, Loss, Losses, Lost};

use crate::message::say;

/// Which losses are an error.
#[derive(Args)]
pub(crate) struct LossArgs {
    /// Also store files that not everybody may read; in the image, everybody may read them
    #[arg(long)]
    widen_permissions: bool,
    /// Fail if the image would lose anything, or any of these: times, owners, permissions,
    /// special-bits, access-lists, capabilities, attributes, holes
    #[arg(long, value_name = "LOSS", value_parser = parse_loss, num_args = 0.., value_delimiter = ',', require_equals = true)]
    strict: Option<Vec<Loss>>,
}

/// Each kind of loss, with its name in options and in messages.
const KINDS: [(Loss, &str, &str); 9] = [
    (Loss::Privacy, "privacy", "read protection"),
    (Loss::Times, "times", "times"),
    (Loss::Owners, "owners", "owners"),
    (Loss::Permissions, "permissions", "permissions"),
    (
        Loss::SpecialBits,
        "special-bits",
        "set-user-id, set-group-id or sticky bits",
    ),
    (Loss::AccessLists, "access-lists", "access control lists"),
    (Loss::Capabilities, "capabilities", "file capabilities"),
    (Loss::Attributes, "attributes", "extended attributes"),
    (Loss::Holes, "holes", "holes"),
];

fn parse_loss(text: &str) -> Result<Loss, String> {
    // Privacy has its own option.
    let kinds = || KINDS.iter().filter(|(loss, ..)| *loss != Loss::Privacy);
    let kind = kinds().find(|(_, name, _)| *name == text);
    kind.map(|(loss, ..)| *loss).ok_or_else(|| {
        let names: Vec<_> = kinds().map(|(_, name, _)| *name).collect();
        format!("the losses are {}", names.join(", "))
    })
}

impl LossArgs {
    /// Fails if the image of a tree would have a forbidden loss.
    pub(crate) fn check(&self, tree: &Path, losses: &Losses) -> Result<()> {
        let tree = printable(tree);
        if let Some(lost) = losses
            .get(Loss::Privacy)
            .filter(|_| !self.widen_permissions)
        {
            bail!(
                "{tree}: the image would let everybody read files that not everybody may read here, {}; \
                 use --widen-permissions to allow this",
                shown(lost)
            );
        }
        let refused = losses.iter().find(|(loss, _)| self.is_refused(*loss));
        match refused {
            Some((loss, lost)) => bail!("{tree}: {} (--strict)", sentence(loss, lost)),
            None => Ok(()),
        }
    }

    fn is_refused(&self, loss: Loss) -> bool {
        let refused = self.strict.as_ref();
        loss != Loss::Privacy
            && refused.is_some_and(|those| those.is_empty() || those.contains(&loss))
    }
}

/// Reports the losses of an image, one line per kind.
pub(crate) fn report(losses: &Losses) {
    for (loss, lost) in losses.iter() {
        say(format_args!("note: {}", sentence(loss, lost)));
    }
}

fn sentence(loss: Loss, lost: &Lost) -> String {
    let kind = KINDS.iter().find(|(kind, ..)| *kind == loss);
    let name = kind.map_or("all", |(.., name)| name);
    match loss {
        // Nearly every file has times, so examples are useless.
        Loss::Times => format!("romfs does not store {name}: all become 1970-01-01"),
        _ => format!("romfs does not store the {name} of {}", shown(lost)),
    }
}

/// The number of affected files, and some examples.
fn shown(lost: &Lost) -> String {
    let examples: Vec<_> = lost.examples.iter().map(example).collect();
    let more = match lost.count > lost.examples.len() as u64 {
        true => ", …",
        false => "",
    };
    format!("{}: {}{more}", lost.count, examples.join(", "))
}

fn example(Example { path, detail }: &Example) -> String {
    /// The maximum length of a path in characters, so that a few fit in a line.
    const MAX_LEN: usize = 100;
    let path = printable(path).to_string();
    let cut = path.char_indices().rev().nth(MAX_LEN - 1);
    let path = match cut.filter(|(start, _)| *start > 0) {
        Some((start, _)) => format!("…{}", &path[start..]),
        None => path,
    };
    match detail.is_empty() {
        true => path,
        false => format!("{path} ({})", one_line(detail)),
    }
}
