use std::{
    fs::{self, File, OpenOptions},
    io::{self, IsTerminal, Write, stdin, stdout},
    os::unix::fs::{MetadataExt, fchown},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use verimount_names::printable;
use verimount_source::FileSource;
use verimount_verity::{KeyPair, SealLayout, Sealed, SecretKey, Signature};

use crate::{
    Outcome,
    opened::{find_seal, in_blocks, open_source, open_to_change, sidecar_path},
    options::{ReadArgs, read_key_file, read_short_text},
    output_file::OutputFile,
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
        let secret = new_file(&self.secret, 0o600)?;
        let public = new_file(&self.public, 0o644)?;
        let password = match self.no_password {
            true => None,
            false => Some(self.password.new_password()?),
        };
        let pair = KeyPair::generate(password)?;
        write_file(secret, &pair.secret, &self.secret)?;
        write_file(public, &pair.public, &self.public).inspect_err(|_| {
            // Left alone, the secret key would block the next attempt.
            let _ = fs::remove_file(&self.secret);
        })?;
        writeln!(stdout(), "{}", printable(&self.public))?;
        Ok(Outcome::Good)
    }
}

fn new_file(path: &Path, mode: u32) -> Result<OutputFile> {
    OutputFile::new(path, mode).with_context(|| printable(path).to_string())
}

fn write_file(file: OutputFile, text: &str, path: &Path) -> Result<()> {
    let written = file.file().write_all(text.as_bytes());
    written
        .and_then(|()| file.commit())
        .with_context(|| printable(path).to_string())
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
        let text = match path.as_os_str() == "-" {
            true => read_short_text(stdin().lock()),
            false => File::open(path).and_then(read_short_text),
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
        let source: Arc<FileSource> = Arc::new(open_source(&self.file)?);
        let open = |sidecar: &Path| Ok(in_blocks(open_source(sidecar)?, &self.read));
        let sealed = find_seal(&self.file, source, self.read.sidecar.as_deref(), open)?;
        let key = self.secret_key()?;
        let signature = key.sign(&sealed.file_digest())?;
        match sealed.layout() {
            SealLayout::Appended => self.sign_appended(&sealed, &signature),
            SealLayout::Sidecar => self.sign_sidecar(&sealed, &signature),
        }?;
        writeln!(
            stdout(),
            "{} {}",
            sealed.file_digest(),
            printable(&self.file)
        )?;
        Ok(Outcome::Good)
    }

    fn sign_appended(&self, sealed: &Sealed, signature: &Signature) -> Result<()> {
        let file = open_to_change(&self.file)?;
        let shown = || printable(&self.file).to_string();
        let content = Arc::new(FileSource::new(file.try_clone()?).with_context(shown)?);
        // The file is locked now, so nobody else can sign it.
        let locked = Sealed::open_appended(content.clone()).with_context(shown)?;
        ensure!(
            locked.file_digest() == sealed.file_digest(),
            "{} was changed in the meantime",
            shown()
        );
        let replaced = locked.replace_signature(&file, &*content, signature);
        replaced.with_context(shown)
    }

    fn sign_sidecar(&self, sealed: &Sealed, signature: &Signature) -> Result<()> {
        let path = self.read.sidecar.clone();
        let path = path.unwrap_or_else(|| sidecar_path(&self.file));
        let replace = || {
            // Replace the target of a symbolic link, not the link.
            let path = path.canonicalize()?;
            // Opening for writing checks that the user may change the file.
            let mut old = OpenOptions::new().read(true).write(true).open(&path)?;
            let new = OutputFile::replacing(&path)?;
            io::copy(&mut old, &mut new.file())?;
            sealed.write_signature(new.file(), signature)?;
            let metadata = old.metadata()?;
            // Root restores the owner; for other users this fails, and the file is their own.
            let _ = fchown(new.file(), Some(metadata.uid()), Some(metadata.gid()));
            new.file().set_permissions(metadata.permissions())?;
            Ok::<_, anyhow::Error>(new.commit()?)
        };
        replace().with_context(|| printable(&path).to_string())
    }

    fn secret_key(&self) -> Result<SecretKey> {
        let shown = || printable(&self.key).to_string();
        let text = read_key_file(&self.key).with_context(shown)?;
        let password = match SecretKey::is_encrypted(&text).with_context(shown)? {
            true => Some(self.password.password("Password of the secret key: ")?),
            false => None,
        };
        SecretKey::parse(&text, password).with_context(shown)
    }
}
