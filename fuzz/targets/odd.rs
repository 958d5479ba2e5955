//! Legal modules with odd things in them are treated like any other.

#![no_main]
#![allow(missing_docs, reason = "a program has no users")]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hlo_opt_fuzz::odd(bytes));
