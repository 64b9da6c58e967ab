#!/bin/sh
# Installs the ZooKeeper that the tests in tests/suites/real start, on Debian and its kin.
# Running it again changes nothing.
set -eu

jar=/usr/share/java/zookeeper.jar

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

if [ ! -e "$jar" ] || ! command -v java >/dev/null; then
    if ! command -v apt-get >/dev/null; then
        echo "There is no apt-get here: install ZooKeeper and Java by hand." >&2
        exit 1
    fi
    as_root apt-get update
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends zookeeper
fi

dpkg-query --show --showformat '${Package} ${Version}\n' zookeeper libzookeeper-java
java -version 2>&1 | head -n 1
echo "$jar"
