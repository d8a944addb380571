use std::{io, os::unix::fs::FileExt, path::PathBuf, sync::Arc};

use verimount_remote::{RemoteUrl, Session};
use verimount_source::FileSource;
use verimount_sync::Mutex;

/// Files of servers that send no parts: each is fetched once, into a file without a name.
#[derive(Debug)]
pub struct WholeFiles {
    folder: PathBuf,
    fetched: Mutex<Vec<(RemoteUrl, Arc<FileSource>)>>,
}

impl WholeFiles {
    /// None yet; they will take space in this folder.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            fetched: Mutex::default(),
        }
    }

    /// The file at a URL.
    pub(super) fn get(&self, url: &RemoteUrl, session: &Session) -> io::Result<Arc<FileSource>> {
        let mut fetched = self.fetched.lock();
        if let Some((_, file)) = fetched.iter().find(|(known, _)| known == url) {
            return Ok(file.clone());
        }
        tracing::warn!(%url, "the server does not support ranges: all of it is fetched");
        let file = tempfile::tempfile_in(&self.folder)?;
        let mut written = Ok(());
        let size = session.fetch_whole(url, &mut |bytes, at| {
            if written.is_ok() {
                written = file.write_all_at(bytes, at);
            }
        })?;
        written?;
        // An attempt that broke off may have been of a longer one.
        file.set_len(size)?;
        let file = Arc::new(FileSource::new(file)?);
        fetched.push((url.clone(), file.clone()));
        Ok(file)
    }
}
