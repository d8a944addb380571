//! Decompressing a whole file while it is read.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use flate2::bufread::GzDecoder;
use verimount_scan::Compression;
use zstd_safe::{DCtx, InBuffer, OutBuffer, get_error_name};

/// How much compressed data is read at once, in bytes.
const PIECE: usize = 64 << 10;

/// What `input` is decompressed to; `None` for what is not decompressed here.
pub(super) fn decompressed<'r>(
    input: impl Read + 'r,
    compression: Compression,
) -> Option<Box<dyn Read + 'r>> {
    let input = BufReader::with_capacity(PIECE, input);
    match compression {
        Compression::Gzip => Some(Box::new(GzipDecoder {
            member: Some(GzDecoder::new(input)),
        })),
        Compression::Zstd => Some(Box::new(ZstdDecoder::new(input))),
        _ => None,
    }
}

/// Decompresses members of gzip, behind the last of which there may be zeros, as where files fill blocks of a medium.
struct GzipDecoder<R> {
    /// `None` at the end.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Read for GzipDecoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let made = member.read(buffer)?;
            if made > 0 || buffer.is_empty() {
                return Ok(made);
            }
            if let Some(ended) = self.member.take() {
                self.member = next_member(ended.into_inner())?;
            }
        }
        Ok(0)
    }
}

fn next_member<R: BufRead>(mut input: R) -> io::Result<Option<GzDecoder<R>>> {
    let mut has_zeros = false;
    loop {
        let available = match input.fill_buf() {
            // Who reads would ask again, and take the next member for the end.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            available => available?,
        };
        let zeros = available.iter().take_while(|byte| **byte == 0).count();
        if available.is_empty() {
            return Ok(None);
        }
        has_zeros |= zeros > 0;
        if zeros == available.len() {
            input.consume(zeros);
        } else if has_zeros {
            return Err(io::Error::other("there is more behind zeros"));
        } else {
            return Ok(Some(GzDecoder::new(input)));
        }
    }
}

/// Decompresses Zstandard frames. Those whose window is larger than the default of the library, 128 MiB, are refused: it is
/// kept in memory.
struct ZstdDecoder<R> {
    input: R,
    context: DCtx<'static>,
    /// A frame has begun and not ended.
    is_inside: bool,
}

impl<R: BufRead> ZstdDecoder<R> {
    fn new(input: R) -> Self {
        Self {
            input,
            context: DCtx::create(),
            is_inside: false,
        }
    }
}

impl<R: BufRead> Read for ZstdDecoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let available = self.input.fill_buf()?;
            let is_end = available.is_empty();
            if buffer.is_empty() || is_end && !self.is_inside {
                return Ok(0);
            }
            let mut from = InBuffer::around(available);
            let mut to = OutBuffer::around(&mut *buffer);
            let expected = self.context.decompress_stream(&mut to, &mut from);
            let expected = expected.map_err(|code| io::Error::other(get_error_name(code)))?;
            let (taken, made) = (from.pos(), to.pos());
            self.input.consume(taken);
            self.is_inside = expected > 0;
            match made {
                0 if is_end => return Err(ErrorKind::UnexpectedEof.into()),
                0 => {}
                made => return Ok(made),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::GzEncoder;
    use verimount_testkit::noise;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        let mut compressed = vec![0; zstd_safe::compress_bound(bytes.len())];
        let len = zstd_safe::compress(&mut compressed[..], bytes, 1).unwrap();
        compressed.truncate(len);
        compressed
    }

    fn plain(compressed: &[u8], compression: Compression) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        let decompressed = decompressed(compressed, compression);
        decompressed.unwrap().read_to_end(&mut plain)?;
        Ok(plain)
    }

    /// Files of several members, as parallel programs write them, are one file.
    #[test]
    fn all_members_are_decompressed() {
        let content = [noise(300_000, 1), vec![0; 300_000]].concat();
        for (compress, compression) in [
            (gzip as fn(&[u8]) -> Vec<u8>, Compression::Gzip),
            (zstd, Compression::Zstd),
        ] {
            let (first, second) = content.split_at(100);
            let whole = [compress(first), compress(b""), compress(second)].concat();
            assert!(plain(&whole, compression).unwrap() == content);
        }
    }

    /// As `gzip`, GNU tar and bsdtar take them.
    #[test]
    fn zeros_behind_gzip_are_ignored() {
        let content = noise(1000, 3);
        let padded = [&*gzip(&content), &[0; 200_000]].concat();
        assert!(plain(&padded, Compression::Gzip).unwrap() == content);
        let more = [&*padded, &*gzip(b"more")].concat();
        assert!(plain(&more, Compression::Gzip).is_err());
    }

    /// `pzstd` (1.5.4) begins with one.
    #[test]
    fn skippable_frames_are_skipped() {
        let content = noise(1000, 4);
        let frame = b"\x50\x2a\x4d\x18\x04\0\0\0size";
        let whole = [&frame[..], &zstd(&content)].concat();
        let compression = Compression::of(&whole).unwrap();
        assert!(plain(&whole, compression).unwrap() == content);
    }

    #[test]
    fn what_is_cut_or_damaged_is_an_error() {
        let content = noise(100_000, 2);
        for (compressed, compression) in [
            (gzip(&content), Compression::Gzip),
            (zstd(&content), Compression::Zstd),
        ] {
            for len in [1, 5, 1000, compressed.len() - 1] {
                let cut = plain(&compressed[..len], compression);
                assert!(cut.is_err(), "{compression} cut to {len} bytes");
            }
            let behind = [&*compressed, b"behind"].concat();
            assert!(plain(&behind, compression).is_err(), "{compression}");
        }
        // Only gzip has a checksum by default.
        let mut damaged = gzip(&content);
        let checksum = damaged.len() - 8;
        damaged[checksum] ^= 1;
        assert!(plain(&damaged, Compression::Gzip).is_err());
    }

    /// The first frame asks for a window of 2 GiB.
    #[test]
    fn large_windows_are_refused() {
        let frame = [&b"\x28\xb5\x2f\xfd\0"[..], &[21 << 3], &[1, 0, 0]].concat();
        let error = plain(&frame, Compression::Zstd).unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
        let small = [&b"\x28\xb5\x2f\xfd\0"[..], &[7 << 3], &[1, 0, 0]].concat();
        assert_eq!(plain(&small, Compression::Zstd).unwrap(), b"");
    }
}
