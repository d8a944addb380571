//! `cargo xtask agreement`: EROFS images of Verimount and of three versions of `mkfs.erofs` look the same through
//! Verimount, the kernel and `fsck.erofs`.

// The paths shown here are our own.
#![allow(clippy::disallowed_methods)]

mod bench;
mod tree;
mod utils;
mod variant;
mod written;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use verimount_support::{
    interrupt, program,
    setup::{self, Purpose},
    workspace::{build_tested_verimount, target},
};

use self::{
    bench::Bench,
    tree::Tree,
    utils::Utils,
    variant::{OF_CONTENT, OF_EVERYTHING, Variant},
};

/// Check that EROFS images look the same through Verimount, the kernel and erofs-utils
///
/// Images are made by Verimount and by three versions of mkfs.erofs, with all options that change the format. Needs root.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask agreement")]
struct Options {
    /// Use only the newest version of mkfs.erofs, and one tree, as `cargo xtask test --full` does
    #[arg(long)]
    short: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    program::run(|| run(&options))
}

fn run(options: &Options) -> Result<()> {
    setup::ensure_ready(&[Purpose::Test])?;
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root may mount EROFS in the kernel");
        return Ok(());
    }
    let target = target()?;
    let verimount = build_tested_verimount()?;
    let versions = Utils::all(&target);
    let folder = tempfile::Builder::new().prefix("verimount-").tempdir()?;
    let bench = Bench::new(folder.path(), verimount, &versions)?;
    let mut trees = vec![Tree::rich(folder.path())?];
    let mut makers = &versions[..];
    if options.short {
        makers = &versions[versions.len() - 1..];
    } else {
        trees.push(Tree::of_documents(folder.path())?);
        trees.push(Tree::of_libraries(folder.path())?);
    }
    let mut report = Report::default();
    for tree in &trees {
        for maker in makers {
            report.check_made(&bench, tree, maker)?;
        }
        report.check_written(&bench, tree)?;
    }
    println!(
        "{} images: {} compared with the kernel, natively and not, {} with fsck.erofs; {} differ",
        report.images, report.by_kernel, report.by_fsck, report.failed
    );
    ensure!(report.failed == 0, "{} images differ", report.failed);
    Ok(())
}

/// Which readers showed an image.
#[derive(Debug, Default, Clone, Copy)]
struct Readers {
    kernel: bool,
    fsck: bool,
}

/// How many images were compared.
#[derive(Debug, Default)]
struct Report {
    images: usize,
    by_kernel: usize,
    by_fsck: usize,
    failed: usize,
}

impl Report {
    /// Checks images that a version of `mkfs.erofs` makes of a tree.
    fn check_made(&mut self, bench: &Bench, tree: &Tree, maker: &Utils) -> Result<()> {
        println!("== mkfs.erofs {}: {}", maker.version(), tree.name());
        let variants: &[Variant] = if tree.is_rich() {
            &OF_EVERYTHING
        } else {
            &OF_CONTENT
        };
        let known = variants.iter().filter(|variant| variant.is_known_to(maker));
        for variant in known {
            let outcome = bench.check_made(tree, maker, variant);
            self.take(&variant.to_string(), outcome)?;
        }
        Ok(())
    }

    /// Checks images that Verimount makes of a tree.
    fn check_written(&mut self, bench: &Bench, tree: &Tree) -> Result<()> {
        println!("== verimount build: {}", tree.name());
        for (options, since) in written::OPTIONS {
            let outcome = written::check(bench, tree, options, since);
            self.take(&options.join(" "), outcome)?;
        }
        Ok(())
    }

    /// Counts an image. A difference does not end the run, unless it is an interruption.
    fn take(&mut self, what: &str, outcome: Result<Readers>) -> Result<()> {
        interrupt::check()?;
        self.images += 1;
        match outcome {
            Ok(readers) => {
                self.by_kernel += usize::from(readers.kernel);
                self.by_fsck += usize::from(readers.fsck);
            }
            Err(error) => {
                self.failed += 1;
                println!("  FAILED: {what}: {error:#}");
            }
        }
        Ok(())
    }
}
