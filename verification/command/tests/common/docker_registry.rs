//! A container registry.

use std::{net::TcpStream, time::UNIX_EPOCH};

use super::certificate;
use crate::prelude::*;

/// A user and password in base 64, as `docker login` stores them and clients send them.
pub(crate) const ME: &str = "bWU6dmVyeS1zZWNyZXQ=";

/// The user of [`ME`] with another password.
pub(crate) const WRONG: &str = "bWU6d3Jvbmctc2VjcmV0";

/// The password in [`ME`].
pub(crate) const PASSWORD: &str = "very-secret";

/// What the registry knows of [`ME`], made by bcrypt.
const HTPASSWD: &str = "me:$2b$05$EV.ch53LgdlJFhg9Q.AoWOQUvqvFR6wtPoZnsvvoLTNZAG7G6Jkmy\n";

/// docker-registry. Its own files are in the folder `registry` of a world.
pub(crate) struct DockerRegistry {
    process: Child,
    port: u16,
    /// The credentials of those who run commands.
    auth_file: PathBuf,
    tokens: Option<HttpServer>,
}

/// Whom it answers.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Login {
    Nobody,
    /// The user `me`.
    Password,
    /// Who has a token for the repository `image`. A server of tokens gives it to the user `me`.
    Token,
}

impl DockerRegistry {
    /// Starts it; `None`, after a note, if it is not installed.
    pub(crate) fn start(world: &World, login: Login) -> Option<Self> {
        Self::start_in(&world.directory("registry"), login, "")
    }

    /// Starts it with encryption, by the certificate `registry/cert.pem`; `None`, after a note, if it is not installed.
    pub(crate) fn start_encrypted(world: &World, login: Login) -> Option<Self> {
        let folder = world.directory("registry");
        certificate::make(&tools::find("openssl")?, &folder);
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.join(name));
        let (certificate, key) = (shown(&certificate), shown(&key));
        let tls = format!(", tls: {{certificate: {certificate}, key: {key}}}");
        Self::start_in(&folder, login, &tls)
    }

    /// Starts it in a folder, with this at the end of its settings for HTTP.
    fn start_in(folder: &Path, login: Login, tls: &str) -> Option<Self> {
        let program = tools::find("docker-registry")?;
        let tokens = match login {
            Login::Token => Some(token_server(folder)?),
            _ => None,
        };
        let rules = rules(login, folder, tokens.as_ref());
        let auth_file = folder.join("auth.json");
        // Another program may take a port before it does.
        for _ in 0..10 {
            let port = free_port();
            let config = folder.join("config.yml");
            fs::write(&config, config_text(folder, port, tls, &rules)).unwrap();
            let log = fs::File::create(folder.join("log")).unwrap();
            let process = Command::new(&program)
                .args(args!["serve", &config])
                .stdin(Stdio::null())
                .stdout(log.try_clone().unwrap())
                .stderr(log)
                .spawn()
                .unwrap();
            let mut registry = Self {
                process,
                port,
                auth_file: auth_file.clone(),
                tokens: None,
            };
            if registry.answers() {
                registry.tokens = tokens;
                return Some(registry);
            }
        }
        let log = fs::read_to_string(folder.join("log"));
        panic!("docker-registry does not start: {log:?}");
    }

    /// How many tokens were given.
    pub(crate) fn tokens(&self) -> usize {
        let server = self.tokens.as_ref();
        server.map_or(0, |server| server.requests().len())
    }

    /// `HOST:PORT`.
    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The name of an image there.
    pub(crate) fn image(&self, name: &str) -> String {
        format!("oci://{}/{name}", self.host())
    }

    /// Stores credentials for those who run commands, as `docker login` does.
    pub(crate) fn log_in(&self, encoded: &str) {
        self.log_in_at(&self.host(), encoded);
    }

    /// Stores credentials for those who run commands, under this name of the registry.
    pub(crate) fn log_in_at(&self, host: &str, encoded: &str) {
        let text = format!(r#"{{"auths": {{"{host}": {{"auth": "{encoded}"}}}}}}"#);
        fs::write(&self.auth_file, text).unwrap();
    }

    /// The command with these credentials.
    pub(crate) fn command(&self) -> Command {
        let mut command = User::Current.command();
        command.env("REGISTRY_AUTH_FILE", &self.auth_file);
        command
    }

    /// Runs it.
    pub(crate) fn verimount(&self, arguments: Vec<OsString>) -> Ended {
        let mut command = self.command();
        command.args(arguments);
        finish(command)
    }

    /// Whether it answers; `false` if it has ended.
    fn answers(&mut self) -> bool {
        let mut is_there = false;
        eventually("docker-registry to listen", || {
            is_there = TcpStream::connect(("127.0.0.1", self.port)).is_ok();
            is_there || self.process.try_wait().unwrap().is_some()
        });
        is_there && self.process.try_wait().unwrap().is_none()
    }
}

