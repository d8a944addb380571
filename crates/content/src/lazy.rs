//! Sealed content, or a file of it, that is opened at a place when something of it is first read.

use std::{io, ops::Range, sync::Arc};

use verimount_source::Fetch;
use verimount_verity::Seal;

use crate::{
    Error,
    accepted::Accepted,
    at_need::{AtNeed, Files, NotOpened},
    beheaded::beheaded,
    far::replaced,
    fault::Fault,
    history::other_release,
    opening::Opening,
    place::Place,
};

/// `seal`, whose data and tree are opened at `place` when something of them is first read. There may be another seal by then.
pub(crate) fn closed(place: Arc<Place>, accepted: Accepted, seal: &Seal) -> Seal {
    reading(place, accepted, seal, Opening::closed())
}

/// `seal`, whose data and tree were opened at `place`.
pub(crate) fn open(place: Arc<Place>, accepted: Accepted, seal: &Seal) -> Seal {
    reading(place, accepted, seal, Opening::open(files_of(seal)))
}

fn reading(
    place: Arc<Place>,
    accepted: Accepted,
    seal: &Seal,
    opening: Arc<Opening<Files>>,
) -> Seal {
    let known = seal.clone();
    let files = AtNeed::new(place.is_slow(), opening, move |range| {
        find(&place, &accepted, &known, range)
    });
    let geometry = seal.geometry();
    seal.clone().with_sources(
        files.file(0, geometry.data_size()),
        files.file(1, geometry.tree_size()),
    )
}

/// The copy of a file at a place, which `open` opens there when something of it is first read, and which must have this size in
/// bytes.
pub fn file_copy(place: Arc<Place>, open: OpenFile, size: u64) -> Arc<dyn Fetch> {
    let files = AtNeed::new(place.is_slow(), Opening::closed(), move |_| {
        let file = open(&place).map_err(|error| not_opened(&place, error))?;
        if file.length() == size {
            return Ok(vec![file]);
        }
        let reason = format!("it has {} bytes, not {size}", file.length());
        Err(NotOpened {
            reason: io::Error::other(reason),
            is_lasting: false,
        })
    });
    files.file(0, size)
}

/// Opens a file at a place.
pub type OpenFile = fn(&Place) -> Result<Arc<dyn Fetch>, Error>;

fn files_of(seal: &Seal) -> Files {
    vec![
        seal.data_unverified().clone(),
        seal.tree_unverified().clone(),
    ]
}

/// Finds the content of the seal `known`, of which `range` of the data is wanted.
fn find(
    place: &Place,
    accepted: &Accepted,
    known: &Seal,
    range: &Range<u64>,
) -> Result<Files, NotOpened> {
    let refused = |error| not_opened(place, error);
    let (source, _) = place.content().map_err(refused)?;
    let found = accepted.find(place, source.clone());
    let found = found.or_else(|error| beheaded(known, place, source.clone()).ok_or(error));
    let found = match found {
        Ok(seal) if seal.is_of_same_content(known) => return Ok(files_of(&seal)),
        Err(error) if !error.kind().is_about_data() => return Err(refused(error)),
        other => other,
    };
    match (other_release(place, source, accepted, known, range), found) {
        (Ok(Some(reason)), _) => Err(NotOpened {
            reason,
            is_lasting: true,
        }),
        (Ok(None), Ok(_)) => Err(NotOpened {
            reason: replaced(),
            is_lasting: false,
        }),
        (Err(error), _) | (Ok(None), Err(error)) => Err(refused(error)),
    }
}

/// Why a place cannot be read. One on this machine that was read, and does not have the content, is left alone for a while.
fn not_opened(place: &Place, error: Error) -> NotOpened {
    let is_lasting = error.kind().is_about_data() && !place.is_slow();
    let reason = match error.fault() {
        Fault::Io(_) => match error.into_fault() {
            Fault::Io(reason) => reason,
            _ => unreachable!("it was looked at"),
        },
        _ => io::Error::other(error),
    };
    NotOpened { reason, is_lasting }
}

#[cfg(all(test, feature = "remote"))]
mod tests {
    use std::{
        fs::{self, File},
        num::NonZeroUsize,
        ops::ControlFlow,
        time::Duration,
    };

    use verimount_source::Ask;
    use verimount_testkit::HttpServer;
    use verimount_verity::{SealLayout, TreeParams, append_seal, dm_verity};

    use super::*;
    use crate::{Location, Options};

    const DATA: [u8; 100] = [7; 100];

