//! By file handles the kernel and its NFS server find the same files of an image again, or none.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::symlink,
    },
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, open, readlinkat, statx},
    io::Errno,
};
use verimount_support::{command, mount_point::MountPoint};
use verimount_sys::FileHandle;

use super::{
    linux::{Version, drop_caches, version},
    nfs::Server,
    scratch::Scratch,
    tests::Tests,
};

/// How many directories the images have, and files in each of them.
const DIRECTORIES: usize = 2;
const FILES: usize = 100;

/// The first kernel to which a file system of FUSE can say that it has no handles.
const WITHOUT: Version = (6, 9);
/// The first whose FUSE takes what handles lead to for outdated, so that images have none.
const OUTDATED: Version = (6, 16);

const PATH: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW);

pub(super) fn run(tests: &Tests, scratch: &Scratch, verimount: &Path) -> Result<()> {
    let version = version()?;
    let world = World { scratch, verimount };
    tests.test("of a bridge", || world.bridge(version));
    let server = Server::start()?;
    for kind in &KINDS {
        let images = world.images(kind)?;
        if version >= OUTDATED {
            tests.test(&format!("of {}", kind.build), || {
                let mounted = world.mount_image(&images, &images.first)?;
                ensure_error(handle(mounted.path()), Errno::OPNOTSUPP)
            });
            continue;
        }
        tests.test(&format!("of {}", kind.build), || world.handles(&images));
        tests.test(&format!("of {}, by NFS", kind.build), || {
            world.nfs(&images, &server)
        });
    }
    Ok(())
}

/// Images, by an option with which they are built, and the one with which they are mounted.
struct Kind {
    build: &'static str,
    trust: &'static str,
}

const KINDS: [Kind; 3] = [
    Kind {
        build: "--format=erofs",
        trust: "--unpinned",
    },
    Kind {
        build: "--format=romfs",
        trust: "--unpinned",
    },
    // Its superblock stands for the digest.
    Kind {
        build: "--no-seal",
        trust: "--unverified",
    },
];

struct World<'a> {
    scratch: &'a Scratch,
    verimount: &'a Path,
}

/// An image, and another one that has a file more.
struct Images {
    paths: Vec<PathBuf>,
    first: PathBuf,
    second: PathBuf,
    trust: &'static str,
}

impl World<'_> {
    fn images(&self, kind: &Kind) -> Result<Images> {
        let tree = self.scratch.directory("tree")?;
        let paths = grow(&tree)?;
        let build = |name: &str| {
            let image = self.scratch.path().join(name);
            let mut build = Command::new(self.verimount);
            build.args(["build", "--force", kind.build]);
            command::stdout(build.arg(&tree).arg(&image))?;
            anyhow::Ok(image)
        };
        let first = build("first")?;
        fs::write(tree.join("new"), "")?;
        let second = build("second")?;
        Ok(Images {
            paths,
            first,
            second,
            trust: kind.trust,
        })
    }

    fn mount(&self, subcommand: &str, source: &Path, options: &[&str]) -> Result<MountPoint> {
        let point = MountPoint::new(self.scratch.path().join("mounted"))?;
        let mut mount = Command::new(self.verimount);
        mount.arg(subcommand).arg(source).arg(point.path());
        command::stdout(mount.args(options))?;
        Ok(point)
    }

    fn bridge(&self, version: Version) -> Result<()> {
        let source = self.scratch.directory("source")?;
        fs::write(source.join("file"), "text")?;
        let mounted = self.mount("bridge", &source, &[])?;
        let handle = handle(&mounted.path().join("file"));
        if version >= WITHOUT {
            return ensure_error(handle, Errno::OPNOTSUPP);
        }
        drop(mounted);
        let mounted = self.mount("bridge", &source, &[])?;
        ensure_error(found(&handle?, mounted.path()), Errno::STALE)
    }

    fn mount_image(&self, images: &Images, image: &Path) -> Result<MountPoint> {
        self.mount("mount", image, &[images.trust, "--allow-other"])
    }

    fn handles(&self, images: &Images) -> Result<()> {
        let mounted = self.mount_image(images, &images.first)?;
        let root = mounted.path().to_owned();
        images.check(
            mounted,
            |image| self.mount_image(images, image),
            |path| handle(&root.join(path)),
            |handle| found(handle, &root),
        )
    }

    fn nfs(&self, images: &Images, server: &Server) -> Result<()> {
        let mount = |image: &Path| {
            let mounted = self.mount_image(images, image)?;
            anyhow::Ok((server.export(mounted.path())?, mounted))
        };
        let mounted = mount(&images.first)?;
        let client = server.mount(&self.scratch.path().join("client"))?;
        images.check(
            mounted,
            mount,
            |path| Ok(open(client.path().join(path), PATH, Mode::empty())?),
            OwnedFd::try_clone,
        )
    }
}

