//! Keys and signatures, from creating a key to refusing a file.

use verimount_verity::{KeyPair, SecretKey};

use crate::prelude::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_secret_key_is_for_its_owner_only() {
    let world = World::new();
    let (public, secret) = world.keys("new");
    assert_eq!(mode(&secret), 0o600);
    assert_eq!(mode(&public), 0o644);
    for path in [public, secret] {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.starts_with("untrusted comment: "), "{text}");
        assert_eq!(text.lines().count(), 2);
    }
}

/// A secret key without its public key would block the next attempt.
#[test]
fn no_key_is_overwritten_and_no_half_of_a_pair_is_left() {
    let world = World::new();
    let (public, secret) = world.keys("old");
    let new = world.path("new");
    let folder = world.directory("folder");
    let missing = world.path("missing/key");
    for (public, secret) in [
        (&public, &new),
        (&new, &secret),
        (&new, &new),
        (&folder, &new),
        (&new, &folder),
        (&missing, &new),
        (&new, &missing),
    ] {
        let again = || verimount(args!["keygen", public, secret, "--no-password"]);
        world.unchanged_by(again).fails();
    }
}

#[test]
fn a_password_is_asked_for_only_on_a_terminal() {
    let world = World::new();
    let keygen = || verimount(args!["keygen", world.path("public"), world.path("secret")]);
    world.unchanged_by(keygen).fails_saying("password");
    let pair = KeyPair::generate(Some("password".to_owned())).unwrap();
    let key = world.write("key", pair.secret);
    let image = world.sealed_image("image");
    let sign = || verimount(args!["sign", &image, "--key", &key]);
    world.unchanged_by(sign).fails_saying("password");
}

/// Runs it on a terminal of its own, with this typed input.
fn at_a_terminal(script: &Path, arguments: &[&Path], typed: &str) -> Ended {
    let words: Vec<_> = [binary().as_path()]
        .iter()
        .chain(arguments)
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let mut command = Command::new(script);
    command.args(["--quiet", "--return", "--command", &words.join(" ")]);
    command.arg("/dev/null");
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut keyboard = child.stdin.take().unwrap();
    keyboard.write_all(typed.as_bytes()).unwrap();
    let ended = finish_spawned(child, words.join(" "));
    drop(keyboard);
    ended
}

#[test]
fn passwords_protect_keys() {
    let script = needs!(tools::find("script"));
    let world = World::new();
    let (public, secret) = (world.path("public"), world.path("secret"));
    let keygen = [Path::new("keygen"), &public, &secret];
    for typed in ["\n", "one\nanother\n"] {
        let refused = world.unchanged_by(|| at_a_terminal(&script, &keygen, typed));
        assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    }
    let made = at_a_terminal(&script, &keygen, "correct horse\ncorrect horse\n");
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let text = fs::read_to_string(&secret).unwrap();
    assert!(SecretKey::is_encrypted(&text).unwrap());

    let image = world.sealed_image("image");
    let sign = [Path::new("sign"), &image, Path::new("--key"), &secret];
    let refused = world.unchanged_by(|| at_a_terminal(&script, &sign, "battery staple\n"));
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(!refused.text().contains("panicked"), "{refused:?}");
    let signed = at_a_terminal(&script, &sign, "correct horse\n");
    assert_eq!(signed.status.code(), Some(0), "{signed:?}");
    verimount(args!["verify", &image, "--key", &public]).succeeds_quietly();
}

#[test]
fn signing_changes_neither_digest_nor_data() {
    let world = World::new();
    let (public, secret) = world.keys("signer");
    let appended = world.sealed_image("appended");
    let beside = world.image_with_sidecar("beside");
    for image in [&appended, &beside] {
        let data = |image: &Path| verimount(args!["cat", image, "folder/noise"]).stdout;
        let before = data(image);
        let digest = digest_of(image);
        let signed = verimount(args!["sign", image, "--key", &secret]);
        assert_eq!(signed.succeeds_quietly().digest(), digest);
        assert_eq!(digest_of(image), digest);
        assert!(data(image) == before);
        for trust in [args!["--key", &public], args!["--digest", &digest]] {
            verimount([args!["verify", image], trust].concat()).succeeds_quietly();
        }
    }
    assert_eq!(
        fs::read(&beside).unwrap(),
        fs::read(world.plain_image("same")).unwrap(),
        "a sidecar's data was changed"
    );
}

