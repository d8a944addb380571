//! `minisign` and Verimount accept each other's keys and signatures.

use std::{fs, path::Path, process::Command};

use verimount_testkit::tools;
use verimount_verity::{FileDigest, KeyPair, PublicKey, SecretKey, Signature};

fn digest() -> FileDigest {
    format!("sha256:{}", "3d".repeat(32)).parse().unwrap()
}

fn other_digest() -> FileDigest {
    format!("sha256:{}", "4d".repeat(32)).parse().unwrap()
}

#[track_caller]
fn run(tool: &Path, arguments: &[&str], folder: &Path) -> bool {
    let output = Command::new(tool)
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    output.status.success()
}

#[test]
fn minisign_and_verimount_accept_each_others_signatures() {
    let Some(tool) = tools::find("minisign") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    fs::write(path("payload"), digest().formatted()).unwrap();
    fs::write(path("other"), other_digest().formatted()).unwrap();

    let ours = KeyPair::generate(None).unwrap();
    let secret = SecretKey::parse(&ours.secret, None).unwrap();
    fs::write(path("public"), &ours.public).unwrap();
    fs::write(
        path("signature"),
        secret.sign(&digest()).unwrap().as_bytes(),
    )
    .unwrap();
    let verify = |payload| {
        let arguments = ["-V", "-p", "public", "-x", "signature", "-m", payload];
        run(&tool, &arguments, folder.path())
    };
    assert!(verify("payload"));
    assert!(!verify("other"));

    fs::remove_file(path("public")).unwrap();
    let generate = ["-G", "-W", "-p", "public", "-s", "secret"];
    assert!(run(&tool, &generate, folder.path()));
    let sign = ["-S", "-s", "secret", "-x", "signature", "-m", "payload"];
    assert!(run(&tool, &sign, folder.path()));
    let public = PublicKey::parse(&fs::read_to_string(path("public")).unwrap()).unwrap();
    let theirs = Signature::parse(&fs::read(path("signature")).unwrap()).unwrap();
    public.verify(&theirs, &digest()).unwrap();
    assert!(public.verify(&theirs, &other_digest()).is_err());
    // And their secret key signs for us.
    let secret = fs::read_to_string(path("secret")).unwrap();
    let secret = SecretKey::parse(&secret, None).unwrap();
    public
        .verify(&secret.sign(&digest()).unwrap(), &digest())
        .unwrap();
}
