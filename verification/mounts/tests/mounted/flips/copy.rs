use super::sample::Sample;
use crate::prelude::*;

/// The bit that is changed in a byte: with it letters stay letters, so that names stay valid.
const BIT: u8 = 0x20;

/// One copy of the image, and a directory to mount it on.
pub(super) struct Copy<'a> {
    pub(super) sample: &'a Sample,
    pub(super) image: PathBuf,
    pub(super) storage: File,
    pub(super) directory: PathBuf,
}

impl Copy<'_> {
    pub(super) fn flip(&self, position: usize) {
        let flipped = self.sample.bytes[position] ^ BIT;
        self.storage
            .write_all_at(&[flipped], position as u64)
            .unwrap();
    }

    pub(super) fn restore(&self, position: usize) {
        let right = self.sample.bytes[position];
        self.storage
            .write_all_at(&[right], position as u64)
            .unwrap();
    }

    pub(super) fn mount(&self, options: &OpenOptions) -> Result<Mounted, Error> {
        Mounted::new(&self.image, &self.directory, options)
    }

    /// Whether a new mount detects this changed byte. Asserts that everything it shows is right.
    pub(super) fn is_noticed(&self, position: usize) -> bool {
        self.flip(position);
        let noticed = match self.mount(&self.sample.options) {
            Ok(daemon) => {
                let noticed = self.reads_are_right_or_refused(position);
                daemon.unmount();
                noticed
            }
            Err(_) => true,
        };
        self.restore(position);
        noticed
    }

    /// Walks and reads everything; returns whether anything was refused.
    pub(super) fn reads_are_right_or_refused(&self, position: usize) -> bool {
        let expected = &self.sample.expected;
        match snapshot(&self.directory) {
            Ok(seen) => {
                assert!(seen == *expected, "{position}: something else is shown");
                false
            }
            Err(_) => {
                // The walk ends at the first refusal: what else there is, is looked for by name.
                for (path, (_, stored)) in expected {
                    let right = self.is_right_or_refused(path, stored);
                    right.unwrap_or_else(|what| panic!("{position}: {path:?}: {what}"));
                }
                true
            }
        }
    }

    /// Examines one file: if that succeeds, its attributes must be right.
    fn is_right_or_refused(&self, path: &Path, stored: &Stored) -> Result<(), String> {
        let path = self.directory.join(path);
        let target = fs::read_link(&path);
        let right = match (fs::symlink_metadata(&path), stored) {
            (Err(error), _) if is_refusal(&error) => true,
            (Err(error), _) => return Err(error.to_string()),
            (Ok(metadata), Stored::Directory) => metadata.is_dir(),
            (Ok(metadata), Stored::File { content, .. }) => {
                metadata.is_file() && read_pieces(&path, content).map(|()| true)?
            }
            (Ok(metadata), Stored::Symlink(right)) => {
                metadata.is_symlink()
                    && target.map_or_else(|error| is_refusal(&error), |target| target == *right)
            }
            (Ok(_), _) => false,
        };
        if right {
            Ok(())
        } else {
            Err("something else is shown".to_owned())
        }
    }
}

/// Whether this is the error of a refused read.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Reads a file block by block: every block that is read must be right.
fn read_pieces(path: &Path, content: &[u8]) -> Result<(), String> {
    let mut file = File::open(path).map_err(|error| error.to_string())?;
    let mut refused = 0;
    for (number, expected) in content.chunks(4096).enumerate() {
        let mut bytes = vec![0; expected.len()];
        match file.read_exact_at(&mut bytes, number as u64 * 4096) {
            Ok(()) if bytes != expected => return Err(format!("other bytes in block {number}")),
            Ok(()) => {}
            Err(error) if is_refusal(&error) => refused += 1,
            Err(error) => return Err(error.to_string()),
        }
    }
    // And as most programs do.
    let mut bytes = Vec::new();
    match file.read_to_end(&mut bytes) {
        Ok(_) if refused == 0 && bytes == content => Ok(()),
        Err(_) if refused > 0 && content.starts_with(&bytes) => Ok(()),
        other => Err(format!("{other:?} where {refused} blocks are refused")),
    }
}
