//! A web server.

use std::net::TcpStream;

use super::certificate;
use crate::prelude::*;

/// nginx, which serves the files of a world. Its own files are in the folder `nginx` there.
pub(crate) struct Nginx {
    process: Child,
    folder: PathBuf,
    ports: Ports,
}

/// Where it listens.
#[derive(Clone, Copy)]
struct Ports {
    plain: u16,
    tls: u16,
    /// As a CDN: it asks itself for slices, and keeps them.
    cdn: u16,
}

/// A request that it has answered.
#[derive(Debug)]
pub(crate) struct Logged {
    pub(crate) path: String,
    /// The bytes of the answer's body.
    pub(crate) sent: u64,
}

impl Nginx {
    /// Starts it; `None`, after a note, if it is not installed.
    pub(crate) fn start(world: &World) -> Option<Self> {
        let nginx = tools::find("nginx")?;
        let openssl = tools::find("openssl")?;
        let folder = world.directory("nginx");
        certificate::make(&openssl, &folder);
        // Another program may take a port before nginx does.
        for _ in 0..10 {
            let ports = Ports {
                plain: free_port(),
                tls: free_port(),
                cdn: free_port(),
            };
            let config = config(world.root(), ports);
            fs::write(folder.join("nginx.conf"), config).unwrap();
            let process = Command::new(&nginx)
                .arg("-p")
                .arg(&folder)
                .args(["-c", "nginx.conf", "-e", "error.log"])
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut server = Self {
                process,
                folder: folder.clone(),
                ports,
            };
            if server.answers() {
                return Some(server);
            }
        }
        let log = fs::read_to_string(folder.join("error.log"));
        panic!("nginx does not start: {log:?}");
    }

    /// The URL of a file in the world.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}", self.ports.plain)
    }

    /// The URL of a file in the world, encrypted.
    pub(crate) fn tls_url(&self, name: &str) -> String {
        format!("https://127.0.0.1:{}/{name}", self.ports.tls)
    }

    /// The URL of a file in the world through a CDN, whose requests are counted and not those to it.
    pub(crate) fn cdn_url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}", self.ports.cdn)
    }

    /// The certificate that clients must know.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.join("cert.pem")
    }

    /// The requests so far that were not broken off.
    pub(crate) fn requests(&self) -> Vec<Logged> {
        let log = fs::read_to_string(self.folder.join("access.log")).unwrap();
        let lines = log.lines().map(|line| {
            let (path, sent) = line.split_once(' ').unwrap();
            Logged {
                path: path.to_owned(),
                sent: sent.parse().unwrap(),
            }
        });
        lines.collect()
    }

    /// Whether it answers; `false` if it has ended.
    fn answers(&mut self) -> bool {
        let mut is_there = false;
        eventually("nginx to listen", || {
            is_there = TcpStream::connect(("127.0.0.1", self.ports.plain)).is_ok();
            is_there || self.process.try_wait().unwrap().is_some()
        });
        is_there && self.process.try_wait().unwrap().is_none()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn config(root: &Path, ports: Ports) -> String {
    let Ports { plain, tls, cdn } = ports;
    let root = root.to_str().unwrap();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path temporary;"))
        .concat();
    format!(
        "daemon off; master_process off; pid nginx.pid;
         events {{}}
         http {{
             {temporary}
             log_format requests '$uri $body_bytes_sent';
             access_log access.log requests;
             server {{
                 listen 127.0.0.1:{plain};
                 listen 127.0.0.1:{tls} ssl;
                 ssl_certificate cert.pem;
                 ssl_certificate_key key.pem;
                 root {root};
             }}
             proxy_cache_path cdn keys_zone=cdn:1m;
             server {{
                 listen 127.0.0.1:{cdn};
                 access_log off;
                 slice 1m;
                 proxy_cache cdn;
                 proxy_cache_key $uri$slice_range;
                 proxy_cache_valid 206 1h;
                 proxy_cache_lock on;
                 proxy_cache_lock_age 1h;
                 proxy_cache_lock_timeout 1h;
                 proxy_set_header Range $slice_range;
                 proxy_http_version 1.1;
                 location / {{ proxy_pass http://127.0.0.1:{plain}; }}
             }}
         }}
        "
    )
}
