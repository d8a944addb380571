//! The data for measurements: the same bytes in every run.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
};

use anyhow::Result;

/// The amounts of data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Bytes of the large file.
    pub(crate) file: u64,
    /// Bytes of the file in the tables of 2020.
    pub(crate) seed_file: u64,
    /// Bytes of the file that is read and written through a bridge, and of volumes whose requests are
    /// counted.
    pub(crate) bridged_file: u64,
    /// Bytes of the disks whose speed is measured.
    pub(crate) measured_disk: u64,
    /// Bytes of each of the 300 files to which a user copies all the time.
    pub(crate) copied_file: u64,
    /// The package of this workspace that is built through a bridge.
    pub(crate) built_package: &'static str,
    /// Random reads of 4 KiB.
    pub(crate) random_reads: u64,
    /// Folders in each of the tree's two levels.
    pub(crate) folders: [usize; 2],
    /// Files in each of the tree's lower folders.
    pub(crate) files_per_folder: usize,
    /// Bytes of the files whose images are mounted.
    pub(crate) images: &'static [u64],
    /// Names in the directories whose images are listed.
    pub(crate) listed: &'static [u64],
    /// Files in the directories that are mirrored and walked.
    pub(crate) mirrored: &'static [u64],
    /// Bytes of the volumes that are mounted.
    pub(crate) volumes: &'static [u64],
    /// Mounts of one image on a web server at the same time.
    pub(crate) shared_mounts: usize,
    /// Bytes of each of the 20 files of a model of which one is replaced.
    pub(crate) shard: u64,
    /// Whether trees are fetched from Debian and PyPI.
    pub(crate) fetches: bool,
    /// The most bytes of disk that everything takes.
    pub(crate) disk: u64,
}

impl Sizes {
    /// The amounts for the figures in the documentation: the tree has 9600 files in 600 folders and about
    /// 500 MB.
    pub(crate) const FULL: Self = Self {
        file: 1 << 30,
        seed_file: 250 << 20,
        bridged_file: 1 << 30,
        measured_disk: 512 << 20,
        copied_file: 16 << 20,
        built_package: "verimount-romfs",
        random_reads: 20_000,
        folders: [24, 25],
        files_per_folder: 16,
        images: &[1 << 20, 32 << 20, 1 << 30, 3 << 30],
        listed: &[100_000, 1_000_000],
        mirrored: &[1_000, 10_000, 100_000, 1_000_000],
        volumes: &[1 << 30, 32 << 30, 1 << 40],
        shared_mounts: 50,
        shard: 256 << 20,
        fetches: true,
        disk: 10 << 30,
    };

    /// Just enough to test the benchmarks.
    pub(crate) const SMOKE: Self = Self {
        file: 16 << 20,
        seed_file: 4 << 20,
        bridged_file: 2 << 20,
        measured_disk: 2 << 20,
        copied_file: 64 << 10,
        built_package: "verimount-names",
        random_reads: 200,
        folders: [4, 5],
        files_per_folder: 8,
        images: &[1 << 20, 4 << 20],
        listed: &[10, 1_000],
        mirrored: &[10, 100],
        volumes: &[16 << 20, 64 << 20],
        shared_mounts: 5,
        shard: 1 << 20,
        fetches: false,
        disk: 1 << 29,
    };

    /// The number of files in the tree.
    pub(crate) fn files(&self) -> usize {
        self.folders[0] * self.folders[1] * self.files_per_folder
    }
}

/// A number of bytes in the largest unit that is exact.
pub(crate) fn bytes_label(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fitting = units
        .iter()
        .find(|(shift, _)| bytes.trailing_zeros() >= *shift);
    match fitting {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} B"),
    }
}

/// Writes a file that cannot be compressed.
pub(crate) fn write_file(path: &Path, bytes: u64) -> Result<()> {
    write_one_of_many(path, bytes, bytes)
}

/// Writes a file that cannot be compressed, and for each `seed` another one.
pub(crate) fn write_one_of_many(path: &Path, bytes: u64, seed: u64) -> Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut random = Random::new(seed);
    random.write_noise(&mut file, bytes)?;
    file.into_inner()?.sync_all()?;
    Ok(())
}

/// Writes the tree; returns the size of all files in bytes.
pub(crate) fn write_tree(path: &Path, sizes: &Sizes) -> Result<u64> {
    let mut random = Random::new(2020);
    let [upper, lower] = sizes.folders;
    let mut total = 0;
    for number in 0..upper * lower {
        let folder = path.join(format!(
            "part-{:02}/section-{:02}",
            number / lower,
            number % lower
        ));
        fs::create_dir_all(&folder)?;
        for index in 0..sizes.files_per_folder {
            let size = random.file_size();
            let ending = if index % 2 == 0 { "bin" } else { "txt" };
            let name = format!("{:08x}-{index:03}.{ending}", random.next() as u32);
            let mut file = BufWriter::new(File::create(folder.join(name))?);
            if index % 2 == 0 {
                random.write_noise(&mut file, size)?;
            } else {
                random.write_words(&mut file, size)?;
            }
            file.flush()?;
            total += size;
        }
    }
    rustix::fs::sync();
    Ok(total)
}

/// The splitmix64 generator.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A size as in real trees: most files are small, most bytes are in large ones; 52 KiB on average.
    fn file_size(&mut self) -> u64 {
        /// How many of 128 files have 256 to 511 bytes, how many up to 1023, and so on.
        const WEIGHTS: [u64; 13] = [4, 12, 18, 22, 22, 16, 10, 8, 6, 4, 3, 2, 1];
        let mut pick = self.next() % 128;
        let mut smallest = 256;
        for weight in WEIGHTS {
            if pick < weight {
                break;
            }
            pick -= weight;
            smallest *= 2;
        }
        smallest + self.next() % smallest
    }

    fn write_noise(&mut self, to: &mut impl Write, bytes: u64) -> Result<()> {
        for _ in 0..bytes / 8 {
            to.write_all(&self.next().to_le_bytes())?;
        }
        to.write_all(&self.next().to_le_bytes()[..(bytes % 8) as usize])?;
        Ok(())
    }

    fn write_words(&mut self, to: &mut impl Write, bytes: u64) -> Result<()> {
        const WORDS: [&str; 8] = [
            "block ", "digest ", "tree\n", "level ", "root ", "leaf ", "salt ", "file ",
        ];
        let mut left = bytes as usize;
        while left > 0 {
            let word = WORDS[(self.next() >> 61) as usize].as_bytes();
            let word = &word[..word.len().min(left)];
            to.write_all(word)?;
            left -= word.len();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_sizes_of_a_real_tree() {
        let mut random = Random::new(2020);
        let sizes: Vec<u64> = (0..9600).map(|_| random.file_size()).collect();
        let mean = sizes.iter().sum::<u64>() / 9600;
        assert!((45_000..60_000).contains(&mean), "{mean}");
        let small = sizes.iter().filter(|size| **size < 8192).count();
        assert!((5000..7000).contains(&small), "{small}");
    }

    #[test]
    fn data_has_the_size_asked_for() {
        let mut noise = Vec::new();
        Random::new(1).write_noise(&mut noise, 1003).unwrap();
        assert_eq!(noise.len(), 1003);
        let mut words = Vec::new();
        Random::new(1).write_words(&mut words, 1003).unwrap();
        assert_eq!(words.len(), 1003);
    }
}
