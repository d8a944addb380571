use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::Arc,
};

use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use verimount_sync::Mutex;

use crate::{HttpServer, http_server::Transport};

/// A connection with TLS.
struct Encrypted<'a>(Mutex<StreamOwned<ServerConnection, &'a TcpStream>>);

impl HttpServer {
    /// The certificate of [`Self::encrypted`], which signs itself, in PEM format. It is valid until 2120.
    pub const CERTIFICATE: &str = include_str!("https/certificate.pem");

    /// Serves `content` rightly, with TLS.
    ///
    /// # Panics
    /// If the system allows no socket or thread.
    pub fn encrypted(content: impl Into<Vec<u8>>) -> Self {
        let content = content.into();
        let transport = Transport {
            scheme: "https",
            serve: |shared, connection| shared.serve(&Encrypted::over(connection)),
        };
        Self::launch(content, false, Box::new(|_, _, right| right), transport)
    }
}

impl<'a> Encrypted<'a> {
    fn over(connection: &'a TcpStream) -> Self {
        let certificate = CertificateDer::from_pem_slice(HttpServer::CERTIFICATE.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("https/key.pem"));
        let config = ServerConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("the provider has usual versions")
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.expect("it is PEM")],
                key.expect("it is PEM"),
            )
            .expect("the key is that of the certificate");
        let tls = ServerConnection::new(Arc::new(config)).expect("the configuration is complete");
        Self(Mutex::new(StreamOwned::new(tls, connection)))
    }
}

impl Read for &Encrypted<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.lock().read(buf)
    }
}

impl Write for &Encrypted<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.lock().write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().flush()
    }
}
