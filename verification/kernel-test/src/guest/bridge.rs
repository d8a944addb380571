//! The bridge's policy allows files by the digest that the kernel verifies with fs-verity.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use rustix::io::Errno;
use verimount_support::{command, mount_point::MountPoint};
use verimount_testkit::pattern;

use super::{
    extents::Extents,
    linux::{Version, drop_caches, version},
    scratch::Scratch,
    tests::Tests,
    verity::{enable, make_file_system},
};

const LEN: usize = 300_000;

/// The first kernel that passes files through.
const PASSTHROUGH: Version = (6, 9);

pub(super) fn run(tests: &Tests, scratch: &Scratch, verimount: &Path) -> Result<()> {
    let image = make_file_system(scratch)?;
    let mounted = scratch.mount(&image, "ext4", "loop,rw", "verity")?;
    let source = mounted.path();
    fs::write(source.join("listed"), pattern(LEN))?;
    fs::write(source.join("unlisted"), pattern(LEN + 1))?;
    fs::write(source.join("plain"), pattern(LEN))?;
    let digest = enable(&source.join("listed"), &[])?;
    enable(&source.join("unlisted"), &[])?;
    let policy = scratch.path().join("policy.toml");
    let rule = format!("[[rule]]\naction = \"verified\"\ndigests = [\"{digest}\"]\n");
    fs::write(&policy, rule)?;

    let world = World {
        verimount,
        mirror: MountPoint::new(scratch.path().join("mirror"))?,
    };
    let mut bridge = Command::new(verimount);
    bridge.arg("bridge").arg(source).arg(world.mirror.path());
    let said = bridge.arg("--policy").arg(&policy).output()?;
    command::check(&bridge, Ok(said.status))?;
    let said = String::from_utf8(said.stderr)?;
    tests.test("a file with a listed digest", || {
        world.listed_is_read(&said)
    });
    tests.test("files without", || world.others_are_refused());
    tests.test("changes", || world.changes_are_refused());
    tests.test("a flipped byte", || {
        flip_byte(&image, &source.join("listed"))?;
        world.flipped_byte_is_refused()
    });
    drop(world);
    drop(mounted);
    Ok(fs::remove_file(image)?)
}

/// The verified directory's mirror.
struct World<'a> {
    verimount: &'a Path,
    mirror: MountPoint,
}

impl World<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.mirror.path().join(name)
    }

    /// The file can be read, and is passed through if the kernel can do that.
    fn listed_is_read(&self, said: &str) -> Result<()> {
        ensure!(
            fs::read(self.path("listed"))? == pattern(LEN),
            "other bytes"
        );
        let can_pass_through = version()? >= PASSTHROUGH;
        let way = if can_pass_through {
            "passthrough"
        } else {
            "relay"
        };
        ensure!(said.contains(&format!(", {way},")), "mounted as {said}");
        let mut status = Command::new(self.verimount);
        let status = status.arg("status").arg("--json").arg(self.mirror.path());
        let status: serde_json::Value = serde_json::from_str(&command::stdout(status)?)?;
        let relayed = status["relayed"]["reads"].as_u64().context("no count")?;
        ensure!(
            (relayed == 0) == can_pass_through,
            "{relayed} reads were relayed"
        );
        Ok(())
    }

    fn others_are_refused(&self) -> Result<()> {
        for name in ["unlisted", "plain"] {
            is_denied(name, File::open(self.path(name)))?;
        }
        Ok(())
    }

    fn changes_are_refused(&self) -> Result<()> {
        let mut writing = File::options();
        writing.write(true);
        is_denied("writing", writing.open(self.path("listed")))?;
        is_denied("making", File::create_new(self.path("new")))?;
        let mut cutting = File::options();
        cutting.write(true).truncate(true);
        is_denied("cutting", cutting.open(self.path("plain")))
    }

    /// The kernel detects the flipped byte in the source and in the mirror.
    fn flipped_byte_is_refused(&self) -> Result<()> {
        let file = File::open(self.path("listed"))?;
        let mut bytes = [0; 4096];
        match file.read_exact_at(&mut bytes, FLIPPED / 4096 * 4096) {
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {}
            other => bail!("reading the block gave {other:?}"),
        }
        file.read_exact_at(&mut bytes, 0)?;
        ensure!(bytes == pattern(LEN)[..4096], "other bytes");
        Ok(())
    }
}

/// The offset of the byte that is flipped.
const FLIPPED: u64 = 200_000;

/// Changes a byte of `file` in the file system `image` without the kernel's knowledge.
fn flip_byte(image: &Path, file: &Path) -> Result<()> {
    let place = Extents::of(file)?
        .place(FLIPPED)
        .context("it is not stored")?;
    let image = File::options().read(true).write(true).open(image)?;
    let mut byte = [0];
    image.read_exact_at(&mut byte, place)?;
    image.write_all_at(&[!byte[0]], place)?;
    drop_caches()
}

fn is_denied<T>(what: &str, result: io::Result<T>) -> Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        Err(error) => bail!("{what}: {error}"),
        Ok(_) => bail!("{what} is allowed"),
    }
}
