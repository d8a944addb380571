//! The server as clients meet it: only bytes go in, and only bytes are judged. They are put together
//! here once more, by hand.

mod client;
mod handshake;
mod limits;
mod server;
mod transmission;
mod world;