impl Drop for DockerRegistry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn config_text(folder: &Path, port: u16, tls: &str, rules: &str) -> String {
    let data = folder.join("data");
    let data = shown(&data);
    format!(
        "version: 0.1\n\
         log: {{level: warn}}\n\
         storage: {{filesystem: {{rootdirectory: {data}}}}}\n\
         http: {{addr: '127.0.0.1:{port}'{tls}}}\n\
         {rules}\n"
    )
}

/// The part of the configuration that says whom it answers.
fn rules(login: Login, folder: &Path, tokens: Option<&HttpServer>) -> String {
    match (login, tokens) {
        (Login::Nobody, _) => String::new(),
        (Login::Token, Some(tokens)) => {
            let (realm, known) = (tokens.url("/token"), folder.join("cert.pem"));
            let known = shown(&known);
            format!(
                "auth: {{token: {{realm: '{realm}', service: test, issuer: test, \
                 rootcertbundle: {known}}}}}"
            )
        }
        _ => {
            let file = folder.join("htpasswd");
            fs::write(&file, HTPASSWD).unwrap();
            let file = shown(&file);
            format!("auth: {{htpasswd: {{realm: test, path: {file}}}}}")
        }
    }
}

/// Gives the user [`ME`] a token that the certificate in this folder signs; `None`, after a note, without
/// openssl.
fn token_server(folder: &Path) -> Option<HttpServer> {
    let openssl = tools::find("openssl")?;
    certificate::make(&openssl, folder);
    let certificate = fs::read_to_string(folder.join("cert.pem")).unwrap();
    let certificate: String = certificate
        .lines()
        .filter(|line| !line.starts_with('-'))
        .collect();
    let now = UNIX_EPOCH.elapsed().unwrap().as_secs();
    let (begin, end) = (now - 60, now + 3600);
    let head = format!(r#"{{"alg": "RS256", "typ": "JWT", "x5c": ["{certificate}"]}}"#);
    let claims = format!(
        r#"{{"iss": "test", "aud": "test", "sub": "me", "nbf": {begin}, "iat": {begin}, "exp": {end},
             "jti": "1",
             "access": [{{"type": "repository", "name": "image", "actions": ["pull", "push"]}}]}}"#
    );
    let encoded = |bytes: &[u8]| {
        let text = piped(&openssl, folder, &["base64", "-A"], bytes);
        let text = String::from_utf8(text).unwrap();
        let text = text.trim_end_matches('=');
        text.replace('+', "-").replace('/', "_")
    };
    let signed = format!(
        "{}.{}",
        encoded(head.as_bytes()),
        encoded(claims.as_bytes())
    );
    let sign = ["dgst", "-sha256", "-sign", "key.pem"];
    let signature = piped(&openssl, folder, &sign, signed.as_bytes());
    let token = format!("{signed}.{}", encoded(&signature));
    let answer = format!(r#"{{"token": "{token}"}}"#);
    Some(HttpServer::start(answer, |_, request, right| {
        if request.header("authorization") == Some(&*format!("Basic {ME}")) {
            right
        } else {
            right.only_status(401)
        }
    }))
}

/// What a program prints when it is given some bytes.
fn piped(program: &Path, folder: &Path, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It is far less than a pipe holds.
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}
