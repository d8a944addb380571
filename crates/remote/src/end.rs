//! The end of a file, which is fetched while the file is opened: a seal ends there.

use std::{
    sync::{
        Arc,
        mpsc::{self, Receiver},
    },
    thread,
    time::Instant,
};

use verimount_source::GRANULE;

use crate::{
    answer::Version,
    client::{Client, Failure, Span},
    fetch::{self, Arrived, Attempts},
};

/// How much of the end is fetched, in bytes. What follows a Merkle tree is always within the last two granules.
pub(crate) const LEN: u64 = 2 * GRANULE;

/// The end of a file that is on its way, over a connection that later requests can use.
pub(crate) struct End {
    since: Instant,
    /// Nothing comes if the request fails.
    arriving: Receiver<Arrived>,
}

impl End {
    /// Asks for the end of a file.
    pub(crate) fn ask(client: &Arc<Client>) -> Self {
        let (sender, arriving) = mpsc::sync_channel(1);
        let client = client.clone();
        let thread = thread::Builder::new().name("remote-end".to_owned());
        // Without it, all that is needed of the end is fetched when it is read. So neither failures nor a
        // receiver that has left matter.
        let _ = thread.spawn(move || {
            if let Ok(arrived) = fetch_end(&client) {
                let _ = sender.send(arrived);
            }
        });
        Self {
            since: Instant::now(),
            arriving,
        }
    }

    /// The granules of the end, if they are of this version. They are waited for as long again as it took until now.
    pub(crate) fn wait(self, client: &Client, version: &Version) -> Vec<(u64, Vec<u8>)> {
        match self.arriving.recv_timeout(self.since.elapsed()) {
            Ok((arrived, granules)) if client.is_same(&arrived, version) => granules,
            _ => Vec::new(),
        }
    }
}

fn fetch_end(client: &Client) -> Result<Arrived, Failure> {
    let session = client.session();
    let attempts = Attempts::new(session, session.closing(), session.limits().open);
    fetch::arrived(client, &Span::End(LEN), &attempts)
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, mpsc};

    use verimount_testkit::{HttpEnd, HttpServer, noise};

    use super::*;
    use crate::{Session, client::Target};

    fn url(server: &HttpServer) -> crate::RemoteUrl {
        server.url("/file").parse().unwrap()
    }

    fn client(server: &HttpServer) -> Client {
        Client::new(&Session::default(), Target::Url(url(server))).unwrap()
    }

    #[test]
    fn the_end_has_whole_granules() {
        const G: usize = GRANULE as usize;
        for (size, expected) in [
            (1, vec![0]),
            (2 * G, vec![0, 1]),
            (2 * G + 1, vec![1, 2]),
            (5 * G - 1, vec![3, 4]),
            (5 * G, vec![3, 4]),
        ] {
            let content = noise(size, 1);
            let server = HttpServer::with_ends(content.clone(), |_, _, right| right);
            let (version, granules) = fetch_end(&client(&server)).unwrap();
            assert_eq!(version.size, size as u64);
            for (granule, bytes) in &granules {
                let start = *granule as usize * G;
                assert!(*bytes == content[start..(start + G).min(size)]);
            }
            let numbers: Vec<_> = granules.iter().map(|(granule, _)| *granule).collect();
            assert_eq!(numbers, expected, "{size}");
        }
    }

    #[test]
    fn what_is_wrong_or_empty_has_no_end() {
        let empty = HttpServer::with_ends([], |_, _, right| right);
        assert!(fetch_end(&client(&empty)).unwrap().1.is_empty());
        for range in [
            "bytes 0-9/100",
            "bytes 89-98/100",
            "bytes 90-99/*",
            "bytes */100",
        ] {
            let server = HttpServer::with_ends([7; 10], move |_, _, right| {
                right.with("content-range", range)
            });
            assert!(fetch_end(&client(&server)).is_err(), "{range}");
        }
    }

    #[test]
    fn the_end_of_another_version_is_not_used() {
        let server = HttpServer::with_ends(noise(1000, 1), |number, _, right| {
            right.with("etag", format!("\"{number}\""))
        });
        let client = client(&server);
        let [first, second] = [(); 2].map(|()| fetch_end(&client).unwrap());
        for (version, expected) in [(&first.0, &first.1[..]), (&second.0, &[])] {
            let (sender, arriving) = mpsc::sync_channel(1);
            sender.send(first.clone()).unwrap();
            let since = Instant::now();
            assert_eq!(End { since, arriving }.wait(&client, version), expected);
        }
    }

    #[test]
    fn opening_asks_for_both_at_once_and_waits_for_no_end() {
        let both = Barrier::new(2);
        let server = HttpServer::with_ends(noise(1000, 1), move |_, request, right| {
            both.wait();
            if request.is_of_end {
                right.cut(10, HttpEnd::Silent)
            } else {
                right
            }
        });
        let (sender, opened) = mpsc::channel();
        let url = url(&server);
        thread::spawn(move || sender.send(Session::default().open(&url).is_ok()));
        let patience = std::time::Duration::from_secs(60);
        assert_eq!(opened.recv_timeout(patience), Ok(true));
    }

    /// Not even for those who compare all bytes: its granules would be taken for others.
    #[test]
    fn the_end_of_a_file_of_another_size_is_not_used() {
        let server = HttpServer::with_ends(noise(1000, 1), |_, _, right| right);
        let mut session = Session::default();
        session.tolerate_changes();
        let client = Client::new(&session, Target::Url(url(&server))).unwrap();
        let arrived = fetch_end(&client).unwrap();
        for (size, expected) in [(1000, &arrived.1[..]), (1001, &[])] {
            let (sender, arriving) = mpsc::sync_channel(1);
            sender.send(arrived.clone()).unwrap();
            let (mut version, since) = (arrived.0.clone(), Instant::now());
            version.size = size;
            assert_eq!(End { since, arriving }.wait(&client, &version), expected);
        }
    }
}