fn digest_of(image: &Path) -> String {
    let verified = verimount(args!["verify", image]);
    let text = verified.succeeds_quietly().text();
    text.trim_end().rsplit_once(' ').unwrap().1.to_owned()
}

#[test]
fn a_key_is_given_as_its_file_or_as_itself() {
    let world = World::new();
    let (public, secret) = world.keys("signer");
    let image = world.sealed_image("image");
    verimount(args!["sign", &image, "--key", &secret]).succeeds_quietly();
    let text = fs::read_to_string(&public).unwrap();
    let line = text.lines().nth(1).unwrap();
    for key in [public.to_str().unwrap(), line, &text] {
        verimount(args!["verify", &image, "--key", key]).succeeds_quietly();
    }
}

/// Whoever adds a key to a file would believe that both are accepted.
#[test]
fn a_key_file_holds_one_key() {
    let world = World::new();
    let [(public, secret), (other, _)] = ["signer", "other"].map(|name| world.keys(name));
    let image = world.sealed_image("image");
    verimount(args!["sign", &image, "--key", &secret]).succeeds_quietly();
    let text = fs::read_to_string(&public).unwrap();
    let both = text.clone() + &fs::read_to_string(&other).unwrap();
    let both = world.write("both", both);
    verimount(args!["verify", &image, "--key", &both]).fails_saying("more than one key");
    let spaces = " ".repeat(64 << 10);
    let long = world.write("long", format!("{text}{spaces}{text}"));
    verimount(args!["verify", &image, "--key", &long]).fails_saying("too long for a key");
}

#[test]
fn a_digest_and_a_key_must_both_hold() {
    let world = World::new();
    let [(public, secret), (other_key, _)] = ["signer", "other"].map(|name| world.keys(name));
    let image = world.sealed_image("image");
    verimount(args!["sign", &image, "--key", &secret]).succeeds_quietly();
    let digest = digest_of(&image);
    let other_digest = format!("sha256:{}", "0".repeat(64));
    for command in ["verify", "ls"] {
        let read =
            |digest: &str, key| verimount(args![command, &image, "--digest", digest, "--key", key]);
        read(&digest, &public).succeeds_quietly();
        read(&digest, &other_key).fails();
        read(&other_digest, &public).fails();
    }
}

#[test]
fn the_last_signature_counts() {
    let world = World::new();
    let image = world.sealed_image("image");
    let signers = [world.keys("first"), world.keys("second")];
    for (number, (_, secret)) in signers.iter().enumerate() {
        verimount(args!["sign", &image, "--key", secret]).succeeds_quietly();
        for (other, (public, _)) in signers.iter().enumerate() {
            let verified = verimount(args!["verify", &image, "--key", public]);
            if other == number {
                verified.succeeds_quietly()
            } else {
                verified.fails()
            };
        }
    }
}

#[test]
fn a_given_sidecar_is_signed() {
    let world = World::new();
    let (public, secret) = world.keys("signer");
    let image = world.image_with_sidecar("image");
    let elsewhere = world.path("elsewhere");
    fs::rename(world.path("image.verity"), &elsewhere).unwrap();
    let sidecar = args!["--sidecar", &elsewhere];
    verimount(args!["sign", &image, "--key", &secret]).fails_saying("has no seal at its end");
    let sign = [args!["sign", &image, "--key", &secret], sidecar.clone()].concat();
    verimount(sign).succeeds_quietly();
    let verify = [args!["verify", &image, "--key", &public], sidecar].concat();
    verimount(verify).succeeds_quietly();
}

#[test]
fn a_read_only_seal_is_not_signed() {
    let world = World::new();
    let (_, secret) = world.keys("signer");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o444)).unwrap();
    let image = world.sealed_image("image");
    fs::set_permissions(&image, fs::Permissions::from_mode(0o444)).unwrap();
    let user = User::ordinary(&world);
    let sign = || verimount_as(&user, args!["sign", &image, "--key", &secret]);
    world.unchanged_by(sign).fails_saying("ermission denied");
}

#[test]
fn only_secret_keys_sign() {
    let world = World::new();
    let (public, secret) = world.keys("signer");
    let image = world.sealed_image("image");
    let whole = fs::read(secret).unwrap();
    let cut = world.write("cut", &whole[..whole.len() / 2]);
    let empty = world.write("empty", "");
    let noise = world.write("noise", noise(1000, 1));
    let paths = [
        public,
        cut,
        empty,
        noise,
        world.path("missing"),
        world.root().into(),
    ];
    for key in paths
        .iter()
        .map(PathBuf::as_path)
        .chain([Path::new("/dev/zero")])
    {
        let sign = || verimount(args!["sign", &image, "--key", key]);
        world.unchanged_by(sign).fails();
    }
}

