"""Runs ClickHouse, which keeps the state of its replicated tables in ZooKeeper: replicate.py ADDRESS [SETTING ..]

The settings are those of its client of ZooKeeper, such as `use_compression`. Prints the result of each query on a line.
"""

import sys
import tempfile
from pathlib import Path

from chdb.session import Session

# Without a server for other replicas, a replicated table is only read. A table of `KeeperMap` has its rows in nodes.
QUERIES = [
    "SELECT count(DISTINCT generateSerialID('ids')) FROM numbers(3)",
    "CREATE DATABASE d ENGINE = Atomic",
    "CREATE TABLE d.r1 (k UInt64) ENGINE = ReplicatedMergeTree('/tables/r', 'r1') ORDER BY k",
    "CREATE TABLE d.r2 (k UInt64) ENGINE = ReplicatedMergeTree('/tables/r', 'r2') ORDER BY k",
    "SELECT count() FROM d.r1",
    "CREATE TABLE d.m (k UInt64, v String) ENGINE = KeeperMap('/map') PRIMARY KEY k",
    "INSERT INTO d.m SELECT number, toString(number) FROM numbers(10)",
    "INSERT INTO d.m VALUES (3, 'again')",
    "SELECT count(), max(v) FROM d.m",
    "SELECT v FROM d.m WHERE k IN (3, 4, 77) ORDER BY k",
    "ALTER TABLE d.m UPDATE v = 'changed' WHERE k > 7",
    "DELETE FROM d.m WHERE k < 3",
    "SELECT count(), countIf(v = 'changed') FROM d.m",
    "TRUNCATE TABLE d.m",
    "SELECT count() FROM d.m",
    "DROP TABLE d.m SYNC",
    "DROP TABLE d.r2 SYNC",
    "DROP TABLE d.r1 SYNC",
]


def main():
    address, *settings = sys.argv[1:]
    host, port = address.rsplit(":", 1)
    settings = "".join(f"<{setting}>true</{setting}>" for setting in settings)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "config.xml")
        config.write_text(
            f"<clickhouse><zookeeper><node><host>{host}</host><port>{port}</port></node>"
            f"<session_timeout_ms>30000</session_timeout_ms>{settings}</zookeeper>"
            "<keeper_map_path_prefix>/maps</keeper_map_path_prefix></clickhouse>"
        )
        session = Session(f"{folder}/data?config-file={config}")
        for query in QUERIES:
            try:
                print(" ".join(str(session.query(query, "TSV")).split()) or "done", flush=True)
            except Exception as error:
                print("error", " ".join(str(error).split()), flush=True)
                break
        session.close()


main()
