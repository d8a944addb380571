//! What the helper process of a sandboxed one does for reading from servers: it looks up hosts, which may load programs and
//! ask services of the system, and finds credentials, which may run programs.

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};
use verimount_helper::{Answer, Task, ask};
use verimount_sys::LookupError;

use crate::{
    Error,
    cloud::credential_files,
    registry::{AuthFiles, Credential, Host},
    resolver::look_up_here,
    roots::certificate_files,
};

const LOOK_UP: &str = "look-up";
const CREDENTIAL: &str = "credential";

/// Whose credentials are asked for.
#[derive(Serialize, Deserialize)]
struct Asked {
    registry: String,
    patience: Duration,
}

/// The file that cannot be used, and why.
#[derive(Serialize, Deserialize)]
struct BadFile {
    file: String,
    reason: String,
}

/// The tasks of a helper for content on servers, some of it in these registries: credentials are found for no other.
pub fn helper_tasks(registries: Vec<String>) -> Vec<Task> {
    let files = AuthFiles::of_environment();
    vec![
        Task::new(LOOK_UP, |given| {
            let (host, port): (String, u16) = serde_json::from_slice(given)?;
            let found = look_up_here(&host, port).map_err(|error| error == LookupError::Unknown);
            in_json(&found)
        }),
        Task::new(CREDENTIAL, move |given| {
            let asked: Asked = serde_json::from_slice(given)?;
            if !registries.contains(&asked.registry) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            let host = Host::new(&asked.registry, false);
            in_json(&match files.find_here(&host, asked.patience) {
                Ok(found) => Ok(found),
                Err(Error::AuthFile { file, reason }) => Err(BadFile { file, reason }),
                Err(error) => return Err(io::Error::other(error.to_string())),
            })
        }),
    ]
}

/// The files and directories that reading from servers opens at any time: certificates of authorities, and the tokens of
/// clouds, whose directories are meant as they are replaced in them.
pub fn own_files() -> Vec<PathBuf> {
    let tokens = credential_files().filter_map(|file| Some(file.parent()?.to_owned()));
    certificate_files().chain(tokens).collect()
}

/// Has the helper look up a host; `None` if this process has none.
pub(crate) fn look_up(host: &str, port: u16) -> Option<Result<Vec<SocketAddr>, LookupError>> {
    let answer = asked(LOOK_UP, &(host, port))?;
    let found: io::Result<Result<_, bool>> = answer;
    Some(match found {
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(true)) => Err(LookupError::Unknown),
        Ok(Err(false)) | Err(_) => Err(LookupError::Unavailable),
    })
}

/// Has the helper find the credentials for a registry; `None` if this process has none.
pub(crate) fn credential(
    host: &Host,
    patience: Duration,
) -> Option<Result<Option<Credential>, Error>> {
    let registry = host.to_string();
    let answer = asked(CREDENTIAL, &Asked { registry, patience })?;
    let found: io::Result<Result<_, BadFile>> = answer;
    Some(match found {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(BadFile { file, reason })) => Err(Error::AuthFile { file, reason }),
        Err(error) => Err(Error::AuthFile {
            file: "the files of credentials".to_owned(),
            reason: error.to_string(),
        }),
    })
}

fn in_json(value: &impl Serialize) -> io::Result<Answer> {
    Ok(Answer::of_bytes(serde_json::to_vec(value)?))
}

fn asked<T: for<'a> Deserialize<'a>>(task: &str, given: &impl Serialize) -> Option<io::Result<T>> {
    let given = match serde_json::to_vec(given) {
        Ok(given) => given,
        Err(error) => return Some(Err(error.into())),
    };
    let answer = ask(task, &given)?;
    Some(answer.and_then(|answer| Ok(serde_json::from_slice(&answer.bytes)?)))
}