/// Sealing again cannot restore a signature.
#[test]
fn a_signed_seal_is_replaced_only_by_force() {
    let world = World::new();
    let (public, secret) = world.keys("signer");
    let file = world.write("file", noise(70_000, 1));
    verimount(args!["seal", &file]).succeeds_quietly();
    verimount(args!["sign", &file, "--key", &secret]).succeeds_quietly();
    let again = || verimount(args!["seal", &file]);
    world.unchanged_by(again).fails_saying("--force");
    verimount(args!["verify", &file, "--key", &public]).succeeds_quietly();
    verimount(args!["seal --force", &file]).succeeds_quietly();
    verimount(args!["verify", &file, "--key", &public]).fails_saying("not signed");
    // A dm-verity hash area is recognised, has no signature, and can be computed again.
    for format in ["dm-verity", "fs-verity"] {
        let file = world.write("whole blocks", noise(8192, 1));
        verimount(args!["seal --format", format, &file]).succeeds_quietly();
    }
}

#[test]
fn another_file_is_replaced_only_by_force() {
    let world = World::new();
    let file = world.write("file", noise(70_000, 1));
    let other = world.write("file.verity", "precious");
    let seal = || verimount(args!["seal", &file]);
    world.unchanged_by(seal).fails_saying("is not a seal");
    verimount(args!["seal --force", &file]).succeeds_quietly();
    assert_ne!(fs::read(other).unwrap(), b"precious");
}

#[test]
fn a_second_seal_is_mentioned() {
    let world = World::new();
    let image = world.sealed_image("image");
    let sealed = verimount(args!["seal", &image]);
    sealed.succeeds_quietly();
    sealed.notes("ends with a seal");
}

/// Runs it with this as standard input.
fn with_input(arguments: Vec<std::ffi::OsString>, input: &str) -> Ended {
    let mut command = Command::new(binary());
    command.args(arguments).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    finish_spawned(child, "with standard input".to_owned())
}

#[test]
fn passwords_come_from_files() {
    let world = World::new();
    let (public, secret) = (world.path("public"), world.path("secret"));
    let password = world.write("password", "correct horse\nand a comment\n");
    let keygen = |file: &Path| args!["keygen", &public, &secret, "--password-file", file];
    for nothing in ["", "\n"] {
        let empty = world.write("empty", nothing);
        let refused = world.unchanged_by(|| verimount(keygen(&empty)));
        refused.fails_saying("empty password");
    }
    let missing = world.path("missing");
    world
        .unchanged_by(|| verimount(keygen(&missing)))
        .fails_saying("missing");
    let both = [keygen(&password), args!["--no-password"]].concat();
    verimount(both).is_wrong_usage();
    verimount(keygen(&password)).succeeds_quietly();
    assert!(SecretKey::is_encrypted(&fs::read_to_string(&secret).unwrap()).unwrap());

    let image = world.sealed_image("image");
    let sign = |file: &str| args!["sign", &image, "--key", &secret, "--password-file", file];
    let wrong = world.write("wrong", "battery staple\n");
    let refused = world.unchanged_by(|| verimount(sign(wrong.to_str().unwrap())));
    refused.fails();
    for input in ["correct horse", "correct horse\n", "correct horse\r\nmore"] {
        with_input(sign("-"), input).succeeds_quietly();
    }
    verimount(sign(password.to_str().unwrap())).succeeds_quietly();
    verimount(args!["verify", &image, "--key", &public]).succeeds_quietly();
}

/// A symbolic link to the seal stays a link.
#[test]
fn a_seal_behind_a_link_is_signed_where_it_is() {
    let world = World::new();
    let (public, secret) = world.keys("signer");
    let image = world.image_with_sidecar("image");
    let (sidecar, elsewhere) = (world.path("image.verity"), world.path("elsewhere"));
    fs::rename(&sidecar, &elsewhere).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("elsewhere", &sidecar).unwrap();
    verimount(args!["sign", &image, "--key", &secret]).succeeds_quietly();
    assert!(sidecar.is_symlink());
    assert_eq!(mode(&elsewhere), 0o640);
    verimount(args!["verify", &image, "--key", &public]).succeeds_quietly();
}
