//! Recognizes what people hand to the tool that is no HLO, by its first bytes or words, and says what to do with it.

// Tests: `tests/inputs.rs`.

mod message;
mod words;

use std::fmt;

pub(crate) use message::TENSORFLOW;

/// A file of another kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Foreign {
    /// What it is, with an article.
    pub(crate) what: &'static str,
    /// What to do.
    pub(crate) help: &'static str,
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }
}

/// How HLO is had from a program, whatever file came instead.
pub(crate) const DUMP: &str = "hlo-opt reads the HLO that XLA writes while a program is compiled: \
     XLA_FLAGS=\"--xla_dump_to=DIR --xla_dump_hlo_as_text\" python program.py";

/// How StableHLO becomes HLO.
pub(crate) const LOWER: &str = "`python -m hlo_opt.xla hlo FILE` prints it as HLO text; where the function is at hand, \
     `jax.jit(f).lower(...).compiler_ir(\"hlo\").as_hlo_text()` does";

/// What archives are for.
const UNPACK: &str = "unpack it first; hlo-opt itself unpacks gzip and zstd";

/// Bytes at a place of the file, and what begins so.
const MAGICS: [(usize, &[u8], Foreign); 17] = [
    (0, b"ML\xefR", Foreign { what: "MLIR bytecode, such as StableHLO", help: LOWER }),
    (0, b"\x7fELF", Foreign { what: "compiled code (ELF: a program, a library or an object file)", help: DUMP }),
    (0, b"\xcf\xfa\xed\xfe", Foreign { what: "compiled code (Mach-O)", help: DUMP }),
    (0, b"\xca\xfe\xba\xbe", Foreign { what: "compiled code (Mach-O)", help: DUMP }),
    (0, b"MZ", Foreign { what: "compiled code (a Windows program or library)", help: DUMP }),
    (0, b"BC\xc0\xde", Foreign { what: "LLVM bitcode", help: DUMP }),
    (4, b"TFL3", Foreign { what: "a TensorFlow Lite model", help: DUMP }),
    (0, b"PK\x03\x04", Foreign { what: "a zip archive, as PyTorch, Keras and NumPy write them", help: DUMP }),
    (0, b"\x89HDF", Foreign { what: "an HDF5 file, as Keras writes them", help: DUMP }),
    (0, b"BZh", Foreign { what: "compressed by bzip2", help: UNPACK }),
    (0, b"\xfd7zXZ\0", Foreign { what: "compressed by xz", help: UNPACK }),
    (0, b"\x1f\x8b", Foreign { what: "compressed twice", help: UNPACK }),
    (0, b"\x28\xb5\x2f\xfd", Foreign { what: "compressed twice", help: UNPACK }),
    (257, b"ustar", Foreign { what: "a tar archive", help: UNPACK }),
    (0, b"\x78\x9c", Foreign { what: "a zlib stream, such as an entry of JAX's compilation cache", help: DUMP }),
    (0, b"\x80\x04", Foreign { what: "a Python pickle", help: DUMP }),
    (0, b"\x80\x02", Foreign { what: "a Python pickle", help: DUMP }),
];

/// What a serialized message is that begins as a module and is none.
pub(crate) fn of_message(bytes: &[u8]) -> Option<Foreign> {
    message::recognize(bytes)
}

/// What bytes are that are neither text nor a serialized module.
pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Foreign> {
    let begins = |place: usize, magic: &[u8]| bytes.get(place..).is_some_and(|rest| rest.starts_with(magic));
    let magic = MAGICS.iter().find(|(place, magic, _)| begins(*place, magic)).map(|(.., foreign)| *foreign);
    magic.or_else(|| exported(bytes)).or_else(|| executable(bytes)).or_else(|| message::recognize(bytes))
}

/// An artifact of `jax.export`: a flatbuffer, which begins with the offset of its root, around MLIR bytecode.
fn exported(bytes: &[u8]) -> Option<Foreign> {
    let root = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    let inside = root < bytes.len() && bytes.windows(4).any(|window| window == b"ML\xefR");
    inside.then_some(Foreign { what: "an artifact of jax.export (StableHLO)", help: LOWER })
}

/// Where the name of the runtime stands in an executable that JAX has cached.
const HEAD: usize = 64;

/// An executable of PJRT, as a compilation cache holds it.
fn executable(bytes: &[u8]) -> Option<Foreign> {
    let head = &bytes[..bytes.len().min(HEAD)];
    let found = head.windows(4).any(|window| window == b"pjrt");
    found.then_some(Foreign { what: "a compiled executable, as JAX's compilation cache holds it", help: DUMP })
}

/// What a text is that is no HLO; anything that may be HLO is left to the reader of HLO.
pub(crate) fn of_text(text: &str) -> Option<Foreign> {
    words::recognize(text)
}
