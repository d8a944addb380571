use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// The base-2 logarithm of the largest window in bytes that a frame may ask for: what the kernel takes at most.
const MAX_WINDOW_BITS: u32 = 23;

/// Fills `output` from a frame; `None` if `input` does not allow it.
pub(super) fn decode(input: &[u8], output: &mut [u8]) -> Option<()> {
    let mut context = DCtx::try_create()?;
    let limit = DParameter::WindowLogMax(MAX_WINDOW_BITS);
    context.set_parameter(limit).ok()?;
    let len = output.len();
    let (mut from, mut to) = (InBuffer::around(input), OutBuffer::around(output));
    while to.pos() < len {
        let before = (from.pos(), to.pos());
        let rest = context.decompress_stream(&mut to, &mut from).ok()?;
        let has_ended = rest == 0 || before == (from.pos(), to.pos());
        if has_ended && to.pos() < len {
            return None;
        }
    }
    Some(())
}
