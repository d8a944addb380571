//! URLs in messages about wrong usage: neither user and password nor the query are shown.

/// What is shown of an argument that may be a URL, even a malformed one; `None` if it is not a URL.
pub(crate) fn without_secrets(argument: &str) -> Option<String> {
    let (scheme, rest) = argument.split_once("://")?;
    let rest = rest.split('?').next().unwrap_or_default();
    // An image in a registry has a digest behind another one.
    let mut ends = rest.match_indices('@').map(|(at, _)| &rest[at + 1..]);
    let rest = ends.rfind(|end| !end.starts_with("sha")).unwrap_or(rest);
    Some(format!("{scheme}://{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out() {
        for (argument, expected) in [
            ("https://me:secret@host/image", "https://host/image"),
            ("https://me:se/cr@et@host/image", "https://host/image"),
            ("https://host:x/image?token=secret", "https://host:x/image"),
            ("oci://me:secret@host/a@sha256:12", "oci://host/a@sha256:12"),
            ("oci://host/a@sha256:12", "oci://host/a@sha256:12"),
            ("ftp://me:secret@host?secret", "ftp://host"),
            ("--sidecar=https://me:secret@host", "--sidecar=https://host"),
        ] {
            assert_eq!(without_secrets(argument).as_deref(), Some(expected));
        }
        assert_eq!(without_secrets("me@host:/image?"), None);
    }
}
