use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc::channel,
    },
    thread,
    time::Duration,
};

use verimount_source::{
    Ask, Fetch, GRANULE, Hint, ReadAhead, ReadAt, ReadError, Unchecked, Window, granules,
};
use verimount_testkit::{HttpEnd, HttpServer, Random, eventually, noise};

use super::{content, open, open_within, patient, read};
use crate::{budget::Budget, granules::PART};

/// How often each granule was asked for.
fn asked(server: &HttpServer) -> HashMap<u64, usize> {
    let mut asked = HashMap::new();
    for request in server.requests() {
        for granule in granules(&request.range.unwrap()) {
            *asked.entry(granule).or_default() += 1;
        }
    }
    asked
}

#[test]
fn any_range_is_read() {
    let content = content();
    let server = HttpServer::honest(content.clone());
    let file = open(&server, patient()).unwrap();
    assert_eq!(file.length(), content.len() as u64);
    let mut random = Random::new(1);
    for _ in 0..200 {
        let start = random.below(content.len());
        let len = random.below(content.len() - start + 1);
        assert_eq!(
            read(&file, start as u64, len).unwrap(),
            content[start..start + len]
        );
    }
    let past = file.fetch(&mut [0; 2], content.len() as u64 - 1, Ask::default());
    assert!(matches!(past, Err(ReadError::PastEnd { .. })));
}

#[test]
fn a_stream_asks_for_its_bytes_and_no_others() {
    let content = content();
    // Each transfer breaks off.
    let server = HttpServer::start(content.clone(), |number, _, right| match number {
        0 => right,
        _ => right.cut(150_000, HttpEnd::Closed),
    });
    let file = open(&server, patient()).unwrap();
    let range = 200_001..200_001 + 400_000;
    let mut streamed = Vec::new();
    let mut take = |bytes: &[u8]| streamed.extend_from_slice(bytes);
    file.stream(range.clone(), &mut take).unwrap();
    assert!(streamed == content[range.start as usize..range.end as usize]);
    let asked = server.requests();
    let asked: Vec<_> = asked
        .iter()
        .skip(1)
        .filter_map(|request| request.range.clone())
        .collect();
    let starts = [200_001, 350_001, 500_001];
    assert_eq!(asked, starts.map(|start| start..range.end));
    let past = file.stream(0..content.len() as u64 + 1, &mut |_| ());
    assert!(matches!(past, Err(ReadError::PastEnd { .. })));
}

#[test]
fn a_granule_is_fetched_once_for_all_readers() {
    let server = HttpServer::honest(content());
    let file = open(&server, patient()).unwrap();
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                file.hint(GRANULE..4 * GRANULE, Hint::Need);
                assert_eq!(read(&file, 0, content().len()).unwrap(), content());
            });
        }
    });
    assert!(
        asked(&server).values().all(|&times| times == 1),
        "{:?}",
        asked(&server)
    );
}

#[test]
fn connections_are_bounded() {
    const CONNECTIONS: usize = 3;
    let content = noise(64 * GRANULE as usize, 2);
    let asking = Arc::new(AtomicUsize::new(0));
    let (gate, is_open) = channel::<()>();
    let (in_script, is_open) = (asking.clone(), Mutex::new(is_open));
    let server = HttpServer::start(content.clone(), move |number, _, right| {
        if number > 0 {
            in_script.fetch_add(1, SeqCst);
            // Until the gate is dropped, also because the test has failed.
            let _ = is_open.lock().unwrap().recv();
        }
        right
    });
    let budget = Budget {
        connections: CONNECTIONS,
        ..Budget::default()
    };
    let (file, content) = (&open_within(budget, &server, patient()), &content);
    thread::scope(move |scope| {
        for reader in 0..32 {
            scope.spawn(move || {
                let at = reader * 2 * GRANULE;
                assert_eq!(read(file, at, 1).unwrap(), content[at as usize..][..1]);
            });
        }
        eventually("all connections are used", || {
            asking.load(SeqCst) >= CONNECTIONS
        });
        // The other readers could ask now.
        thread::sleep(Duration::from_millis(200));
        assert_eq!(asking.load(SeqCst), CONNECTIONS);
        drop(gate);
    });
}

#[test]
fn reading_in_order_takes_few_requests() {
    let content = noise(5 * PART as usize, 3);
    let server = HttpServer::honest(content.clone());
    let remote = open(&server, patient()).unwrap();
    let file = ReadAhead::new(Unchecked(&*remote));
    let piece = GRANULE as usize;
    for (number, expected) in content.chunks(piece).enumerate() {
        let start = (number * piece) as u64;
        let mut buf = vec![0; expected.len()];
        file.read_exact_at(&mut buf, start).unwrap();
        assert!(buf == expected);
    }
    assert!(asked(&server).values().all(|&times| times == 1));
    // The first MiB in granules, then in growing steps, then whole parts.
    let requests = server.requests().len();
    assert!(requests <= 24, "{requests}");
}

/// What is used again while a long file is read in order: its Merkle tree, of which a piece is needed for each
/// 64 MiB of data.
#[test]
fn what_is_needed_between_is_fetched_once() {
    const DATA: u64 = 64 << 20;
    const PIECE: u64 = 512 << 10;
    const EVERY: u64 = 4 << 20;
    let size = DATA + DATA / EVERY * PIECE;
    let content = noise(size as usize, 6);
    let server = HttpServer::honest(content.clone());
    let remote = open(&server, patient()).unwrap();
    let tree = Unchecked(&*remote);
    let file = ReadAhead::new(Window::new(tree, 0, DATA).unwrap());
    let mut buf = vec![0; 1 << 20];
    for offset in (0..DATA).step_by(buf.len()) {
        if offset.is_multiple_of(EVERY) {
            let piece = DATA + offset / EVERY * PIECE;
            tree.will_need(piece, PIECE);
            let buf = &mut buf[..PIECE as usize];
            tree.read_exact_at(buf, piece).unwrap();
            assert!(buf == &content[piece as usize..][..PIECE as usize]);
        }
        file.read_exact_at(&mut buf, offset).unwrap();
        assert!(buf == content[offset as usize..][..1 << 20]);
    }
    let asked = asked(&server);
    assert!((0..DATA / GRANULE).all(|granule| asked[&granule] == 1));
    // Few more than the first steps of both. What is fetched ahead at the end of the data is the other again.
    let requests = server.requests().len();
    assert!(requests <= 32, "{requests}");
}

#[test]
fn a_large_read_is_several_requests() {
    let content = noise(3 * PART as usize, 4);
    let server = HttpServer::honest(content.clone());
    let file = open(&server, patient()).unwrap();
    assert!(read(&file, 0, content.len()).unwrap() == content);
    let largest = server.requests().into_iter().map(|request| {
        let range = request.range.unwrap();
        range.end - range.start
    });
    assert_eq!(largest.max(), Some(PART));
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn more_is_read_than_is_kept() {
    let content = noise(40 * GRANULE as usize, 5);
    let server = HttpServer::honest(content.clone());
    let budget = Budget {
        granules: 4,
        ..Budget::default()
    };
    let file = open_within(budget, &server, patient());
    for _ in 0..2 {
        assert!(read(&file, 0, content.len()).unwrap() == content);
    }
}
