use std::{io, ops::ControlFlow, os::unix::fs::FileExt, path::PathBuf, sync::Arc};

use verimount_remote::{Error as RemoteError, RemoteUrl, Session};
use verimount_source::{Fetch, FileSource};
use verimount_sync::Mutex;

use crate::{Progress, Step, Watcher};

/// Files of servers that send no parts: each is fetched once, into a file without a name.
#[derive(Debug)]
pub struct WholeFiles {
    folder: PathBuf,
    watcher: Watcher,
    fetched: Mutex<Vec<(RemoteUrl, Arc<FileSource>)>>,
}

impl WholeFiles {
    /// None yet; they will take space in this folder.
    pub fn new(folder: PathBuf, watcher: Watcher) -> Self {
        Self {
            folder,
            watcher,
            fetched: Mutex::default(),
        }
    }

    /// Opens the file at a URL: in parts, if the server sends them. Nobody waits for another server meanwhile.
    pub(super) fn open(&self, url: &RemoteUrl, session: &Session) -> io::Result<Arc<dyn Fetch>> {
        let is_it = |(known, _): &&(RemoteUrl, _)| known == url;
        let known = self.fetched.lock().iter().find(is_it).cloned();
        if let Some((_, file)) = known {
            return Ok(file);
        }
        match session.open(url) {
            Err(RemoteError::NoRanges) => {
                let file = Arc::new(self.fetch(url, session)?);
                self.fetched.lock().push((url.clone(), file.clone()));
                Ok(file)
            }
            opened => Ok(opened?),
        }
    }

    fn fetch(&self, url: &RemoteUrl, session: &Session) -> io::Result<FileSource> {
        let file = tempfile::tempfile_in(&self.folder)?;
        let mut watch = self.watcher.watch();
        let mut written = Ok(());
        let size = session.fetch_whole(url, &mut |bytes, at, size| {
            written = file.write_all_at(bytes, at);
            if written.is_err() {
                return ControlFlow::Break(());
            }
            watch(Progress::new(Step::Download, at + bytes.len() as u64, size))
        });
        written?;
        // An attempt that broke off may have been of a longer one.
        file.set_len(size?)?;
        FileSource::new(file)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    use verimount_source::{ReadAt, Unchecked};
    use verimount_testkit::{HttpAnswer, HttpEnd, HttpRequest, HttpServer, noise};

    use super::*;

    /// A server that sends files whole, and the first time only a part of a longer one.
    fn server(content: Vec<u8>) -> HttpServer {
        let has_broken_off = AtomicBool::new(false);
        HttpServer::start([], move |_, request, _| {
            let whole = HttpRequest {
                range: None,
                ..request.clone()
            };
            if request.range.is_some() || has_broken_off.swap(true, SeqCst) {
                HttpAnswer::of(&content, &whole)
            } else {
                HttpAnswer::of(&noise(400_000, 1), &whole).cut(300_000, HttpEnd::Closed)
            }
        })
    }

    #[test]
    fn each_file_is_that_of_its_url() {
        let files = WholeFiles::new(std::env::temp_dir(), Watcher::default());
        let contents = [2, 3].map(|seed| noise(1000, seed));
        let servers = contents.clone().map(server);
        for _ in 0..2 {
            for (server, content) in servers.iter().zip(&contents) {
                let url = server.url("/file").parse().unwrap();
                let file = files.open(&url, &Session::default()).unwrap();
                let mut read = vec![0; file.length() as usize];
                Unchecked(&*file).read_exact_at(&mut read, 0).unwrap();
                assert!(read == *content);
            }
        }
    }
}
