#!/bin/sh
# Installs the programs that tests/suites/real and tests/suites/firmware need, on Debian and its
# derivatives: ZooKeeper, Apache Curator, kazoo, Kerberos and QEMU. It is idempotent.
set -eu
cd "$(dirname "$0")/.."

jars=/usr/share/java
# A virtual environment. Tests use this path, or the one in ZK_PYTHON.
kazoo=target/kazoo

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

missing=
want() {
    missing="$missing $1"
}

[ -e "$jars/zookeeper.jar" ] && command -v java >/dev/null || want zookeeper
[ -e "$jars/curator-recipes.jar" ] || want libcurator-recipes-java
command -v openssl >/dev/null || want openssl
command -v javac >/dev/null || want default-jdk-headless
command -v krb5kdc >/dev/null || [ -x /usr/sbin/krb5kdc ] || want 'krb5-kdc krb5-admin-server krb5-user'
[ -e /usr/include/gssapi.h ] || want libkrb5-dev
ls /usr/lib/llvm-*/lib/libclang.so >/dev/null 2>&1 || want libclang-dev
command -v pkg-config >/dev/null || want pkg-config
command -v qemu-system-arm >/dev/null || want qemu-system-arm
python3 -c 'import ensurepip' 2>/dev/null || want python3-venv

if [ -n "$missing" ]; then
    if ! command -v apt-get >/dev/null; then
        echo "There is no apt-get here: install by hand:$missing" >&2
        exit 1
    fi
    as_root apt-get update
    # One word for each package.
    # shellcheck disable=SC2086
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
fi

if ! "$kazoo/bin/python" -c 'import kazoo' 2>/dev/null; then
    python3 -m venv "$kazoo"
    "$kazoo/bin/python" -m pip install --quiet 'kazoo==2.11.0'
fi

dpkg-query --show --showformat '${Package} ${Version}\n' zookeeper libzookeeper-java libcurator-recipes-java
java -version 2>&1 | head -n 1
"$kazoo/bin/python" -c 'import kazoo.version; print("kazoo", kazoo.version.__version__)'
echo "$jars/zookeeper.jar"
