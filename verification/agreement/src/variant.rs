//! The options of `mkfs.erofs` that change the format.

use std::fmt;

use self::Reader::{Fsck, Kernel};
use crate::utils::{
    Utils,
    Version::{self, V1_5, V1_8_6, V1_9_4},
};

/// Options, and the first version that knows them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variant {
    since: Version,
    /// Separated by spaces.
    options: &'static str,
    /// Readers that are known to show such images wrongly.
    wrong: &'static [Reader],
}

/// A reader to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Linux 6.18.
    Kernel,
    /// `fsck.erofs` 1.9.4.
    Fsck,
}

const fn variant(since: Version, options: &'static str) -> Variant {
    Variant {
        since,
        options,
        wrong: &[],
    }
}

/// A variant by options whose images these readers show wrongly.
const fn except(wrong: &'static [Reader], since: Version, options: &'static str) -> Variant {
    Variant {
        since,
        options,
        wrong,
    }
}

/// For trees with all kinds of files.
pub(crate) const OF_EVERYTHING: [Variant; 67] = [
    variant(V1_5, ""),
    variant(V1_5, "-Enoinline_data"),
    variant(V1_5, "-Eforce-inode-compact --all-root -T1700000000"),
    variant(V1_5, "-Eforce-inode-extended"),
    variant(V1_5, "-Enosbcrc"),
    variant(V1_5, "-x-1"),
    variant(V1_5, "-x1"),
    variant(V1_5, "-x500"),
    variant(V1_5, "-T1700000000"),
    variant(V1_5, "--ignore-mtime -T1700000000"),
    variant(V1_5, "--all-root"),
    variant(V1_5, "--chunksize=4096"),
    variant(V1_5, "--chunksize=65536 -Eforce-chunk-indexes"),
    variant(V1_5, "--chunksize=4096 -Eforce-inode-blockmap"),
    variant(V1_5, "-zlz4"),
    variant(V1_5, "-zlz4hc,12 -C65536"),
    variant(V1_5, "-zlz4 -Eztailpacking"),
    variant(V1_5, "-zlz4 -Elegacy-compress"),
    variant(V1_5, "-zlz4 -C16384 -Elegacy-compress,ztailpacking"),
    variant(V1_8_6, "-b512"),
    variant(V1_8_6, "-b512 -x1"),
    variant(V1_8_6, "-b512 -zlz4 -C4096"),
    variant(V1_8_6, "-b1024"),
    variant(V1_8_6, "-b1024 --chunksize=4096"),
    variant(V1_8_6, "-b1024 -zlz4hc"),
    variant(V1_8_6, "-b1024 -zdeflate -C65536 -Ededupe"),
    variant(V1_8_6, "-b2048"),
    variant(V1_8_6, "-b2048 -zzstd -C16384"),
    variant(V1_8_6, "-b2048 -zlz4 -Eztailpacking"),
    variant(V1_8_6, "-b512 -zlzma -Efragments"),
    variant(V1_8_6, "-zlzma"),
    variant(V1_8_6, "-zlzma,9 -C65536"),
    variant(V1_8_6, "-zlzma -C65536 -Eall-fragments"),
    variant(V1_8_6, "-zdeflate"),
    variant(V1_8_6, "-zdeflate -Eztailpacking"),
    variant(V1_8_6, "-zlibdeflate,9 -C65536"),
    variant(V1_8_6, "-zzstd"),
    variant(V1_8_6, "-zzstd,19 -C131072"),
    except(
        &[Kernel, Fsck],
        V1_8_6,
        "-zzstd -C65536 -Efragments,ztailpacking",
    ),
    variant(V1_8_6, "-zlz4 -Efragments"),
    variant(V1_8_6, "-zlz4 -Efragments,legacy-compress"),
    variant(V1_8_6, "-zlz4hc -Eall-fragments"),
    variant(V1_8_6, "-Ededupe"),
    variant(V1_8_6, "-zlz4 -Ededupe"),
    variant(V1_8_6, "-zlz4 -C65536 -Ededupe,fragments"),
    variant(V1_8_6, "-zlz4 -C65536 -Ededupe,legacy-compress"),
    variant(V1_8_6, "--hard-dereference"),
    variant(V1_8_6, "-Exattr-name-filter"),
    variant(V1_8_6, "--xattr-prefix=user.a.long.prefix."),
    variant(
        V1_8_6,
        "--xattr-prefix=user.a.long. -Exattr-name-filter -x1",
    ),
    variant(V1_8_6, "--xattr-prefix=user.a.long. -zlz4 -Efragments"),
    variant(V1_9_4, "-E48bit"),
    variant(V1_9_4, "-E48bit,dot-omitted"),
    variant(V1_9_4, "-E48bit --chunksize=4096"),
    variant(V1_9_4, "-E48bit -T1700000000"),
    variant(V1_9_4, "-E48bit -zlz4"),
    variant(V1_9_4, "-E48bit -zzstd -C65536"),
    variant(V1_9_4, "-E48bit -zlz4 -C65536 -Efragments"),
    variant(V1_9_4, "-E48bit -zdeflate -C65536 -Ededupe"),
    variant(V1_9_4, "-E48bit -b512 -zlzma -C4096"),
    variant(V1_9_4, "-Eplain-xattr-prefixes --xattr-prefix=user.a."),
    except(&[Kernel, Fsck], V1_9_4, "-m4096 -zlz4 --zD"),
    except(&[Fsck], V1_9_4, "-m4096 -zlz4"),
    except(&[Kernel, Fsck], V1_9_4, "-m65536 -zzstd -C65536 --zD"),
    except(&[Kernel, Fsck], V1_9_4, "-m512 -b512 -zlz4 --zD"),
    except(&[Kernel], V1_9_4, "-m4096 -zlz4 -E48bit,all-fragments"),
    variant(V1_9_4, "--MZ -zlz4"),
];

