//! `cargo xtask demo`: shows what Verimount does on a real tree, in a few commands.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use verimount_support::{
    command,
    mount_point::MountPoint,
    setup::{self, Purpose},
    workspace::{self, root},
};

pub(crate) fn run() -> Result<()> {
    setup::ensure_ready(&[Purpose::Demo])?;
    println!("== Building as for the tests (the first time takes some minutes)");
    let demo = Demo::new(workspace::build_tested_verimount()?)?;

    say("A real tree: the source code of this repository.");
    demo.show("cp", &["-r", path(&root().join("crates"))?, "app"])?;

    say("An image of it, with its Merkle tree. The digest identifies every byte.");
    let built = demo.show("verimount", &["build", "app", "app.img"])?;
    let digest = built.split(' ').next().context("no digest")?;

    say("Mount it, as any user. Every byte is verified before a program gets it.");
    let mnt = MountPoint::new(demo.folder.path().join("mnt"))?;
    demo.show(
        "verimount",
        &["mount", "app.img", "mnt", "--digest", digest],
    )?;
    demo.show("diff", &["-r", "app", "mnt"])?;
    println!("(no difference)");
    demo.show("verimount", &["status", "mnt"])?;
    demo.show("verimount", &["umount", "mnt"])?;

    let victim = demo.damage("app.img", "bad.img")?;
    demo.show(
        "verimount",
        &["mount", "bad.img", "mnt", "--digest", digest],
    )?;
    demo.show_failing("sha256sum", &[&format!("mnt/{}", path(&victim)?)])?;
    demo.check_that_only_this_is_refused(&mnt, &victim)?;
    demo.show("verimount", &["umount", "mnt"])?;

    say("Is anything else damaged? This reads everything, and continues after errors.");
    demo.show_failing("verimount", &["verify", "bad.img", "--digest", digest])?;
    drop(mnt);
    println!("\nEverything worked as expected.");
    Ok(())
}

fn say(text: &str) {
    println!("\n# {text}");
}

/// A temporary folder that commands run in.
struct Demo {
    folder: tempfile::TempDir,
    verimount: PathBuf,
}

impl Demo {
    fn new(verimount: PathBuf) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("verimount-demo-")
            .tempdir()?;
        Ok(Self { folder, verimount })
    }

    /// Prints a command line, runs it in the folder, and prints and returns its output.
    fn show(&self, program: &str, args: &[&str]) -> Result<String> {
        let mut command = self.echo(program, args);
        let printed = command::stdout(&mut command)?;
        if !printed.is_empty() {
            println!("{printed}");
        }
        Ok(printed)
    }

    /// Prints a command line, and runs it in the folder: its exit code must be 1.
    fn show_failing(&self, program: &str, args: &[&str]) -> Result<()> {
        let mut command = self.echo(program, args);
        let status = command.status()?;
        println!("(exit code {})", status.code().unwrap_or(-1));
        ensure!(
            status.code() == Some(1),
            "`{program}` should have exited with 1"
        );
        Ok(())
    }

    fn echo(&self, program: &str, args: &[&str]) -> Command {
        println!("$ {program} {}", args.join(" "));
        let mut command = match program {
            "verimount" => Command::new(&self.verimount),
            _ => Command::new(program),
        };
        command.args(args).current_dir(self.folder.path());
        command
    }

    /// Copies an image and flips one bit in the middle of the largest file in it.
    fn damage(&self, image: &str, copy: &str) -> Result<PathBuf> {
        let app = self.folder.path().join("app");
        let mut files = files_below(&app)?;
        files.sort_by_key(|file| fs::metadata(app.join(file)).map_or(0, |file| file.len()));
        let victim = files.pop().context("the tree is empty")?;
        let content = fs::read(app.join(&victim))?;
        let mut bytes = fs::read(self.folder.path().join(image))?;
        let start = position(&bytes, &content).context("the file is not in the image")?;
        let middle = start + content.len() / 2;
        bytes[middle] ^= 1;
        fs::write(self.folder.path().join(copy), bytes)?;
        say(&format!(
            "One bit is flipped, at byte {middle} of a copy: that is in {}.",
            victim.display()
        ));
        Ok(victim)
    }

    /// Reads every file of the damaged image: only `victim` may fail, all others must be the same.
    fn check_that_only_this_is_refused(&self, mnt: &MountPoint, victim: &Path) -> Result<()> {
        let app = self.folder.path().join("app");
        let files = files_below(&app)?;
        for file in &files {
            let read = fs::read(mnt.path().join(file));
            if file == victim {
                ensure!(read.is_err(), "{} was readable", file.display());
            } else {
                let original = fs::read(app.join(file))?;
                let read = read.with_context(|| format!("reading {}", file.display()))?;
                ensure!(read == original, "{} differs", file.display());
            }
        }
        println!(
            "(all other {} files can be read, and are equal)",
            files.len() - 1
        );
        Ok(())
    }
}

/// Every regular file below `folder`, relative to it.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(relative) = pending.pop() {
        for entry in fs::read_dir(folder.join(&relative))? {
            let entry = entry?;
            let path = relative.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                pending.push(path);
            } else if entry.file_type()?.is_file() {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// Where `needle` begins in `haystack`.
fn position(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

fn path(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("{} is not UTF-8", path.display()))
}