    /// A file with its seal, the same seal, and what accepts it.
    fn sealed() -> (Vec<u8>, Seal, Accepted) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, DATA).unwrap();
        let descriptor = append_seal(
            &DATA.to_vec(),
            &File::options().write(true).open(&path).unwrap(),
            &TreeParams::default(),
            NonZeroUsize::MIN,
            &mut |_| ControlFlow::Continue(()),
        );
        let accepted = Accepted::FsVerity {
            digest: Some(descriptor.unwrap().file_digest()),
            key: None,
        };
        let place = Place::new(path.as_path().into(), &Options::default());
        let (source, _) = place.content().unwrap();
        let found = accepted.find(&place, source).unwrap();
        (fs::read(path).unwrap(), found, accepted)
    }

    fn place(server: &HttpServer) -> Place {
        let location: Location = server.url("/file").parse().unwrap();
        Place::new(location, &Options::default())
    }

    fn fails(content: &dyn Fetch) {
        let fetched = content.fetch(&mut [0; 10], 0, Ask::default());
        assert!(fetched.is_err());
    }

    #[test]
    fn a_failure_is_not_kept() {
        let (file, seal, accepted) = sealed();
        let server = HttpServer::start(file, |number, _, right| match number {
            0..3 => right.only_status(404),
            _ => right,
        });
        let seal = closed(place(&server).into(), accepted, &seal);
        (0..3).for_each(|_| fails(&**seal.data_unverified()));
        let mut buf = [0; 10];
        let fetched = seal.data_unverified().fetch(&mut buf, 0, Ask::default());
        fetched.unwrap();
        assert_eq!(buf, DATA[..10]);
    }

    /// Its disk may have to start.
    #[test]
    fn what_is_on_this_machine_is_waited_for() {
        let (file, seal, accepted) = sealed();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mirror");
        fs::write(&path, file).unwrap();
        let place = Place::new(path.as_path().into(), &Options::default());
        let seal = closed(place.into(), accepted, &seal);
        let mut buf = [0; 10];
        let now = Ask::within(Some(Duration::ZERO));
        seal.data_unverified().fetch(&mut buf, 0, now).unwrap();
        assert_eq!(buf, DATA[..10]);
    }

    #[test]
    fn a_file_of_other_content_is_left_alone_for_a_while_and_a_missing_one_is_not() {
        let (file, seal, accepted) = sealed();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mirror");
        let closed = || {
            let place = Place::new(path.as_path().into(), &Options::default());
            closed(place.into(), accepted.clone(), &seal)
        };
        let content = closed();
        fails(&**content.data_unverified());
        fs::write(&path, &file).unwrap();
        let read = |content: &Seal| {
            let data = content.data_unverified();
            data.fetch(&mut [0; 10], 0, Ask::default()).map(drop)
        };
        read(&content).unwrap();
        let content = closed();
        fs::write(&path, "something else").unwrap();
        fails(&**content.data_unverified());
        fs::write(&path, file).unwrap();
        // It is not even looked at.
        fails(&**content.data_unverified());
    }

    /// Its root hash is the same.
    #[test]
    fn content_with_another_superblock_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let [path, sidecar] = ["file", "file.verity"].map(|name| folder.path().join(name));
        let data = vec![7; 200 * 4096];
        fs::write(&path, &data).unwrap();
        let sealed = dm_verity::seal(
            &data,
            &File::create(&sidecar).unwrap(),
            SealLayout::Sidecar,
            &dm_verity::Params::default(),
            NonZeroUsize::MIN,
            &mut |_| ControlFlow::Continue(()),
        );
        let accepted = Accepted::DmVerity {
            root: sealed.unwrap().root.into(),
            superblock: None,
        };
        let place = || Arc::new(Place::new(path.as_path().into(), &Options::default()));
        let (seal, _) = accepted.found_at(&place()).unwrap();
        let closed = || closed(place(), accepted.clone(), &seal);
        let mut buf = [0; 10];
        let content = closed();
        let data = content.data_unverified();
        data.fetch(&mut buf, 0, Ask::default()).unwrap();
        assert_eq!(buf, [7; 10]);
        // It has a block less.
        let mut hashes = fs::read(&sidecar).unwrap();
        hashes[72] -= 1;
        fs::write(&sidecar, hashes).unwrap();
        fails(&**closed().data_unverified());
    }

    #[test]
    fn a_copy_of_another_size_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mirror");
        for (len, is_read) in [(99, false), (100, true), (101, false)] {
            fs::write(&path, vec![7; len]).unwrap();
            let place = Place::new(path.as_path().into(), &Options::default());
            let copy = file_copy(place.into(), |place| Ok(place.content()?.0), 100);
            let fetched = copy.fetch(&mut [0; 10], 0, Ask::default());
            assert_eq!(fetched.is_ok(), is_read, "{len}");
        }
    }
}
