//! Images sealed for dm-verity, by us and by `veritysetup`.

use crate::prelude::*;

/// An image with its hash area.
struct Sealed {
    world: World,
    image: PathBuf,
    root_hash: String,
    /// The offset of the superblock, if it is in the image.
    offset: Option<u64>,
}

impl Sealed {
    fn beside() -> Self {
        Self::new(&[])
    }

    fn appended() -> Self {
        Self::new(&["--append"])
    }

    fn new(options: &[&str]) -> Self {
        let world = World::new();
        let image = world.plain_image("image");
        let size = fs::metadata(&image).unwrap().len();
        let ended = verimount(args!["seal --format dm-verity", &image; options.iter()]);
        ended.succeeds_quietly();
        let root_hash = ended.text().split(' ').next().unwrap().to_owned();
        let offset = options.contains(&"--append").then_some(size);
        Self {
            world,
            image,
            root_hash,
            offset,
        }
    }

    /// The file with the hash area.
    fn hashes(&self) -> PathBuf {
        match self.offset {
            Some(_) => self.image.clone(),
            None => self.world.path("image.verity"),
        }
    }

    /// The options that a reader needs.
    fn trust(&self) -> Vec<String> {
        let offset = self.offset.map(|at| format!("--hash-offset={at}"));
        let mut options = vec![format!("--root-hash={}", self.root_hash)];
        options.extend(offset);
        options
    }

    /// Writes into the superblock.
    fn change(&self, offset: u64, bytes: &[u8]) {
        overwrite(&self.hashes(), self.offset.unwrap_or(0) + offset, bytes);
    }

    /// All readers refuse it with this message.
    #[track_caller]
    fn is_refused(&self, trust: &[String], words: &str) {
        let mount_point = self.world.path("mount point");
        let _ = fs::create_dir(&mount_point);
        for mut command in [
            args!["verify", &self.image],
            args!["ls", &self.image],
            args!["cat", &self.image, HELLO],
            args!["mount", &self.image, &mount_point],
        ] {
            command.extend(trust.iter().map(OsString::from));
            self.world
                .unchanged_by(|| verimount(command))
                .fails_saying(words);
        }
    }
}

