/// Reads whole blocks into `buf`: all at once, or one by one if that fails. Returns which of them
/// could be read.
///
/// `read` fills a buffer from an offset on, and returns whether all of it could be read.
///
/// # Errors
/// The first error of `read`.
pub fn read_blocks<E>(
    buf: &mut [u8],
    block_len: usize,
    mut read: impl FnMut(&mut [u8], u64) -> Result<bool, E>,
) -> Result<Vec<bool>, E> {
    if read(buf, 0)? {
        return Ok(vec![true; buf.len() / block_len]);
    }
    let blocks = (0..).step_by(block_len).zip(buf.chunks_mut(block_len));
    blocks.map(|(offset, block)| read(block, offset)).collect()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn other_blocks_are_read_despite_a_bad_one() {
        let read = |bad: Option<u64>| {
            let mut buf = [0; 8];
            let Ok(readable) = read_blocks(&mut buf, 2, |buf, offset| {
                let end = offset + buf.len() as u64;
                let is_bad = bad.is_some_and(|bad| (offset..end).contains(&bad));
                if !is_bad {
                    buf.copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8][offset as usize..end as usize]);
                }
                Ok::<_, Infallible>(!is_bad)
            });
            (buf, readable)
        };
        assert_eq!(read(None), ([1, 2, 3, 4, 5, 6, 7, 8], vec![true; 4]));
        assert_eq!(
            read(Some(5)),
            ([1, 2, 3, 4, 0, 0, 7, 8], vec![true, true, false, true])
        );
    }
}
