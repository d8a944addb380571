//! All subcommands, with what their help must mention.

/// A subcommand with its expected help.
pub(super) struct Subcommand {
    /// With the name of its parent command.
    pub(super) name: &'static str,
    /// Required arguments, in order, with valid values.
    pub(super) required: &'static [(&'static str, &'static str)],
    /// In groups that subcommands share.
    options: &'static [&'static [&'static str]],
    /// Options with malformed values.
    pub(super) malformed: &'static [(&'static str, &'static str)],
}

const TREE: &[&str] = &["--hash-alg", "--tree-block-size", "--salt"];
const TRUST: &[&str] = &[
    "--digest",
    "--key",
    "--unpinned",
    "--unverified",
    "--root-hash",
    "--hash-offset",
    "--data-blocks",
];
const READ: &[&str] = &[
    "--sidecar",
    "--tree-readahead",
    "--tree-cache",
    "--block-size",
    "--cache",
    "--cache-size",
    "--no-cache",
    "--timeout",
    "--ca",
    "--header-file",
];

/// The options of servers.
const SERVER: &[&str] = &["--plain-http", "--timeout", "--ca", "--header-file"];

/// The options of programs that serve in the background.
const DAEMON: &[&str] = &["--awake", "--threads", "--foreground", "--log", "--quiet"];

/// The options of mounts.
const MOUNT: &[&str] = &["--allow-other", "--noexec", "-o"];

const MALFORMED_TREE: &[(&str, &str)] = &[
    ("--hash-alg", "md5"),
    ("--hash-alg", ""),
    ("--tree-block-size", "512"),
    ("--tree-block-size", "128K"),
    ("--tree-block-size", "3000"),
    ("--tree-block-size", "99999999999999999999"),
    ("--salt", "xy"),
    ("--salt", "abc"),
    (
        "--salt",
        "000000000000000000000000000000000000000000000000000000000000000000",
    ),
];

const MALFORMED_READ: &[(&str, &str)] = &[
    ("--timeout", "0"),
    ("--timeout", "1s"),
    ("--cache-size", "1X"),
    ("--root-hash", ""),
    ("--root-hash", "sha256:00"),
    ("--hash-offset", "-1"),
    ("--data-blocks", "much"),
    ("--digest", ""),
    ("--digest", "sha256"),
    ("--digest", "sha256:"),
    ("--digest", "sha256:00"),
    (
        "--digest",
        "md5:3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95",
    ),
    ("--tree-readahead", "-1"),
    ("--tree-cache", "much"),
    ("--tree-cache", "99999999T"),
    ("--block-size", "512"),
    ("--block-size", "2M"),
];

/// The options that a volume is opened with.
const OPEN: &[&str] = &[
    "--data-device",
    "--integrity",
    "--integrity-key-file",
    "--journal-integrity",
    "--journal-integrity-key-file",
];

/// The options that a volume is used with.
const USE: &[&str] = &[
    "--mode",
    "--allow-discards",
    "--tag-cache",
    "--tag-read-back",
    "--commit-time",
];

impl Subcommand {
    pub(super) fn options(&self) -> impl Iterator<Item = &'static str> {
        self.options.iter().flat_map(|group| *group).copied()
    }

    /// The subcommand with the first `count` of its required arguments.
    pub(super) fn with_required(&self, count: usize) -> Vec<&'static str> {
        let required = self.required[..count].iter().map(|(_, value)| *value);
        self.name.split(' ').chain(required).collect()
    }

    pub(super) fn complete(&self) -> Vec<&'static str> {
        self.with_required(self.required.len())
    }
}

/// EROFS has room for 16 bytes, romfs for 128.
const TOO_LONG_A_NAME: &str = "\
    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\
    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef+";