/// The result of `veritysetup verify` for a data file and a hash file.
fn veritysetup(action: &str, data: &Path, hashes: &Path, options: &[String]) -> Option<String> {
    let mut command = Command::new(tools::find("veritysetup")?);
    let output = command.arg(action).args([data, hashes]).args(options);
    let output = output.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn all_tools_accept_our_seals() {
    for sealed in [Sealed::beside(), Sealed::appended()] {
        let mut options = sealed.trust();
        let verify = args!["verify", &sealed.image; options.iter()];
        verimount(verify).succeeds_quietly();
        // For veritysetup the root hash is an argument.
        options[0] = sealed.root_hash.clone();
        veritysetup("verify", &sealed.image, &sealed.hashes(), &options);
    }
}

#[test]
fn seals_of_veritysetup_are_accepted() {
    let world = World::new();
    let image = world.plain_image("image");
    let hashes = world.path("hashes");
    for hash in ["sha256", "sha512"] {
        let options = [format!("--hash={hash}"), "--data-block-size=512".to_owned()];
        let said = needs!(veritysetup("format", &image, &hashes, &options));
        let root_hash = said
            .lines()
            .find_map(|line| line.strip_prefix("Root hash:"));
        let root_hash = root_hash.unwrap().trim();
        verimount(args![
            "cat",
            &image,
            HELLO,
            "--root-hash",
            root_hash,
            "--sidecar",
            &hashes
        ])
        .succeeds_quietly();
    }
}

#[test]
fn a_flipped_byte_is_an_error_in_a_mount() {
    needs!(fuse_or_skip());
    for sealed in [Sealed::beside(), Sealed::appended()] {
        let trust = sealed.trust();
        let trust: Vec<_> = trust.iter().map(String::as_str).collect();
        let mount_point = sealed.world.directory("mnt");
        let mounted = Daemon::mount(&sealed.image, &mount_point, &trust);
        let noise = noise(70_000, 1);
        assert!(fs::read(mounted.path("folder/noise")).unwrap() == noise);
        mounted.unmount();

        flip_where(&sealed.image, &noise[40_000..][..64]);

        let mounted = Daemon::mount(&sealed.image, &mount_point, &trust);
        let refused = fs::read(mounted.path("folder/noise"));
        assert_eq!(error_of(refused), Errno::IO);
        assert_eq!(fs::read(mounted.path(HELLO)).unwrap(), b"Hello, world!\n");
        mounted.unmount();
        let ended = verimount(args!["verify", &sealed.image; trust.iter()]);
        ended.reports_bad_data();
        ended.says("in folder/noise");
    }
}

#[test]
fn a_wrong_root_hash_is_refused() {
    for sealed in [Sealed::beside(), Sealed::appended()] {
        let mut trust = sealed.trust();
        let digit = if sealed.root_hash.starts_with('0') {
            "1"
        } else {
            "0"
        };
        trust[0].replace_range("--root-hash=".len().."--root-hash=".len() + 1, digit);
        sealed.is_refused(&trust, "its root hash is");
        trust[0] = format!("--root-hash={}", "0".repeat(128));
        sealed.is_refused(
            &trust,
            "it uses sha256, whose root hashes have 32 bytes, not 64",
        );
    }
}

#[test]
fn a_root_hash_is_required() {
    let trust = ["--unpinned".to_owned()];
    Sealed::beside().is_refused(
        &trust,
        "image.verity is a dm-verity hash area: give its root hash with --root-hash",
    );
}

#[test]
fn a_bad_superblock_is_refused() {
    for (offset, bytes, words) in [
        (0, &b"crypt"[..], "there is no dm-verity superblock"),
        (8, &[2], "uses version 2 of the superblock"),
        (12, &[0], "uses hash type 0, that of Chrome OS"),
        (32, b"sha1\0\0", "uses the hash \"sha1\""),
        (65, &[0], "uses blocks of"),
        (72, &[0; 8], "the superblock declares no data blocks"),
        (76, &[1], "when it was sealed"),
        (79, &[1], "is too large for a Merkle tree"),
        (81, &[2], "the salt size is 512"),
    ] {
        for sealed in [Sealed::beside(), Sealed::appended()] {
            sealed.change(offset, bytes);
            sealed.is_refused(&sealed.trust(), words);
        }
    }
}

#[test]
fn a_hash_area_in_the_wrong_place_is_refused() {
    for sealed in [Sealed::beside(), Sealed::appended()] {
        let hashes = File::options().write(true).open(sealed.hashes()).unwrap();
        hashes
            .set_len(hashes.metadata().unwrap().len() - 1)
            .unwrap();
        sealed.is_refused(&sealed.trust(), "the hash area ends at");
    }
    let sealed = Sealed::appended();
    let blocks = sealed.offset.unwrap() / 4096;
    sealed.change(72, &(blocks + 1).to_le_bytes());
    sealed.is_refused(&sealed.trust(), "overlaps the data of");
    let mut trust = sealed.trust();
    trust[1] = "--hash-offset=16M".to_owned();
    sealed.is_refused(&trust, "there is no dm-verity superblock");
    sealed.is_refused(&trust[..1], "give the location of the hash area");
}

/// The tree's own blocks could be verified as data: only the number of data blocks excludes them.
#[test]
fn the_number_of_data_blocks_can_be_pinned() {
    let sealed = Sealed::beside();
    let blocks = fs::metadata(&sealed.image).unwrap().len() / 4096;
    let hashes = fs::read(sealed.hashes()).unwrap();
    // One level: its block becomes the data, and its digest stays the root hash.
    assert_eq!(hashes.len(), 2 * 4096);
    sealed.world.write("image", &hashes[4096..]);
    sealed.change(72, &1_u64.to_le_bytes());

    let mut trust = sealed.trust();
    verimount(args!["verify", &sealed.image; trust.iter()]).succeeds_quietly();
    trust.push(format!("--data-blocks={blocks}"));
    sealed.is_refused(&trust, "its hash area is for 1 data blocks, not");
}

#[test]
fn only_whole_blocks_are_sealed() {
    let world = World::new();
    for (size, options) in [(0, &[][..]), (4097, &[]), (513, &["--data-block-size=512"])] {
        let file = world.write("file", noise(size, 1));
        for append in [&[][..], &["--append"]] {
            let seal = args!["seal --format=dm-verity", &file; options.iter().chain(append)];
            world
                .unchanged_by(|| verimount(seal))
                .fails_saying("are not one or more whole blocks");
        }
    }
    let file = world.write("file", noise(512, 1));
    let sealed = verimount(args!["seal", &file, "--data-block-size=512"]);
    sealed.is_wrong_usage();
    sealed.notes("one block size");
}

/// A layer as containerd keeps it: an image with its hash area at its end, and a note beside it.
struct Layer {
    world: World,
    image: PathBuf,
    offset: u64,
    root_hash: String,
}

impl Layer {
    /// `None` if there is no `veritysetup`.
    fn new() -> Option<Self> {
        let world = World::new();
        let tree = world.directory("tree");
        fs::write(tree.join(HELLO), "Hello, world!\n").unwrap();
        fs::write(tree.join("noise"), noise(300_000, 1)).unwrap();
        let image = world.path("layer.erofs");
        verimount(args!["build --format erofs --no-seal", &tree, &image]).succeeds_quietly();
        let offset = fs::metadata(&image).unwrap().len();
        let options = [
            format!("--hash-offset={offset}"),
            format!("--salt={}", "0".repeat(64)),
            "--data-block-size=4096".to_owned(),
            "--hash-block-size=4096".to_owned(),
            format!("--data-blocks={}", offset / 4096),
        ];
        let said = veritysetup("format", &image, &image, &options)?;
        let mut lines = said.lines();
        let root_hash = lines.find_map(|line| line.strip_prefix("Root hash:"));
        let layer = Self {
            world,
            image,
            offset,
            root_hash: root_hash.unwrap().trim().to_owned(),
        };
        layer.note(&layer.root_hash, offset);
        Some(layer)
    }

    fn note(&self, root_hash: &str, offset: u64) {
        let note = format!("{{\n  \"roothash\": \"{root_hash}\",\n  \"hashoffset\": {offset}\n}}");
        self.world.write("layer.erofs.dmverity", note);
    }

    /// Reads a file.
    fn cat(&self, options: &[&str]) -> Ended {
        verimount(args!["cat", &self.image, HELLO; options.iter()])
    }
}

#[test]
fn a_layer_of_containerd_opens_as_it_is() {
    let layer = needs!(Layer::new());
    let root_hash = format!("--root-hash={}", layer.root_hash);
    for options in [&[&*root_hash][..], &["--unpinned"], &[]] {
        let ended = layer.cat(options);
        assert_eq!(ended.succeeds_quietly().text(), "Hello, world!\n");
        // Only what the command line says is trusted.
        let is_noted = ended.stderr.contains("give --root-hash");
        assert_eq!(is_noted, options.is_empty(), "{ended:?}");
    }
    let info = verimount(args!["info", &layer.image]);
    info.succeeds().says(&layer.root_hash);
    let verified = verimount(args!["verify", &layer.image, &root_hash]);
    let size = format!("{} bytes", layer.offset);
    verified.succeeds_quietly().says(&size);
    let mount_point = layer.world.directory("mnt");
    verimount(args!["mount", &layer.image, &mount_point]).is_wrong_usage();
    if fuse_or_skip() {
        for trust in [&*root_hash, "--unpinned"] {
            let mounted = Daemon::mount(&layer.image, &mount_point, &[trust]);
            assert!(fs::read(mounted.path("noise")).unwrap() == noise(300_000, 1));
            mounted.unmount();
        }
    }
}

#[test]
fn a_layer_that_is_not_what_its_note_says_is_refused() {
    let layer = needs!(Layer::new());
    let wrong = "0".repeat(64);
    // The note says where the tree is, but not which one is trusted.
    layer.note(&wrong, layer.offset);
    layer
        .cat(&[&format!("--root-hash={}", layer.root_hash)])
        .succeeds_quietly();
    layer.cat(&["--unpinned"]).fails_saying("its root hash is");
    layer.note(&layer.root_hash, layer.offset);
    layer
        .cat(&[&format!("--root-hash={wrong}")])
        .fails_saying("its root hash is");
    layer.note(&layer.root_hash, 0);
    layer
        .cat(&["--unpinned"])
        .fails_saying("there is no dm-verity superblock");
    for note in [
        "",
        "no JSON",
        "[]",
        r#"{"roothash": "00"}"#,
        r#"{"roothash": "xy", "hashoffset": 4096}"#,
        r#"{"roothash": "00", "hashoffset": -1}"#,
        &" ".repeat(70_000),
    ] {
        layer.world.write("layer.erofs.dmverity", note);
        layer
            .cat(&["--unpinned"])
            .fails_saying("layer.erofs.dmverity is not what containerd writes");
    }
    fs::remove_file(layer.world.path("layer.erofs.dmverity")).unwrap();
    layer
        .cat(&["--unpinned"])
        .fails_saying("has no seal at its end");
}