impl Images {
    /// Takes something of each file of the first image, which is mounted, by which it can be found again, and checks what is
    /// found when the kernel has forgotten all files, in another mount of that image, and when the second one is there.
    fn check<M, T>(
        &self,
        mounted: M,
        mount: impl Fn(&Path) -> Result<M>,
        take: impl Fn(&Path) -> io::Result<T>,
        find: impl Fn(&T) -> io::Result<OwnedFd>,
    ) -> Result<()> {
        let taken = self.paths.iter().map(|path| {
            let taken = take(path)?;
            let seen = Seen::of(&find(&taken)?)?;
            Ok((path.display(), taken, seen))
        });
        let taken: Vec<_> = taken.collect::<io::Result<_>>()?;
        let ensure_same = || {
            drop_caches()?;
            taken.iter().try_for_each(|(path, taken, before)| {
                let now = find(taken).and_then(|found| Seen::of(&found));
                let now = now.with_context(|| path.to_string())?;
                ensure!(now == *before, "{path}: {before:?} is {now:?}");
                Ok(())
            })
        };
        ensure_same().context("forgotten")?;
        drop(mounted);
        let mounted = mount(&self.first)?;
        ensure_same().context("mounted again")?;
        drop(mounted);
        let mounted = mount(&self.second)?;
        let are_stale = taken.iter().try_for_each(|(path, taken, _)| {
            let now = find(taken).and_then(|found| Seen::of(&found));
            ensure_error(now, Errno::STALE).with_context(|| format!("{path} of another image"))
        });
        // A client waits for a server that does not have what it gives back.
        drop(taken);
        drop(mounted);
        are_stale
    }
}

/// Makes files that differ, directories and symbolic links, and returns their paths.
fn grow(tree: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for number in 0..DIRECTORIES {
        let directory = PathBuf::from(number.to_string());
        fs::create_dir(tree.join(&directory))?;
        for file in 0..FILES {
            let path = directory.join(file.to_string());
            fs::write(tree.join(&path), format!("{number}/{file}"))?;
            paths.push(path);
        }
        let link = directory.join("link");
        symlink(number.to_string(), tree.join(&link))?;
        paths.extend([link, directory]);
    }
    Ok(paths)
}

/// What tells a file from all others.
#[derive(Debug, PartialEq)]
struct Seen {
    number: u64,
    mode: u16,
    /// What it contains, or where it leads to.
    text: Vec<u8>,
}

impl Seen {
    fn of(file: &OwnedFd) -> io::Result<Self> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        let status = statx(file, c"", flags, StatxFlags::BASIC_STATS)?;
        let text = match FileType::from_raw_mode(status.stx_mode.into()) {
            FileType::RegularFile => fs::read(format!("/proc/self/fd/{}", file.as_raw_fd()))?,
            FileType::Symlink => readlinkat(file, c"", Vec::new())?.into_bytes(),
            _ => Vec::new(),
        };
        Ok(Self {
            number: status.stx_ino,
            mode: status.stx_mode,
            text,
        })
    }
}

fn handle(path: &Path) -> io::Result<FileHandle> {
    FileHandle::of(open(path, PATH, Mode::empty())?)
}

/// The file of a handle, in the mount at `root`.
fn found(handle: &FileHandle, root: &Path) -> io::Result<OwnedFd> {
    handle.open(File::open(root)?, PATH.bits().cast_signed())
}

fn ensure_error<T>(result: io::Result<T>, expected: Errno) -> Result<()> {
    let error = result.err().map(|error| Errno::from_io_error(&error));
    ensure!(error == Some(Some(expected)), "{error:?} is not {expected}");
    Ok(())
}
