#!/bin/bash -eu
# Builds all targets, each with its corpus and the dictionary, into $OUT.
cargo fuzz build --release
for target in fuzz/fuzz_targets/*.rs; do
    target=$(basename "$target" .rs)
    cp "fuzz/target/x86_64-unknown-linux-gnu/release/$target" "$OUT"
    zip --quiet --junk-paths --recurse-paths "$OUT/${target}_seed_corpus.zip" "fuzz/corpus/$target"
    cp fuzz/kit/zookeeper.dict "$OUT/$target.dict"
done
