#!/bin/sh
# Writes the page docs/play: its stories, and the simulator for free play (docs/play/free.js, which is not committed).
# A copy goes to target/play, beside target/guide, where the book looks for it.
set -eu
cd "$(dirname "$0")"
cargo run --quiet
cargo build --quiet --release --lib --target wasm32-unknown-unknown
{
    printf "play.free('"
    gzip --best --no-name < ../../target/page/wasm32-unknown-unknown/release/zk_play.wasm | base64 --wrap=0
    printf "');\n"
} > ../../docs/play/free.js
rm -rf ../../target/play
cp -r ../../docs/play ../../target/play
