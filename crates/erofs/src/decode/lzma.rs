use std::io::Read;

use lzma_rust2::LzmaReader;

/// The first byte of the range coder's data, which is always the same and is not stored.
const FIRST: [u8; 1] = [0];

/// The least size of a dictionary in bytes.
const MIN_DICTIONARY: u32 = 4096;

/// What stands for a length that is not known. With the output's length, the library would refuse data whose last match goes on
/// behind it.
const UNKNOWN_LEN: u64 = u64::MAX;

/// Fills `output` from MicroLZMA data, whose first byte has the properties, inverted; `None` if `input` does not allow it.
pub(super) fn decode(input: &[u8], output: &mut [u8]) -> Option<()> {
    let (properties, rest) = input.split_first()?;
    // Nothing refers further back than the output begins.
    let dictionary = u32::try_from(output.len()).ok()?.max(MIN_DICTIONARY);
    let input = FIRST.chain(rest);
    let mut reader =
        LzmaReader::new_with_props(input, UNKNOWN_LEN, !properties, dictionary, None).ok()?;
    reader.read_exact(output).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_may_go_on_behind_the_output() {
        // Eight letters, 40 times.
        let data = b"\xa2\x30\x98\x88\x98\x3e\xcb\xe2\x6f\x3b\x50\xfc\x5f\x22\x34\x8f\x83\xff\xfe\x8c\x00\x00";
        let content = b"abcdefgh".repeat(40);
        for len in 0..=content.len() {
            let mut output = vec![0; len];
            assert_eq!(decode(data, &mut output), Some(()), "{len}");
            assert!(output == content[..len], "{len}");
        }
        assert_eq!(decode(data, &mut vec![0; content.len() + 1]), None);
    }
}
