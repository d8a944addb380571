use miniz_oxide::inflate::{
    TINFLStatus,
    core::{
        DecompressorOxide, decompress, inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
    },
};

/// Fills `output` from a raw deflate stream; `None` if `input` does not allow it.
pub(super) fn decode(input: &[u8], output: &mut [u8]) -> Option<()> {
    let mut state = Box::<DecompressorOxide>::default();
    let flags = TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    let (status, _, len) = decompress(&mut state, input, output, 0, flags);
    let is_fine = matches!(status, TINFLStatus::Done | TINFLStatus::HasMoreOutput);
    (is_fine && len == output.len()).then_some(())
}
