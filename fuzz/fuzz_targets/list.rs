#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zk_fuzz::fuzz::list(data));