pub(super) const ALL: [Subcommand; 28] = [
    Subcommand {
        name: "build",
        required: &[("DIR|TAR", "."), ("IMAGE", "image")],
        options: &[
            TREE,
            &[
                "--block-size",
                "--volume-name",
                "--no-seal",
                "--force",
                "--widen-permissions",
                "--strict",
                "--format",
                "--compress",
                "--cluster",
                "--exclude",
                "--mtime",
                "--owner",
                "--all-root",
                "--xattrs",
                "--whiteouts",
                "--json",
            ],
        ],
        malformed: &[
            ("--block-size", "256"),
            ("--block-size", "128K"),
            ("--block-size", "6000"),
            ("--volume-name", TOO_LONG_A_NAME),
            ("--strict", "colour"),
            ("--format", "squashfs"),
            ("--compress", "gzip"),
            ("--compress", "lz4,13"),
            ("--cluster", "2M"),
            ("--cluster", "6000"),
            ("--exclude", "[a"),
            ("--mtime", "today"),
            ("--owner", "root"),
            ("--xattrs", "some"),
            ("--whiteouts", "aufs"),
        ],
    },
    Subcommand {
        name: "seal",
        required: &[("FILE", "file")],
        options: &[
            TREE,
            &[
                "--append",
                "--force",
                "--format",
                "--data-block-size",
                "--json",
            ],
        ],
        malformed: &[
            ("--format", "dm-integrity"),
            ("--data-block-size", "256"),
            ("--data-block-size", "128K"),
            ("--tree-block-size", "512"),
        ],
    },
    Subcommand {
        name: "digest",
        required: &[("FILE", "file")],
        options: &[TREE, &["--compact"]],
        malformed: MALFORMED_TREE,
    },
    Subcommand {
        name: "info",
        required: &[("FILE", "file")],
        options: &[SERVER, &["--sidecar", "--hash-offset", "--json"]],
        malformed: &[("--hash-offset", "-1")],
    },
    Subcommand {
        name: "keygen",
        required: &[("PUBLIC", "public"), ("SECRET", "secret")],
        options: &[&["--no-password", "--password-file"]],
        malformed: &[],
    },
    Subcommand {
        name: "sign",
        required: &[("FILE", "file"), ("--key", "--key=key")],
        options: &[READ, &["--password-file"]],
        malformed: &[("--block-size", "2M")],
    },
    Subcommand {
        name: "verify",
        required: &[("FILE", "file")],
        options: &[TRUST, READ, &["--json", "--device", "--plain-http"]],
        malformed: MALFORMED_READ,
    },
    Subcommand {
        name: "ls",
        required: &[("IMAGE", "image")],
        options: &[
            TRUST,
            READ,
            &["--long", "--json", "--null", "--device", "--plain-http"],
        ],
        malformed: MALFORMED_READ,
    },
    Subcommand {
        name: "cat",
        required: &[("IMAGE", "image"), ("PATH", "path")],
        options: &[TRUST, READ, &["--device", "--plain-http"]],
        malformed: MALFORMED_READ,
    },
    Subcommand {
        name: "extract",
        required: &[("IMAGE", "image"), ("DIR", "directory")],
        options: &[
            TRUST,
            READ,
            &["--strict", "--max-size", "--device", "--plain-http"],
        ],
        malformed: MALFORMED_READ,
    },
    Subcommand {
        name: "push",
        required: &[("FILE", "file"), ("IMAGE", "oci://host/image:tag")],
        options: &[SERVER, &["--sidecar", "--json"]],
        malformed: &[("--sidecar", "oci://host")],
    },
    Subcommand {
        name: "pull",
        required: &[("IMAGE", "oci://host/image:tag"), ("FILE", "file")],
        options: &[TRUST, SERVER],
        malformed: &[("--digest", "sha256:00")],
    },
    Subcommand {
        name: "mount",
        required: &[("SOURCE", "source"), ("DIR", "directory")],
        options: &[
            TRUST,
            READ,
            DAEMON,
            MOUNT,
            &[
                "--as-file",
                "--device",
                "--plain-http",
                "--prefetch",
                "--uid",
                "--gid",
                "--umask",
                "--suid",
                "--dev",
            ],
        ],
        malformed: &[
            ("--threads", "0"),
            ("--threads", "many"),
            ("--digest", "sha256:00"),
            ("--uid", "nobody"),
            ("--gid", "-1"),
            ("--umask", "8"),
            ("--prefetch", "some"),
        ],
    },
    Subcommand {
        name: "cache info",
        required: &[],
        options: &[&["--cache", "--cache-size", "--json"]],
        malformed: &[("--cache-size", "1X")],
    },
    Subcommand {
        name: "cache clear",
        required: &[],
        options: &[&["--cache", "--cache-size"]],
        malformed: &[("--cache-size", "1X")],
    },
    Subcommand {
        name: "cache verify",
        required: &[],
        options: &[&["--cache", "--cache-size", "--json"]],
        malformed: &[("--cache-size", "1X")],
    },
    Subcommand {
        name: "bridge",
        required: &[("SOURCE", "source"), ("DIR", "directory")],
        options: &[
            DAEMON,
            MOUNT,
            &[
                "--policy",
                "--explain",
                "--write",
                "--passthrough",
                "--cache",
                "--read-only",
                "--no-xattr",
            ],
        ],
        malformed: &[
            ("--passthrough", "perhaps"),
            ("--cache", "no"),
            ("--threads", "0"),
        ],
    },
    Subcommand {
        name: "volume format",
        required: &[("VOLUME", "volume")],
        options: &[
            OPEN,
            &[
                "--mode",
                "--size",
                "--disk-size",
                "--preallocate",
                "--force",
                "--sector-size",
                "--tag-size",
                "--interleave-sectors",
                "--journal-size",
                "--integrity-legacy-padding",
                "--integrity-legacy-hmac",
            ],
        ],
        malformed: &[
            ("--size", "0"),
            ("--size", "1X"),
            ("--integrity", "md5"),
            ("--sector-size", "8K"),
            ("--tag-size", "0"),
            ("--tag-size", "65537"),
            ("--interleave-sectors", "12"),
            ("--journal-size", "much"),
            ("--mode", "fast"),
        ],
    },
    Subcommand {
        name: "volume info",
        required: &[("VOLUME", "volume")],
        options: &[&["--json"]],
        malformed: &[],
    },
    Subcommand {
        name: "volume check",
        required: &[("VOLUME", "volume")],
        options: &[OPEN, &["--allow-discards", "--accept", "--json"]],
        malformed: &[
            ("--integrity", ""),
            ("--accept", "8"),
            ("--accept", "8..8"),
            ("--accept", "-8..8"),
        ],
    },
    Subcommand {
        name: "volume grow",
        required: &[("VOLUME", "volume")],
        options: &[OPEN, &["--size", "--disk-size"]],
        malformed: &[("--integrity", ""), ("--size", "x"), ("--disk-size", "x")],
    },
    Subcommand {
        name: "volume mount",
        required: &[("VOLUME", "volume"), ("DIR", "directory")],
        options: &[OPEN, USE, DAEMON, MOUNT],
        malformed: &[
            ("--mode", "fast"),
            ("--threads", "0"),
            ("--tag-cache", "x"),
            ("--commit-time", "0"),
        ],
    },
    Subcommand {
        name: "volume serve",
        required: &[("VOLUME", "volume"), ("--socket", "--socket=socket")],
        options: &[OPEN, USE, DAEMON, &["--socket-mode", "--socket-group"]],
        malformed: &[
            ("--mode", "fast"),
            ("--socket-mode", "rw"),
            ("--socket-mode", "1777"),
            ("--socket-group", "no such group"),
            ("--threads", "0"),
            ("--commit-time", "-1"),
        ],
    },
    Subcommand {
        name: "umount",
        required: &[("DIR|SOCKET", "directory")],
        options: &[&["--lazy"]],
        malformed: &[],
    },
    Subcommand {
        name: "status",
        required: &[("DIR|SOCKET", "directory")],
        options: &[&["--all", "--json", "--prometheus"]],
        malformed: &[],
    },
    Subcommand {
        name: "list",
        required: &[],
        options: &[&["--json"]],
        malformed: &[],
    },
    Subcommand {
        name: "completions",
        required: &[("SHELL", "bash")],
        options: &[],
        malformed: &[],
    },
    Subcommand {
        name: "man",
        required: &[("DIR", "directory")],
        options: &[],
        malformed: &[],
    },
];
