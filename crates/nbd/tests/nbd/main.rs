//! Tests of the server on the byte level: messages are assembled by hand, independently of the
//! implementation, and answers are compared as bytes.

mod client;
mod handshake;
mod limits;
mod own_options;
mod server;
mod transmission;
mod world;
