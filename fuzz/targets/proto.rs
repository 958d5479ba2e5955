//! Messages are read or refused, and modules survive the trip through them.

#![no_main]
#![allow(missing_docs, reason = "a program has no users")]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hlo_opt_fuzz::proto(bytes));
