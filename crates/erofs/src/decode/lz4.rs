//! LZ4 blocks, by their [specification](https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md).
//!
//! A block may go on behind the end of the output, with data of other files or with padding. The library decodes whole
//! blocks only; what it refuses is decoded here, up to where the output is full.

/// The fewest bytes of a match.
const MIN_MATCH: usize = 4;

/// The number in a token that says that more of it follows.
const MORE: u8 = 15;

/// Fills `output`; `None` if `input` does not allow it.
pub(super) fn decode(input: &[u8], output: &mut [u8]) -> Option<()> {
    match lz4_flex::block::decompress_into(input, output) {
        Ok(len) if len == output.len() => Some(()),
        _ => decode_prefix(input, output),
    }
}

/// Fills `output` from a block that may go on behind its end; `None` if `input` does not allow it.
fn decode_prefix(input: &[u8], output: &mut [u8]) -> Option<()> {
    let mut input = input;
    let mut done = 0;
    loop {
        let (token, rest) = input.split_first()?;
        input = rest;
        let literals = length(token >> 4, &mut input)?;
        done = copy_literals(&mut input, literals, output, done)?;
        if done == output.len() {
            return Some(());
        }
        let (distance, rest) = input.split_first_chunk()?;
        input = rest;
        let distance = usize::from(u16::from_le_bytes(*distance));
        let len = length(token & MORE, &mut input)?.checked_add(MIN_MATCH)?;
        done = copy_match(distance, len, output, done)?;
        if done == output.len() {
            return Some(());
        }
    }
}

/// A length whose first four bits are `start`.
fn length(start: u8, input: &mut &[u8]) -> Option<usize> {
    let mut len = usize::from(start);
    if start < MORE {
        return Some(len);
    }
    loop {
        let (more, rest) = input.split_first()?;
        *input = rest;
        len = len.checked_add(usize::from(*more))?;
        if *more < u8::MAX {
            return Some(len);
        }
    }
}

/// Copies `len` bytes of the input, or as many as there is room for, behind the first `done` bytes of the output. Returns how
/// many there are then.
fn copy_literals(input: &mut &[u8], len: usize, output: &mut [u8], done: usize) -> Option<usize> {
    let room = output.get_mut(done..)?;
    let len = len.min(room.len());
    let (from, rest) = input.split_at_checked(len)?;
    room.get_mut(..len)?.copy_from_slice(from);
    *input = rest;
    done.checked_add(len)
}

/// Copies `len` bytes, or as many as there is room for, from `distance` bytes before the end of the first `done` ones of the
/// output to behind them. They may overlap: then the bytes before repeat. Returns how many there are then.
fn copy_match(distance: usize, len: usize, output: &mut [u8], done: usize) -> Option<usize> {
    let start = done.checked_sub(distance).filter(|_| distance > 0)?;
    let end = done.checked_add(len)?.min(output.len());
    let mut at = done;
    while at < end {
        // All between are repetitions, so twice as many can be copied each time.
        let part = at.checked_sub(start)?.min(end.checked_sub(at)?);
        output.copy_within(start..start.checked_add(part)?, at);
        at = at.checked_add(part)?;
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(input: &[u8], len: usize) -> Option<Vec<u8>> {
        let mut outputs = [vec![0xee; len], vec![0xee; len]];
        let [whole, prefix] = &mut outputs;
        let found = [decode(input, whole), decode_prefix(input, prefix)];
        assert!(found[0] == found[1] && (found[0].is_none() || outputs[0] == outputs[1]));
        found[0].map(|()| outputs[0].clone())
    }

    #[test]
    fn literals_and_matches_are_copied() {
        // "abc", then 5 bytes from 3 before, then "xyz".
        let block = b"\x31abc\x03\x00\x30xyz";
        for len in 0..=11 {
            let expected = &b"abcabcabxyz"[..len];
            assert_eq!(decoded(block, len).unwrap(), expected, "{len}");
        }
        assert_eq!(decoded(block, 12), None);
    }

    #[test]
    fn long_lengths_go_on() {
        // One byte, repeated 4 + 15 + 255 + 255 + 3 times; then 15 + 1 literals.
        let mut block = b"\x1fz\x01\x00\xff\xff\x03\xf0\x01".to_vec();
        block.extend(b"0123456789abcdef");
        let mut expected = vec![b'z'; 1 + 4 + 15 + 255 + 255 + 3];
        expected.extend(b"0123456789abcdef");
        assert_eq!(decoded(&block, expected.len()).unwrap(), expected);
        // Matches of a pattern, near and far.
        for distance in 1..40_u8 {
            let mut block = vec![0xff, 40 - 15];
            block.extend(0..40);
            block.extend([distance, 0, 100]);
            let mut expected: Vec<u8> = (0..40).collect();
            for at in 40..40 + 4 + 15 + 100 {
                expected.push(expected[at - usize::from(distance)]);
            }
            assert_eq!(decoded(&block, expected.len()).unwrap(), expected);
        }
    }

    #[test]
    fn impossible_blocks_are_refused() {
        for block in [
            &b""[..],
            b"\x10",
            b"\x10a",
            b"\x10a\x01",
            b"\x10a\x00\x00\x00",
            b"\x10a\x02\x00\x00",
            b"\xf0",
            b"\xf0\xff",
            b"\x1fa\x01\x00\xff",
        ] {
            assert_eq!(decoded(block, 1000), None, "{block:?}");
        }
    }
}
