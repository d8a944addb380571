//! nginx, whose log says what was asked for and sent.

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use verimount_support::command;

use super::{PATIENCE, free_port, wait_for};
use crate::lab::Lab;

/// nginx, which serves a folder. It is ended when this is dropped.
pub(crate) struct Server {
    process: Child,
    /// Its own files.
    folder: TempDir,
    /// Where it is reached by HTTP.
    pub(crate) http: SocketAddr,
    /// Where it is reached by HTTPS.
    pub(crate) https: SocketAddr,
    /// A cache in front of it, as those of content delivery networks.
    pub(crate) cached: SocketAddr,
}

/// What a server was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Answered {
    pub(crate) requests: u64,
    /// The bytes of the answers' bodies.
    pub(crate) bytes: u64,
}

/// The file name of its certificate.
const CERTIFICATE: &str = "cert.pem";

const LOG: &str = "answers.log";

impl Server {
    /// Serves `files` at an address; `nginx` is the command that starts it on the machine with this address.
    pub(crate) fn start(
        lab: &Lab,
        files: &Path,
        address: IpAddr,
        mut nginx: Command,
    ) -> Result<Self> {
        let folder = lab.new_folder()?;
        make_certificate(folder.path(), address)?;
        let at = || Ok::<_, anyhow::Error>(SocketAddr::new(address, free_port()?));
        let (http, https, cached) = (at()?, at()?, at()?);
        let config = config(files, http, https, cached);
        fs::write(folder.path().join("nginx.conf"), config)?;
        nginx.arg("-p").arg(folder.path());
        nginx.args(["-c", "nginx.conf", "-e", "error.log"]);
        let process = nginx.stdin(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut server = Self {
            process,
            folder,
            http,
            https,
            cached,
        };
        let is_there = || TcpStream::connect(http).is_ok();
        wait_for("nginx", &mut server.process, is_there).with_context(|| {
            let log = fs::read_to_string(server.folder.path().join("error.log"));
            log.unwrap_or_default()
        })?;
        Ok(server)
    }

    /// The certificate that clients must know.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.path().join(CERTIFICATE)
    }

    /// What it has answered since this was asked last, after all connections have ended: only then its log is
    /// complete.
    pub(crate) fn take_answered(&self) -> Result<Answered> {
        let start = Instant::now();
        while self.connections()? > 1 {
            ensure!(
                start.elapsed() < PATIENCE,
                "there are still connections to the server"
            );
            thread::sleep(Duration::from_millis(1));
        }
        let path = self.folder.path().join(LOG);
        let log = fs::read_to_string(&path)?;
        File::options().write(true).open(path)?.set_len(0)?;
        let mut answered = Answered::default();
        for line in log.lines() {
            answered.requests += 1;
            answered.bytes += line.parse::<u64>().with_context(|| line.to_owned())?;
        }
        Ok(answered)
    }

    /// The number of its connections, with the one that asks for it.
    fn connections(&self) -> Result<u64> {
        let mut stream = TcpStream::connect(self.http)?;
        stream.write_all(b"GET /status HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let count = answer
            .lines()
            .find_map(|line| line.strip_prefix("Active connections: "));
        Ok(count.context("no status of nginx")?.trim().parse()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn make_certificate(folder: &Path, address: IpAddr) -> Result<()> {
    let mut openssl = Command::new("openssl");
    openssl
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days"])
        .args(["2", "-subj", "/CN=bench", "-addext"])
        .arg(format!("subjectAltName=IP:{address}"))
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "key.pem", "-out", CERTIFICATE])
        .current_dir(folder)
        .stderr(Stdio::null());
    command::run(&mut openssl)
}

/// The files are below `/` with listings, as rclone needs them, and in a bucket without, as s3fs does.
fn config(files: &Path, http: SocketAddr, https: SocketAddr, cached: SocketAddr) -> String {
    let files = files.display();
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = kinds.map(|kind| format!("{kind}_temp_path temporary;"));
    let bucket =
        "<ListBucketResult><Name>bucket</Name><IsTruncated>false</IsTruncated></ListBucketResult>";
    let lines = [
        "daemon off; master_process off; pid nginx.pid; worker_rlimit_nofile 8192;".to_owned(),
        "events { worker_connections 4096; }".to_owned(),
        "http {".to_owned(),
        temporary.concat(),
        "sendfile on; tcp_nopush on; keepalive_requests 1000000; access_log off;".to_owned(),
        "default_type application/octet-stream;".to_owned(),
        "log_format answers '$body_bytes_sent';".to_owned(),
        "proxy_cache_path cache keys_zone=cache:1m max_size=4g;".to_owned(),
        "server {".to_owned(),
        format!("listen {http}; listen {https} ssl;"),
        format!(
            "ssl_certificate {CERTIFICATE}; ssl_certificate_key key.pem; ssl_protocols TLSv1.3;"
        ),
        format!("access_log {LOG} answers; root {files}; autoindex on;"),
        "location = /status { stub_status; access_log off; }".to_owned(),
        format!("location = /bucket/ {{ default_type application/xml; return 200 '{bucket}'; }}"),
        format!("location /bucket/ {{ alias {files}/; }}"),
        "}".to_owned(),
        "server {".to_owned(),
        format!("listen {cached};"),
        "slice 1m; proxy_cache cache; proxy_cache_lock on; proxy_cache_valid 200 206 1h;"
            .to_owned(),
        "proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range;".to_owned(),
        format!("proxy_http_version 1.1; location / {{ proxy_pass http://{http}; }}"),
        "}".to_owned(),
        "}".to_owned(),
    ];
    lines.join("\n")
}
