use std::{
    fs::OpenOptions,
    io::{IsTerminal, Write, stdin, stdout},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use verimount_names::printable;
use verimount_source::FileSource;
use verimount_verity::{KeyPair, SealLayout, Sealed, SecretKey};

use crate::{
    Outcome,
    new_file::NewFile,
    opened::{find_seal, open_source, sidecar_path},
    options::{ReadArgs, read_key_file},
};

/// Make a minisign key pair: a public key to give away and a secret one to sign with
#[derive(Args)]
pub(crate) struct Keygen {
    /// Where to write the public key
    #[arg(value_name = "PUBLIC")]
    public: PathBuf,
    /// Where to write the secret key
    #[arg(value_name = "SECRET")]
    secret: PathBuf,
    /// Do not protect the secret key with a password
    #[arg(long, short = 'W')]
    no_password: bool,
}

impl Keygen {
    pub(crate) fn run(self) -> Result<Outcome> {
        let password = match self.no_password {
            true => None,
            false => Some(new_password()?),
        };
        let pair = KeyPair::generate(password)?;
        let secret = NewFile::create(&self.secret, 0o600)?;
        let public = NewFile::create(&self.public, 0o644)?;
        secret.write(&pair.secret)?;
        public.write(&pair.public)?;
        secret.keep();
        public.keep();
        writeln!(stdout(), "{}", printable(&self.public))?;
        Ok(Outcome::Good)
    }
}

fn new_password() -> Result<String> {
    let password = ask("Password for the secret key: ")?;
    if password.is_empty() {
        bail!("an empty password protects nothing; for a key without one, say --no-password");
    }
    if ask("The same password again: ")? != password {
        bail!("the passwords differ; no key was made");
    }
    Ok(password)
}

fn ask(prompt: &str) -> Result<String> {
    if !stdin().is_terminal() {
        bail!("a password is needed, and there is no terminal to ask for it");
    }
    rpassword::prompt_password(prompt).context("reading the password")
}

/// Sign the digest of a sealed file; the signature is kept in its seal
#[derive(Args)]
pub(crate) struct Sign {
    /// The sealed file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The minisign secret key
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    #[command(flatten)]
    read: ReadArgs,
}

impl Sign {
    pub(crate) fn run(self) -> Result<Outcome> {
        let source: Arc<FileSource> = Arc::new(open_source(&self.file)?);
        let sealed = find_seal(&self.file, source, &self.read)?;
        let key = read_secret_key(&self.key)?;
        let signature = key.sign(&sealed.file_digest())?;
        let seal_path = self.seal_path(&sealed);
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(&seal_path)
            .map_err(anyhow::Error::from)
            .and_then(|file| Ok(sealed.write_signature(&file, &signature)?))
            .with_context(|| printable(&seal_path).to_string())?;
        writeln!(
            stdout(),
            "{} {}",
            sealed.file_digest(),
            printable(&self.file)
        )?;
        Ok(Outcome::Good)
    }

    fn seal_path(&self, sealed: &Sealed) -> PathBuf {
        match (sealed.layout(), &self.read.sidecar) {
            (SealLayout::Appended, _) => self.file.clone(),
            (SealLayout::Sidecar, Some(path)) => path.clone(),
            (SealLayout::Sidecar, None) => sidecar_path(&self.file),
        }
    }
}

fn read_secret_key(path: &Path) -> Result<SecretKey> {
    let shown = || printable(path).to_string();
    let text = read_key_file(path).with_context(shown)?;
    let password = match SecretKey::is_encrypted(&text).with_context(shown)? {
        true => Some(ask("Password of the secret key: ")?),
        false => None,
    };
    SecretKey::parse(&text, password).with_context(shown)
}
