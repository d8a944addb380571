use std::{
    fs::File,
    io::{IsTerminal, Write, stdin, stdout},
    path::PathBuf,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use verimount::{Location, NewKeyFiles, SealedFile, SecretKey};
use verimount_host::printable;

use crate::{
    Outcome,
    options::{ReadArgs, read_key_file, read_short_text},
};

/// Create a minisign key pair: a public key to distribute and a secret key to sign with
#[derive(Args)]
pub(crate) struct Keygen {
    /// Where to write the public key
    #[arg(value_name = "PUBLIC")]
    public: PathBuf,
    /// Where to write the secret key
    #[arg(value_name = "SECRET")]
    secret: PathBuf,
    /// Do not protect the secret key with a password
    #[arg(long, short = 'W', conflicts_with = "password_file")]
    no_password: bool,
    #[command(flatten)]
    password: PasswordArgs,
}

impl Keygen {
    pub(crate) fn run(self) -> Result<Outcome> {
        let files = NewKeyFiles::new(&self.public, &self.secret)?;
        let password = if self.no_password {
            None
        } else {
            Some(self.password.new_password()?)
        };
        files.generate(password)?;
        writeln!(stdout(), "{}", printable(&self.public))?;
        Ok(Outcome::Good)
    }
}

/// The source of a secret key's password.
#[derive(Args)]
#[group(skip)]
struct PasswordArgs {
    /// Read the password from the first line of this file (- for standard input) instead of asking
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl PasswordArgs {
    fn new_password(&self) -> Result<String> {
        let password = self.password("Password for the secret key: ")?;
        if password.is_empty() {
            bail!("an empty password protects nothing; use --no-password for an unprotected key");
        }
        if self.password_file.is_none() && ask("Repeat the password: ")? != password {
            bail!("the passwords differ; no key was created");
        }
        Ok(password)
    }

    fn password(&self, prompt: &str) -> Result<String> {
        let Some(path) = &self.password_file else {
            return ask(prompt);
        };
        let text = if path.as_os_str() == "-" {
            read_short_text(stdin().lock())
        } else {
            File::open(path).and_then(read_short_text)
        };
        let text = text.with_context(|| printable(path).to_string())?;
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }
}

fn ask(prompt: &str) -> Result<String> {
    if !stdin().is_terminal() {
        bail!("a password is needed, but there is no terminal to ask for it; use --password-file");
    }
    rpassword::prompt_password(prompt).context("reading the password")
}

/// Sign the digest of a sealed file; the signature is stored in its seal
///
/// Even if interrupted, the seal has either its old or its new signature.
#[derive(Args)]
pub(crate) struct Sign {
    /// The sealed file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The minisign secret key
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    #[command(flatten)]
    password: PasswordArgs,
    #[command(flatten)]
    read: ReadArgs,
}

impl Sign {
    pub(crate) fn run(self) -> Result<Outcome> {
        let is_remote = self.read.sidecar.iter().any(Location::is_remote);
        let options = self.read.options(is_remote)?;
        let sealed = SealedFile::open(&self.file, &options)?;
        sealed.sign(&self.secret_key()?)?;
        writeln!(stdout(), "{} {}", sealed.digest(), printable(&self.file))?;
        Ok(Outcome::Good)
    }

    fn secret_key(&self) -> Result<SecretKey> {
        let shown = || printable(&self.key).to_string();
        let text = read_key_file(&self.key).with_context(shown)?;
        let password = if SecretKey::is_encrypted(&text).with_context(shown)? {
            Some(self.password.password("Password of the secret key: ")?)
        } else {
            None
        };
        SecretKey::parse(&text, password).with_context(shown)
    }
}
