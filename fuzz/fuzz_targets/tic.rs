#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dream_fuzz::tic(data));
