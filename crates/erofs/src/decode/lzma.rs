use std::io::Read;

use lzma_rust2::LzmaReader;

use crate::numbers::to_u64;

/// The first byte of the range coder's data, which is always the same and is not stored.
const FIRST: [u8; 1] = [0];

/// The least size of a dictionary in bytes.
const MIN_DICTIONARY: u32 = 4096;

/// Fills `output` from MicroLZMA data, whose first byte has the properties, inverted; `None` if `input` does not allow it.
pub(super) fn decode(input: &[u8], output: &mut [u8]) -> Option<()> {
    let (properties, rest) = input.split_first()?;
    // Nothing refers further back than the output begins.
    let dictionary = u32::try_from(output.len()).ok()?.max(MIN_DICTIONARY);
    let len = to_u64(output.len());
    let input = FIRST.chain(rest);
    let mut reader = LzmaReader::new_with_props(input, len, !properties, dictionary, None).ok()?;
    reader.read_exact(output).ok()
}
