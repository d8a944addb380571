use verimount::{ReadAt, ReadError};

/// The size of a read in bytes: that of the blocks that are verified.
const BLOCK: usize = 4096;

/// What a change does to verified content.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Effect {
    /// The content's size in bytes.
    size: u64,
    /// The numbers of the blocks that are refused.
    refused: Vec<usize>,
}

impl Effect {
    /// Reads all of `content`. What is not refused must be as expected.
    pub(crate) fn on(content: &dyn ReadAt, expected: &[u8]) -> Self {
        let size = content.size();
        let mut block = [0; BLOCK];
        let is_refused = |number: &usize| {
            let start = number * BLOCK;
            let read = &mut block[..BLOCK.min(size as usize - start)];
            match content.read_exact_at(read, start as u64) {
                Ok(()) => {
                    let end = start + read.len();
                    assert!(
                        expected.get(start..end) == Some(read),
                        "block {number} is something else"
                    );
                    false
                }
                Err(ReadError::Rejected(_)) => true,
                Err(error) => panic!("block {number}: {error}"),
            }
        };
        let blocks = 0..(size as usize).div_ceil(BLOCK);
        Self {
            size,
            refused: blocks.filter(is_refused).collect(),
        }
    }
}
