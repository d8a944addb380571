use std::io::Read;

use ruzstd::decoding::StreamingDecoder;

/// The largest window in bytes that a frame may ask for: the largest that `mkfs.erofs` makes, and the kernel takes.
const MAX_WINDOW: u64 = 8 << 20;

/// Fills `output` from a frame; `None` if `input` does not allow it.
pub(super) fn decode(input: &[u8], output: &mut [u8]) -> Option<()> {
    let decoder = StreamingDecoder::new_with_max_window_size(input, MAX_WINDOW);
    decoder.ok()?.read_exact(output).ok()
}
