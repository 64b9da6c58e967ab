#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zk_testkit::fuzz::conversation(data));
