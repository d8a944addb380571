//! Crashes while the end of a file is changed that has data or a seal already.

use std::{num::NonZeroUsize, ops::ControlFlow, sync::Arc};

use verimount_source::{GrowingFile, ReadAt};
use verimount_testkit::{Recorder, Recording, go_on, noise};
use verimount_verity::{
    BlockSize, Error, FileDigest, HashAlgorithm, KeyPair, PublicKey, Salt, SealLayout, Sealed,
    SecretKey, Signature, TreeParams, Trust, VerifiedReader, VerifyOptions, append_seal, dm_verity,
    seal,
};

const SEED: u64 = 1;

/// A file that holds these bytes.
fn file(bytes: &[u8]) -> (Recording, Arc<Recorder>) {
    let recording = Recording::new(vec![bytes.to_vec()]);
    let file = recording.devices().next().unwrap();
    (recording, file)
}

fn content(file: &Recorder) -> Vec<u8> {
    let mut bytes = vec![0; file.size() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Ways to append a seal.
#[derive(Debug, Clone, Copy)]
enum Format {
    FsVerity,
    DmVerity,
}

impl Format {
    fn append(self, bytes: &[u8], file: &dyn GrowingFile) -> Result<(), Error> {
        let (bytes, params, one) = (bytes.to_vec(), TreeParams::default(), NonZeroUsize::MIN);
        match self {
            Self::FsVerity => append_seal(&bytes, file, &params, one, &mut go_on).map(drop),
            Self::DmVerity => {
                dm_verity::append_seal(&bytes, file, &params.into(), one, &mut go_on).map(drop)
            }
        }
    }

    /// What a file becomes that nobody uses meanwhile.
    fn sealed(self, data: &[u8]) -> Vec<u8> {
        let (_, file) = file(data);
        let (data, params, one) = (data.to_vec(), TreeParams::default(), NonZeroUsize::MIN);
        let layout = SealLayout::Appended;
        match self {
            Self::FsVerity => seal(&data, &*file, layout, &params, one, &mut go_on).map(drop),
            Self::DmVerity => {
                let params = params.into();
                dm_verity::seal(&data, &*file, layout, &params, one, &mut go_on).map(drop)
            }
        }
        .unwrap();
        content(&file)
    }
}

fn sizes(format: Format) -> &'static [usize] {
    match format {
        // Without data, without a tree, with trees of one, two and three blocks.
        Format::FsVerity => &[0, 1, 4096, 70_001, 200 * 4096, 300_000],
        Format::DmVerity => &[4096, 17 * 4096, 200 * 4096],
    }
}

/// What the file is: as it was, sealed, or known to be in between; and to append once more makes it
/// the same as if nothing had happened.
#[test]
fn an_interrupted_append_is_recognised() {
    for format in [Format::FsVerity, Format::DmVerity] {
        for &size in sizes(format) {
            let data = noise(size, 3);
            let sealed = format.sealed(&data);
            let (recording, writer) = file(&data);
            format.append(&data, &*writer).unwrap();
            assert!(content(&writer) == sealed, "{format:?} of {size} bytes");
            let mut begun = 0;
            for point in recording.crash_points() {
                let is_complete = point.events == recording.events();
                for mut state in point.states(SEED) {
                    let state = state.remove(0);
                    assert!(state[..size] == data, "{format:?}: the data was changed");
                    if state == sealed {
                        continue;
                    }
                    assert!(!is_complete, "{format:?}: it is lost");
                    if state != data {
                        begun += 1;
                        is_unfinished(&state, size);
                    }
                    let (_, again) = file(&state);
                    format.append(&state, &*again).unwrap();
                    assert!(content(&again) == sealed, "{format:?} of {size} bytes");
                }
            }
            assert!(begun > 0, "no crash met it under way");
        }
    }
}

fn is_unfinished(state: &[u8], size: usize) {
    let found = Arc::new(state.to_vec());
    let area = dm_verity::HashArea::open_appended(found.clone(), size as u64).err();
    let sealed = Sealed::open_appended(found).err();
    for error in [area, sealed] {
        match error {
            Some(Error::Unfinished { data_size }) => assert_eq!(data_size, size as u64),
            other => panic!("{other:?}"),
        }
    }
}

/// A state in which sealing was interrupted with some of the tree there.
fn begun(data: &[u8]) -> Vec<u8> {
    let sealed = Format::FsVerity.sealed(data);
    let (recording, writer) = file(data);
    Format::FsVerity.append(data, &*writer).unwrap();
    recording
        .crash_points()
        .filter_map(|point| point.states(SEED).last())
        .map(|mut state| state.remove(0))
        .find(|state| {
            let tree = sealed.len() - 4096;
            state.len() == sealed.len() && state[data.len()..tree] == sealed[data.len()..tree]
        })
        .expect("one has a part of the tree")
}

/// Whatever is there that is no part of the seal may be somebody's only copy.
#[test]
fn nothing_else_is_overwritten() {
    let data = noise(300_000, 3);
    let begun = begun(&data);
    for at in (data.len()..begun.len() - 512).step_by(509) {
        let mut bytes = begun.clone();
        bytes[at] ^= 1;
        let (_, file) = file(&bytes);
        let refused = Format::FsVerity.append(&bytes, &*file);
        let is_refused = matches!(refused, Err(Error::BegunOtherwise { .. }));
        assert!(is_refused, "{at}: {refused:?}");
        assert!(content(&file)[..] == bytes[..], "{at}: it was changed");
    }
}

/// What is not exactly as long as its mark says, or has another mark, is data.
#[test]
fn a_damaged_mark_is_data() {
    let data = noise(300_000, 3);
    let begun = begun(&data);
    let mark = begun.len() - 512;
    let unfinished = |bytes: &[u8]| {
        let opened = Sealed::open_appended(Arc::new(bytes.to_vec()));
        matches!(opened.err().unwrap(), Error::Unfinished { .. })
    };
    assert!(unfinished(&begun));
    for at in mark..begun.len() {
        let mut bytes = begun.clone();
        bytes[at] ^= 1;
        assert!(!unfinished(&bytes), "{at}");
    }
    assert!(!unfinished(&begun[512..]));
    assert!(!unfinished(&[&[0; 512], &begun[..]].concat()));
    assert!(!unfinished(&begun[..mark]));
}

#[test]
fn other_options_are_refused() {
    let data = noise(300_000, 3);
    let begun = begun(&data);
    for (algorithm, block_size, salt) in [
        (HashAlgorithm::Sha512, 4096, ""),
        (HashAlgorithm::Sha256, 1024, ""),
        (HashAlgorithm::Sha256, 65536, ""),
        (HashAlgorithm::Sha256, 4096, "salt"),
    ] {
        let params = TreeParams {
            algorithm,
            block_size: BlockSize::new(block_size).unwrap(),
            salt: Salt::new(salt.as_bytes()).unwrap(),
        };
        let (_, file) = file(&begun);
        let refused = append_seal(&begun, &*file, &params, NonZeroUsize::MIN, &mut go_on);
        assert!(
            matches!(refused, Err(Error::BegunOtherwise { .. })),
            "{refused:?}"
        );
        assert!(content(&file) == begun);
    }
}

/// A failure takes back what was appended.
#[test]
fn a_cancelled_append_is_cut_off() {
    let data = noise(300_000, 3);
    let (_, file) = file(&data);
    let mut stop = |_| ControlFlow::Break(());
    let params = TreeParams::default();
    let cancelled = append_seal(&data, &*file, &params, NonZeroUsize::MIN, &mut stop);
    assert!(matches!(cancelled, Err(Error::Cancelled)));
    assert!(content(&file) == data);
}

struct Signer {
    public: PublicKey,
    secret: SecretKey,
}

impl Signer {
    fn new() -> Self {
        let pair = KeyPair::generate(None).unwrap();
        Self {
            public: PublicKey::parse(&pair.public).unwrap(),
            secret: SecretKey::parse(&pair.secret, None).unwrap(),
        }
    }

    /// With comments that make it this much longer.
    fn sign(&self, digest: &FileDigest, longer: usize) -> Signature {
        let signature = self.secret.sign(digest).unwrap();
        let text = str::from_utf8(signature.as_bytes()).unwrap();
        let (_, rest) = text.split_once('\n').unwrap();
        let text = format!("untrusted comment: {}\n{rest}", "x".repeat(longer));
        Signature::parse(text.as_bytes()).unwrap()
    }

    fn has_signed(&self, sealed: &Sealed, data: &[u8]) -> bool {
        let trust = Trust::Key(self.public.clone());
        let Ok(seal) = sealed.accepted_by(&trust) else {
            return false;
        };
        let reader = VerifiedReader::new(seal, VerifyOptions::default()).unwrap();
        let mut read = vec![0; data.len()];
        reader.read_exact_at(&mut read, 0).unwrap();
        read == data
    }
}

fn opened(bytes: &[u8]) -> Sealed {
    Sealed::open_appended(Arc::new(bytes.to_vec())).unwrap()
}

/// Signs the appended seal in `bytes`.
fn sign(bytes: &[u8], file: &dyn GrowingFile, signer: &Signer, longer: usize) {
    let sealed = opened(bytes);
    let signature = signer.sign(&sealed.file_digest(), longer);
    sealed
        .replace_signature(file, &bytes.to_vec(), &signature)
        .unwrap();
}

fn signed(bytes: &[u8], signer: &Signer, longer: usize) -> Vec<u8> {
    let (_, file) = file(bytes);
    sign(bytes, &*file, signer, longer);
    content(&file)
}

/// It is as it was or as it is to be, with no block of another size in between; and can be signed
/// once more, which leaves nothing of what was interrupted.
#[test]
fn an_interrupted_signature_is_the_old_or_the_new_one() {
    let data = noise(70_001, 4);
    let unsigned = Format::FsVerity.sealed(&data);
    let [old, new, third] = [(); 3].map(|()| Signer::new());
    // Longer and shorter than a block with the descriptor.
    for (before, after) in [(None, 0), (Some(0), 0), (Some(9000), 0), (Some(0), 9000)] {
        let first = match before {
            None => unsigned.clone(),
            Some(longer) => signed(&unsigned, &old, longer),
        };
        let (recording, writer) = file(&first);
        sign(&first, &*writer, &new, after);
        let plainly_signed = {
            let (_, copy) = file(&first);
            let sealed = opened(&first);
            let signature = new.sign(&sealed.file_digest(), after);
            sealed.write_signature(&*copy, &signature).unwrap();
            content(&copy).len()
        };
        assert_eq!(content(&writer).len(), plainly_signed);
        let mut marked = 0;
        for point in recording.crash_points() {
            let is_complete = point.events == recording.events();
            for mut state in point.states(SEED) {
                let state = state.remove(0);
                let sealed = opened(&state);
                let is_new = new.has_signed(&sealed, &data);
                let is_old = match before {
                    None => sealed.signature().unwrap().is_none(),
                    Some(_) => old.has_signed(&sealed, &data),
                };
                assert!(is_new || (is_old && !is_complete), "{}", point.events);
                if state.len() % 4096 != 0 {
                    marked += 1;
                    let again = signed(&state, &third, 0);
                    assert!(third.has_signed(&opened(&again), &data));
                    assert_eq!(again.len(), unsigned.len());
                }
            }
        }
        assert!(marked > 0, "no crash met it under way");
    }
}