/// For trees of much data: how it is compressed, and in which units.
pub(crate) const OF_CONTENT: [Variant; 14] = [
    variant(V1_5, ""),
    variant(V1_5, "--chunksize=65536"),
    variant(V1_5, "-zlz4"),
    variant(V1_5, "-zlz4hc,12 -C65536"),
    variant(V1_5, "-zlz4 -C32768 -Eztailpacking"),
    variant(V1_8_6, "-b1024 -zzstd,3 -C65536"),
    variant(V1_8_6, "-b2048 -zlz4 -C131072"),
    variant(V1_8_6, "-zlzma,1 -C131072"),
    variant(V1_8_6, "-zdeflate,1 -C65536 -Eall-fragments"),
    variant(V1_8_6, "-zzstd,3 -C1048576"),
    variant(V1_8_6, "-zlz4 -C32768 -Ededupe,fragments"),
    variant(V1_9_4, "-E48bit -zzstd,3 -C65536"),
    variant(V1_9_4, "-E48bit -zlz4 -C65536 -Ededupe,fragments"),
    except(&[Kernel, Fsck], V1_9_4, "-m4096 -zlz4 --zD"),
];

impl Variant {
    pub(crate) fn is_known_to(&self, utils: &Utils) -> bool {
        self.since <= utils.version()
    }

    /// Whether a reader shows its images rightly.
    pub(crate) fn is_for(&self, reader: Reader) -> bool {
        !self.wrong.contains(&reader)
    }

    /// Whether it keeps extended attributes.
    pub(crate) fn has_xattrs(&self) -> bool {
        self.options().all(|option| option != "-x-1")
    }

    pub(crate) fn options(&self) -> impl Iterator<Item = &'static str> {
        self.options.split_whitespace()
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.options {
            "" => f.write_str("without options"),
            options => f.write_str(options),
        }
    }
}
