//! The kernel mounts our compressed images, and shows the tree that they were made of.

use std::{fs, path::PathBuf, process::Command};

use tempfile::TempDir;
use verimount_testkit::{noise, skip};

use super::{compressed, image_of, text};

/// An image that the kernel has mounted.
struct Mounted(TempDir);

impl Mounted {
    /// `None` if it is not mounted: only root can do so, and only some kernels without a device.
    fn new(image: &[u8]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (file, point) = (folder.path().join("image"), folder.path().join("mnt"));
        fs::write(&file, image).unwrap();
        fs::create_dir(&point).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "erofs", "-o", "ro"]).arg(file).arg(point);
        mount
            .output()
            .unwrap()
            .status
            .success()
            .then_some(Self(folder))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("mnt")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily, since it can be busy although its files are closed: a process that another test starts has
        // copies of all open descriptors for a moment.
        let unmounted = Command::new("umount").arg("-l").arg(self.path()).status();
        assert!(unmounted.unwrap().success());
    }
}

/// It is stricter than other readers.
#[test]
fn the_kernel_reads_compressed_images() {
    let folder = tempfile::tempdir().unwrap();
    // Ends of all kinds: what is compressed, what is not, and what is short, in blocks that something begins in or not.
    for len in (1..40).map(|number| number * 1000) {
        let contents = [
            text(len),
            [text(len), noise(3000, 1)].concat(),
            [noise(len, 2), text(7000)].concat(),
            [text(20_000), noise(len, 3), vec![0; 5000]].concat(),
        ];
        for (number, content) in contents.iter().enumerate() {
            fs::write(folder.path().join(format!("{len} {number}")), content).unwrap();
        }
    }
    if Mounted::new(&image_of(folder.path(), None)).is_none() {
        skip("the kernel does not mount the image here");
        return;
    }
    for (codec, cluster) in [
        ("lz4", 4096),
        ("lz4,9", 65_536),
        ("zstd", 4096),
        ("zstd", 65_536),
    ] {
        let Some(mounted) = Mounted::new(&compressed(folder.path(), codec, cluster)) else {
            // Linux before 6.10 has no Zstandard.
            assert!(codec.starts_with("zstd"), "{codec} {cluster}");
            continue;
        };
        let mut diff = Command::new("diff");
        diff.arg("-r").arg(folder.path()).arg(mounted.path());
        assert!(diff.status().unwrap().success(), "{codec} {cluster}");
    }
}
