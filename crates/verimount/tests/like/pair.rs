//! An old and a new file, and what of the new one is fetched.

use std::{fs, path::PathBuf};

use tempfile::TempDir;
use verimount::{
    Content, FileDigest, Identity, Location, OpenOptions, PullOptions, ReadAt, RootHash,
    SealFormat, SealOptions, pull, seal,
};
use verimount_testkit::{HttpRequest, HttpServer, Random, noise};

pub(crate) const BLOCK: usize = 4096;
pub(crate) const BLOCKS: usize = 1500;

/// The blocks of the new content that the old one does not have.
pub(crate) const CHANGED: [usize; 6] = [3, 4, 200, 201, 700, 1100];

/// Where the digests of the blocks begin, in both files: behind the data and the topmost block of the tree.
pub(crate) const LEAVES: usize = (BLOCKS * BLOCK).next_multiple_of(65536) + BLOCK;

/// How many bytes the last block has.
pub(crate) const SHORT: usize = BLOCK - 1000;

/// An old and a new file, both sealed.
pub(crate) struct Pair {
    folder: TempDir,
    /// The data of the new one, whose last block is short.
    pub(crate) data: Vec<u8>,
    pub(crate) old_digest: FileDigest,
    pub(crate) digest: FileDigest,
}

impl Pair {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut data = noise((BLOCKS - 1) * BLOCK + SHORT, 1);
        // In another order and place, and with zeros behind the short block.
        let mut old = data[500 * BLOCK..].to_vec();
        old.resize(1000 * BLOCK, 0);
        old.extend(&data[..500 * BLOCK]);
        for block in CHANGED {
            data[block * BLOCK] ^= 1;
        }
        fs::write(folder.path().join("old"), &old).unwrap();
        fs::write(folder.path().join("new"), &data).unwrap();
        let sealed = |name| {
            seal(
                folder.path().join(name),
                &SealOptions {
                    append: true,
                    ..SealOptions::default()
                },
            )
        };
        let [old_digest, digest] =
            ["old", "new"].map(|name| match sealed(name).unwrap().identity {
                Identity::FileDigest(digest) => digest,
                _ => unreachable!(),
            });
        Self {
            folder,
            data,
            old_digest,
            digest,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn old(&self) -> Location {
        Location::from(&*self.path("old"))
    }

    /// Seals the old file in the other format, too, in a file beside it.
    pub(crate) fn seal_old_with_dm_verity(&self) -> RootHash {
        let old = fs::read(self.path("old")).unwrap();
        fs::write(self.path("old"), &old[..BLOCKS * BLOCK]).unwrap();
        let format = SealFormat::DmVerity(Default::default());
        match seal(
            self.path("old"),
            &SealOptions {
                format,
                ..SealOptions::default()
            },
        )
        .unwrap()
        .identity
        {
            Identity::RootHash(root) => root.into(),
            _ => unreachable!(),
        }
    }

    pub(crate) fn server(&self) -> HttpServer {
        HttpServer::honest(fs::read(self.path("new")).unwrap())
    }

    pub(crate) fn options(&self) -> OpenOptions {
        OpenOptions::new().digest(self.digest)
    }

    /// Pulls with what `options` add; returns how much of it was in the old file, and how much was fetched.
    pub(crate) fn pull(&self, options: OpenOptions) -> (u64, u64) {
        let server = self.server();
        let pulled = self.path("pulled");
        let options = PullOptions {
            open: options,
            ..PullOptions::default()
        };
        let got = pull(&*server.url("/new"), &pulled, &options).unwrap();
        assert!(fs::read(&pulled).unwrap() == fs::read(self.path("new")).unwrap());
        fs::remove_file(pulled).unwrap();
        (got.shared, fetched(&server))
    }

    /// Reads all of it and parts of it by URL.
    pub(crate) fn read(&self, content: &Content) {
        let file = content.file();
        let mut random = Random::new(7);
        let mut ranges = vec![(0, self.data.len())];
        for _ in 0..100 {
            let start = random.below(self.data.len());
            ranges.push((
                start,
                start + random.below((self.data.len() - start).min(40_000)),
            ));
        }
        for (start, end) in ranges {
            let mut buf = vec![0; end - start];
            file.read_exact_at(&mut buf, start as u64).unwrap();
            assert!(buf == self.data[start..end], "{start}..{end}");
        }
    }
}

/// The bytes that a server was asked for.
pub(crate) fn fetched(server: &HttpServer) -> u64 {
    asked_for(server.requests())
}

/// The bytes that requests ask for.
pub(crate) fn asked_for(requests: Vec<HttpRequest>) -> u64 {
    requests
        .into_iter()
        .filter_map(|request| request.range)
        .map(|range| range.end - range.start)
        .sum()
}

/// Of the blocks of new content, how many bytes are in old content at most.
pub(crate) fn shared(pair: &Pair) -> u64 {
    (pair.data.len() - CHANGED.len() * BLOCK) as u64
}

/// How many bytes opening fetches, and the tree with what is around it.
pub(crate) const OPENING: u64 = 5 * (128 << 10);

/// What opening and the new blocks take.
pub(crate) const FEW: u64 = OPENING + (CHANGED.len() * BLOCK) as u64;
