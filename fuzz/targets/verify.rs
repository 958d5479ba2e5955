//! The verifier judges whatever was read.

#![no_main]
#![allow(missing_docs, reason = "a program has no users")]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hlo_opt_fuzz::verify(bytes));
