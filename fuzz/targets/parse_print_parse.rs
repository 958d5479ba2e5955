//! What is printed is read again.

#![no_main]
#![allow(missing_docs, reason = "a program has no users")]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hlo_opt_fuzz::parse_print_parse(bytes));
