#!/bin/sh
# Plays the stories of docs/play in a headless Chromium, wide and narrow, and compares what the pictures consist of with
# structure.txt. With --write, renews that file. Free play too, if build.sh has built it.
set -eu
cd "$(dirname "$0")"
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$chromium" ]; then
    echo 'skipped: there is no Chromium here (on Debian: apt-get install chromium)'
    exit 0
fi
page=$(cd ../../docs/play && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
explain='cargo run --quiet --manifest-path ../../Cargo.toml -p zk-proto --features cli --bin zk-explain --'
recording=$($explain ../../crates/zk-proto/tests/golden/outage.zkrec --format play)
has_free=false
if [ -e "$page/free.js" ]; then has_free=true; fi
{
    sed "s|<meta charset=\"utf-8\">|&<base href=\"file://$page/\">|; /<\/html>/d" "$page/index.html"
    echo "<script>window.recording = $recording</script>"
    echo "<script>window.hasFree = $has_free</script><script src=\"file://$PWD/check.js\"></script></html>"
} > "$scratch/check.html"
for width in 1280 390; do
    # A window has a least width, a frame has none.
    cat > "$scratch/around.html" << END
<!doctype html><meta charset="utf-8">
<iframe src="check.html" style="width:${width}px;height:900px;border:0"></iframe><pre id="result"></pre>
<script>onmessage = (event) => { document.getElementById('result').textContent = event.data; };</script>
END
    # Virtual time passes as fast as the page can use it.
    timeout 120 "$chromium" --headless --no-sandbox --disable-gpu --user-data-dir="$scratch/profile" \
        --window-size=1400,1000 --virtual-time-budget=3000000 --dump-dom "file://$scratch/around.html" \
        > "$scratch/page" 2> "$scratch/log"
    sed -n '/<pre id="result">/,/<\/pre>/p' "$scratch/page" \
        | sed 's/.*<pre id="result">//; s/<\/pre>.*//; s/&gt;/>/g; s/&lt;/</g; s/&amp;/\&/g' > "$scratch/seen"
    if ! grep -q '^END$' "$scratch/seen" || grep -q '^FAILED' "$scratch/seen"; then
        cat "$scratch/seen"
        exit 1
    fi
    if ! grep -qx "$width pixels" "$scratch/seen"; then
        grep pixels "$scratch/seen"
        exit 1
    fi
    grep -v -e '^try' -e 'pixels$' -e '^END$' "$scratch/seen" > "$scratch/structure"
    if [ "${1:-}" = --write ]; then cp "$scratch/structure" structure.txt; fi
    diff structure.txt "$scratch/structure"
    echo "$width pixels: $(grep -c 'steps$' "$scratch/structure") stories play to their ends" \
        "($(grep -c '^try' "$scratch/seen" || true) free plays)"
done
