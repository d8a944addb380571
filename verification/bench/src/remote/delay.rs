//! A proxy that delays what passes, as a long way does.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

/// The most bytes that are passed on at once.
const PIECE: usize = 128 << 10;

/// Pieces under way in each direction of a connection: more than fit into a link of 1 Gbit/s and 40 ms.
const PIECES: usize = 64;

/// Bytes, and when they arrive at the other end.
type Piece = (Instant, Vec<u8>);

/// Passes connections on to `to`. Each direction takes half of `round_trip`, and connecting a whole one.
///
/// # Errors
/// It cannot listen.
pub(crate) fn serve(listen: SocketAddr, to: SocketAddr, round_trip: Duration) -> io::Result<()> {
    for client in TcpListener::bind(listen)?.incoming() {
        // A connection that fails on one side is closed on the other.
        let client = client?;
        thread::spawn(move || relay(&client, to, round_trip));
    }
    Ok(())
}

fn relay(client: &TcpStream, to: SocketAddr, round_trip: Duration) -> io::Result<()> {
    // The client is connected at once, so that what it sends first comes later instead.
    let connected = Instant::now() + round_trip;
    let one_way = round_trip / 2;
    let server = &TcpStream::connect(to)?;
    for stream in [client, server] {
        stream.set_nodelay(true)?;
    }
    thread::scope(|scope| {
        scope.spawn(|| pass(client, server, one_way, connected));
        pass(server, client, one_way, connected);
    });
    Ok(())
}

/// Passes one direction on until it ends. What was sent before `earliest` counts as sent then.
fn pass(from: &TcpStream, to: &TcpStream, one_way: Duration, earliest: Instant) {
    let (sender, receiver) = sync_channel(PIECES);
    thread::scope(|scope| {
        scope.spawn(|| {
            if write(receiver, to).is_err() {
                // Nobody wants the rest.
                let _ = from.shutdown(Shutdown::Both);
            }
        });
        // An error is an end, too.
        let _ = read(from, sender, one_way, earliest);
    });
}

fn read(
    mut from: &TcpStream,
    sender: SyncSender<Piece>,
    one_way: Duration,
    earliest: Instant,
) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    loop {
        let read = from.read(&mut buffer)?;
        let arrives = Instant::now().max(earliest) + one_way;
        if read == 0 || sender.send((arrives, buffer[..read].to_vec())).is_err() {
            return Ok(());
        }
    }
}

fn write(pieces: Receiver<Piece>, mut to: &TcpStream) -> io::Result<()> {
    for (arrives, bytes) in pieces {
        thread::sleep(arrives.saturating_duration_since(Instant::now()));
        to.write_all(&bytes)?;
    }
    to.shutdown(Shutdown::Write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_in_order_and_late() {
        const ROUND_TRIP: Duration = Duration::from_millis(20);
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = server.local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        thread::spawn(move || relay(&accepted, to, ROUND_TRIP));
        let echo = thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).unwrap();
            stream.write_all(&bytes).unwrap();
        });
        let start = Instant::now();
        let sent: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        client.write_all(&sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        assert!(received == sent);
        // Connecting is one round trip, asking and answering another one.
        assert!(start.elapsed() >= 2 * ROUND_TRIP);
        echo.join().unwrap();
    }
}
