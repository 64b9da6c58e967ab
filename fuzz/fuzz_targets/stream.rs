#![no_main]

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    zk_fuzz::mutator::mutate(data, size, max_size, seed)
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| zk_fuzz::fuzz_server::stream(data));
