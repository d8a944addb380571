//! Credential helpers: programs that keep the secrets of `docker login` and the like.

use std::{
    io::{self, Read, Write},
    os::{fd::AsFd, unix::process::CommandExt},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open},
};
use serde::Deserialize;
use thiserror::Error;

use super::auth_files::Credential;

/// The longest answer, in bytes. Tokens have some thousand.
const MAX_ANSWER: usize = 64 << 10;

/// What a helper says that has no credentials for a registry.
const NOT_FOUND: &str = "credentials not found";

/// How long a helper is waited for at most, whatever the patience of reads is.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Whose secret is a token that stands for user and password.
const TOKEN_USER: &str = "<token>";

/// Why a helper tells nothing. Nothing that it has printed is repeated, which may be a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum HelperError {
    #[error("the credential helper that it names cannot be run")]
    NotRun,
    #[error("the credential helper that it names fails")]
    Failed,
    #[error("the credential helper that it names answers nonsense")]
    Nonsense,
    #[error("the credential helper that it names does not answer in time")]
    Late,
}

/// What a helper answers.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    username: String,
    secret: String,
}

/// Asks the helper with this name for the credentials of a registry; `None` if it has none. It is killed when it has not
/// answered after `patience`.
///
/// # Errors
/// [`HelperError`].
pub(super) fn ask(
    name: &str,
    registry: &str,
    patience: Duration,
) -> Result<Option<Credential>, HelperError> {
    let program = Command::new(format!("docker-credential-{name}"));
    run(program, registry, patience)
}

fn run(
    mut program: Command,
    registry: &str,
    patience: Duration,
) -> Result<Option<Credential>, HelperError> {
    let deadline = Instant::now() + patience.min(LONGEST);
    let started = program
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // What it starts can be killed with it.
        .process_group(0)
        .spawn();
    let mut helper = started.map_err(|_| HelperError::NotRun)?;
    let answered = exchange(&mut helper, registry, deadline);
    if answered.is_err() {
        // It has not been waited for, so that its id is still its own.
        let _ = kill_process_group(Pid::from_child(&helper), Signal::KILL);
    }
    let ended = helper.wait();
    let answer = answered?;
    if ended.map_err(|_| HelperError::NotRun)?.success() {
        let answer = serde_json::from_slice::<Answer>(&answer);
        Ok(Some(answer.map_err(|_| HelperError::Nonsense)?.into()))
    } else if String::from_utf8_lossy(&answer).contains(NOT_FOUND) {
        Ok(None)
    } else {
        Err(HelperError::Failed)
    }
}

/// Tells a helper what is asked for, and returns what it has printed when it has ended.
fn exchange(helper: &mut Child, registry: &str, deadline: Instant) -> Result<Vec<u8>, HelperError> {
    let handle = pidfd_open(Pid::from_child(helper), PidfdFlags::empty());
    let handle = handle.map_err(|_| HelperError::NotRun)?;
    let (stdin, stdout) = (helper.stdin.take(), helper.stdout.take());
    let (mut stdin, stdout) = stdin.zip(stdout).ok_or(HelperError::NotRun)?;
    // The name of a registry fits into any pipe. A helper need not read it.
    let _ = stdin.write_all(registry.as_bytes());
    drop(stdin);
    let answer = read_until(stdout, deadline)?;
    wait_until(&handle, deadline)?;
    Ok(answer)
}

fn read_until(mut from: impl Read + AsFd, deadline: Instant) -> Result<Vec<u8>, HelperError> {
    let mut answer = Vec::new();
    let mut buf = [0; 4096];
    loop {
        wait_until(&from, deadline)?;
        match from.read(&mut buf) {
            Ok(0) => return Ok(answer),
            Ok(len) => answer.extend_from_slice(&buf[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(HelperError::NotRun),
        }
        if answer.len() > MAX_ANSWER {
            return Err(HelperError::Nonsense);
        }
    }
}

/// Waits until there is something to read, or a process has ended.
fn wait_until(what: &impl AsFd, deadline: Instant) -> Result<(), HelperError> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| HelperError::NotRun)?;
        match poll(&mut [PollFd::new(what, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(HelperError::Late),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(_) => return Err(HelperError::NotRun),
        }
    }
}

impl From<Answer> for Credential {
    fn from(answer: Answer) -> Self {
        let Answer { username, secret } = answer;
        match &*username {
            TOKEN_USER => Self::Identity(secret),
            _ => Self::Password {
                user: username,
                password: secret,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, thread};

    use super::*;

    /// Longer than any helper here takes on a busy machine.
    const LONG: Duration = Duration::from_secs(60);

    /// What a helper with this script answers.
    fn answer(script: &str, patience: Duration) -> Result<Option<String>, HelperError> {
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "helper"]);
        let found = run(shell, "ghcr.io", patience)?;
        Ok(found.map(|found| match found {
            Credential::Password { user, password } => format!("{user} {password}"),
            Credential::Identity(token) => token,
        }))
    }

    #[test]
    fn helpers_answer_by_the_protocol() {
        use HelperError::{Failed, Nonsense};
        for (script, expected) in [
            (
                r#"[ $1 = get ] && echo "{\"ServerURL\": \"x\", \"Username\": \"me\", \"Secret\": \"$(cat)\"}""#,
                Ok(Some("me ghcr.io")),
            ),
            (
                r#"echo '{"Username": "<token>", "Secret": "token"}'"#,
                Ok(Some("token")),
            ),
            (
                "echo credentials not found in native keychain; exit 1",
                Ok(None),
            ),
            ("echo secret; exit 1", Err(Failed)),
            ("echo secret", Err(Nonsense)),
            ("exit 0", Err(Nonsense)),
            ("head -c 100000 /dev/zero", Err(Nonsense)),
        ] {
            let expected = expected.map(|found: Option<&str>| found.map(str::to_owned));
            assert_eq!(answer(script, LONG), expected, "{script}");
        }
        let missing = ask("no-such-helper", "ghcr.io", LONG);
        assert_eq!(missing.err(), Some(HelperError::NotRun));
    }

    #[test]
    fn a_helper_that_hangs_is_killed_with_what_it_has_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pids");
        let script = |hang: &str| {
            let file = file.to_str().unwrap();
            format!("sleep 100000 & echo $$ $! > {file}.new; mv {file}.new {file}; {hang}")
        };
        // It never answers, or answers and never ends.
        for hang in ["wait", "exec 1>&-; wait"] {
            let mut patience = Duration::from_millis(100);
            // A busy machine may take longer than that until it is under way.
            while !file.exists() {
                let late = answer(&script(hang), patience);
                assert_eq!(late, Err(HelperError::Late));
                patience *= 2;
            }
            for pid in fs::read_to_string(&file).unwrap().split_whitespace() {
                assert_ends(pid);
            }
            fs::remove_file(&file).unwrap();
        }
    }

    /// Killed processes take a moment to end. Whoever inherits them may leave their entry.
    fn assert_ends(pid: &str) {
        let stat = Path::new("/proc").join(pid).join("stat");
        for _ in 0..6000 {
            match fs::read_to_string(&stat) {
                Ok(stat) if !stat.contains(") Z ") => thread::sleep(Duration::from_millis(10)),
                _ => return,
            }
        }
        panic!("{pid} still runs");
    }
}
