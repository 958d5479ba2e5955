//! Unpacks gzip and zstd input, told by its first bytes, up to a bound that an archive of HLO does not reach.

// Tests: `tests/inputs.rs`.

use std::fmt;
use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use hlo_memory::Bytes;
use ruzstd::decoding::StreamingDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

/// How input is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Packing {
    /// `.gz`, also what `--xla_dump_compress_protos` writes.
    Gzip,
    /// `.zst`.
    Zstd,
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}

/// Endings of the names of packed files.
pub(crate) const ENDINGS: [&str; 2] = [".gz", ".zst"];

/// A name without the ending that says how the file is packed.
pub(crate) fn without_ending(name: &str) -> &str {
    ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

/// Why there is nothing to read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnpackError {
    /// Bytes are missing at the end.
    #[error("the file ends too early")]
    Truncated,
    /// Bytes are wrong.
    #[error("{0}")]
    Broken(String),
    /// A zstd archive that refers further back than the usual limit of decoders, which they have to keep in memory.
    #[error("it was packed with a window of more than 128 MiB")]
    Window,
    /// It expands to more than the bound, in bytes.
    #[error("its {packed} expand to more than {bound}")]
    TooLarge {
        /// The archive's size.
        packed: Bytes,
        /// The bound.
        bound: Bytes,
    },
}

impl From<io::Error> for UnpackError {
    fn from(error: io::Error) -> Self {
        if ends_early(&error) { Self::Truncated } else { Self::Broken(error.to_string()) }
    }
}

/// Whether an error, or what it comes from, is the end of the bytes.
fn ends_early(error: &io::Error) -> bool {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return true;
    }
    let mut next = error.get_ref().map(|inner| inner as &(dyn std::error::Error + 'static));
    while let Some(inner) = next {
        if inner.downcast_ref::<io::Error>().is_some_and(ends_early) {
            return true;
        }
        next = inner.source();
    }
    false
}

/// What every archive may expand to, in bytes. The texts of the largest programs have tens of millions of bytes.
const ALWAYS_UNPACKED: u64 = 256 << 20;

/// A larger result may be so many times as large as its archive. HLO text shrinks to a tenth or a twentieth, a long unrolled loop to a
/// hundredth; an archive of one repeated byte shrinks to a thousandth by gzip, and to less by zstd.
const MOST_RATIO: u64 = 256;

/// The bytes to which `packed` bytes may expand.
fn bound(packed: usize) -> u64 {
    (packed as u64).saturating_mul(MOST_RATIO).clamp(ALWAYS_UNPACKED, u64::from(u32::MAX))
}

/// How bytes are compressed, if they are. No text and no serialized module begins so.
pub(crate) fn packing(bytes: &[u8]) -> Option<Packing> {
    match bytes {
        [0x1f, 0x8b, ..] => Some(Packing::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Packing::Zstd),
        _ => None,
    }
}

/// The content of an archive.
pub(crate) fn unpack(packed: &[u8], packing: Packing) -> Result<Vec<u8>, UnpackError> {
    unpack_within(packed, packing, bound(packed.len()))
}

/// The same with a bound in bytes.
fn unpack_within(packed: &[u8], packing: Packing, bound: u64) -> Result<Vec<u8>, UnpackError> {
    let mut out = Vec::new();
    match packing {
        Packing::Gzip => take(MultiGzDecoder::new(packed), &mut out, bound)?,
        Packing::Zstd => frames(packed, &mut out, bound)?,
    }
    if out.len() as u64 > bound {
        return Err(UnpackError::TooLarge { packed: Bytes(packed.len() as u64), bound: Bytes(bound) });
    }
    Ok(out)
}

/// Appends what `from` gives, at most one byte more than `bound` in all.
fn take(from: impl Read, out: &mut Vec<u8>, bound: u64) -> io::Result<()> {
    from.take((bound + 1).saturating_sub(out.len() as u64)).read_to_end(out).map(drop)
}

/// Appends the content of the frames of a zstd archive.
fn frames(mut packed: &[u8], out: &mut Vec<u8>, bound: u64) -> Result<(), UnpackError> {
    while !packed.is_empty() && out.len() as u64 <= bound {
        match StreamingDecoder::new(&mut packed) {
            Ok(mut frame) => {
                take(&mut frame, out, bound)?;
                let decoder = frame.into_frame_decoder();
                let (said, found) = (decoder.get_checksum_from_data(), decoder.get_calculated_checksum());
                if decoder.is_finished() && said.is_some() && said != found {
                    return Err(UnpackError::Broken("its checksum is another".to_owned()));
                }
            }
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                packed = packed.get(length as usize..).ok_or(UnpackError::Truncated)?;
            }
            Err(FrameDecoderError::WindowSizeTooBig { .. }) => return Err(UnpackError::Window),
            Err(error) => return Err(io::Error::other(error).into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    const TEXT: &[u8] = b"HloModule m, a text that is long enough to be packed, packed, packed\n";

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).expect("memory takes everything");
        encoder.finish().expect("memory takes everything")
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    fn both() -> [(Packing, Vec<u8>); 2] {
        [(Packing::Gzip, gzip(TEXT)), (Packing::Zstd, zstd(TEXT))]
    }

    #[test]
    fn members_follow_each_other() {
        for (form, archive) in both() {
            assert_eq!(packing(&archive), Some(form));
            assert_eq!(unpack(&archive, form).expect("a whole archive"), TEXT);
            let twice = [archive.as_slice(), archive.as_slice()].concat();
            assert_eq!(unpack(&twice, form).expect("two whole archives"), [TEXT, TEXT].concat());
        }
        let skipped = [&[0x51, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 7, 7], zstd(TEXT).as_slice()].concat();
        assert_eq!(packing(&skipped), Some(Packing::Zstd));
        assert_eq!(unpack(&skipped, Packing::Zstd).expect("a frame to skip and one to read"), TEXT);
    }

    #[test]
    fn every_truncation_is_told() {
        for (form, archive) in both() {
            for end in 4..archive.len() {
                let result = unpack(&archive[..end], form);
                assert!(matches!(result, Err(UnpackError::Truncated)), "{form} cut at {end}: {result:?}");
            }
        }
    }

    #[test]
    fn every_wrong_byte_is_told() {
        for (form, archive) in both() {
            for at in 10..archive.len() {
                let mut wrong = archive.clone();
                wrong[at] ^= 0x55;
                let result = unpack(&wrong, form);
                assert!(result.is_err(), "{form} with another byte {at}: {result:?}");
            }
        }
    }

    #[test]
    fn the_bound_counts_all_members() {
        for (form, archive) in both() {
            let twice = [archive.as_slice(), archive.as_slice()].concat();
            let most = 2 * TEXT.len() as u64;
            assert!(unpack_within(&twice, form, most).is_ok());
            let result = unpack_within(&twice, form, most - 1);
            assert!(matches!(result, Err(UnpackError::TooLarge { .. })), "{form}: {result:?}");
        }
    }

    #[test]
    fn the_bound_follows_the_archive() {
        assert_eq!(bound(10), ALWAYS_UNPACKED);
        assert_eq!(bound(2 << 20), 512 << 20);
        assert_eq!(bound(1 << 30), u64::from(u32::MAX));
    }
}
