use verimount::{Error, ErrorKind, Location};
use verimount_host::volume::is_about_volume;

/// What to do about an error, in the terms of the command line. It continues the error's own text, and
/// begins with its punctuation.
pub(crate) fn advice(error: &Error) -> Option<String> {
    let at = error.location();
    let at = at.map(ToString::to_string).unwrap_or_default();
    Some(match error.kind() {
        ErrorKind::NotOneImage => {
            ": or unpack the image first, by podman export $(podman create IMAGE) | verimount build - \
             root.img"
                .to_owned()
        }
        ErrorKind::NotSealed => {
            let how = if error.location().is_some_and(Location::is_remote) {
                "where it was made, and publish it again".to_owned()
            } else {
                format!("with verimount seal {at}")
            };
            format!(
                ": if it is complete, seal it {how}; mount, ls, cat and extract read it without verification with \
                 --unverified"
            )
        }
        ErrorKind::WrongContent if is_about_volume(error) => {
            ": give --integrity and --integrity-key-file as when it was formatted, as a volume does not store them"
                .to_owned()
        }
        ErrorKind::WrongFormat if is_about_volume(error) => {
            ": if its superblock is damaged, verimount volume restore-header writes it again from a backup"
                .to_owned()
        }
        ErrorKind::WrongContent => format!(
            ": it is another version, it was replaced, or that is not its digest or key; verimount info {at} shows \
             what it is"
        ),
        ErrorKind::NotFound if is_path_like_url(error) => {
            if at.parse().is_ok_and(|at: Location| at.is_remote()) {
                "; this is only for files on this machine".to_owned()
            } else {
                "; of URLs, those of http, https, oci, s3, gs and az are read".to_owned()
            }
        }
        ErrorKind::DeviceNotTrusted => {
            format!(": give its digest, too: --device {at}@DIGEST, as whoever made it tells")
        }
        ErrorKind::NotTrusted => ": give it with --digest, --root-hash or --key".to_owned(),
        ErrorKind::NeedsRootHash => ": give its root hash with --root-hash".to_owned(),
        ErrorKind::NoHashArea => {
            ": give the location of the hash area with --sidecar or --hash-offset".to_owned()
        }
        ErrorKind::WouldReplace => "; use --force to replace it".to_owned(),
        ErrorKind::WouldWiden => "; use --widen-permissions to allow this".to_owned(),
        ErrorKind::TooLarge => "; use --max-size to allow more".to_owned(),
        ErrorKind::NoSize => ": with --data-device, give it with --size".to_owned(),
        ErrorKind::WouldLose => " (--strict)".to_owned(),
        _ => return None,
    })
}

/// Whether it is about a path that begins as the URLs of some program do.
fn is_path_like_url(error: &Error) -> bool {
    let is_path = |at: &&Location| at.path().is_some();
    let path = error.location().filter(is_path);
    path.is_some_and(|at| at.to_string().contains("://"))
}
