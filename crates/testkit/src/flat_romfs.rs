//! Generates romfs images of one large directory, which takes other tools minutes.

const DIRECTORY: u32 = 1;
const FILE: u32 = 2;

/// The offset of the root's header, as the volume name is empty.
const ROOT: usize = 32;

/// The length of a header before its name, in bytes.
const FIXED: usize = 16;

/// A romfs image without a header index, whose root has empty files with these names, in this
/// order.
///
/// # Panics
/// If the image exceeds 4 GiB.
pub fn flat_romfs<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let mut image = vec![0; ROOT];
    image[..8].copy_from_slice(b"-rom1fs-");
    push_header(&mut image, DIRECTORY | 8, ROOT, ".");
    let mut last = ROOT;
    for name in names {
        link(&mut image, last);
        last = image.len();
        push_header(&mut image, FILE, 0, name);
    }
    let size = u32::try_from(image.len()).expect("an image of less than 4 GiB");
    image[8..12].copy_from_slice(&size.to_be_bytes());
    image.resize(image.len().next_multiple_of(1024), 0);
    let covered = image.len().min(512).min(size as usize);
    fix_checksum(&mut image[..covered]);
    image
}

fn push_header(image: &mut Vec<u8>, mode: u32, spec: usize, name: &str) {
    let at = image.len();
    let spec = u32::try_from(spec).expect("an offset in the image");
    image.extend(mode.to_be_bytes());
    image.extend(spec.to_be_bytes());
    image.extend([0; 8]);
    image.extend(name.as_bytes());
    image.resize((at + FIXED + name.len() + 1).next_multiple_of(16), 0);
    fix_checksum(&mut image[at..]);
}

/// Links the header at `at` to one at the end of the image.
fn link(image: &mut [u8], at: usize) {
    let next = u32::try_from(image.len()).expect("an image of less than 4 GiB");
    let mode = image[at + 3];
    image[at..at + 4].copy_from_slice(&next.to_be_bytes());
    image[at + 3] |= mode;
    let name = &image[at + FIXED..];
    let len = name.iter().position(|&byte| byte == 0).unwrap_or_default();
    let end = (at + FIXED + len + 1).next_multiple_of(16);
    fix_checksum(&mut image[at..end]);
}

/// Sets the checksum so that the words of a superblock or header add up to zero.
fn fix_checksum(bytes: &mut [u8]) {
    bytes[12..16].fill(0);
    let (words, _) = bytes.as_chunks::<4>();
    let sum = words.iter().fold(0_u32, |sum, word| {
        sum.wrapping_add(u32::from_be_bytes(*word))
    });
    bytes[12..16].copy_from_slice(&sum.wrapping_neg().to_be_bytes());
}
