#!/usr/bin/env bash
# pgbench: fills its tables in both of its ways, runs its own scripts and ours in all three
# protocols. usage: check.sh URL
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
url="$1"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
echo "version $(pgbench --version | sed 's/[^0-9]*\([0-9.]*\).*/\1/')"

say() {
    psql -XAtq -v ON_ERROR_STOP=1 "$url" -c "$1"
}

# holds WANTED SQL: the query gives exactly that.
holds() {
    local found
    found="$(say "$2")"
    if [[ "$found" != "$1" ]]; then
        echo "$2 gives '$found' and not '$1'" >&2
        exit 1
    fi
}

# ran COUNT ARGUMENTS...: pgbench processes so many transactions, and none fails.
ran() {
    local count="$1"
    shift
    pgbench "$@" "$url" >"$scratch/out" 2>&1 || { tail -n 20 "$scratch/out" >&2; exit 1; }
    if ! grep -q "actually processed: $count/$count" "$scratch/out"; then
        cat "$scratch/out" >&2
        exit 1
    fi
}

for steps in dtgvp dtGvp; do
    pgbench -i -I "$steps" -s 1 "$url" >"$scratch/out" 2>&1 || { tail -n 20 "$scratch/out" >&2; exit 1; }
    holds 'aid,bid,tid' "SELECT string_agg(column_name, ',' ORDER BY column_name)
        FROM information_schema.key_column_usage WHERE table_name LIKE 'pgbench%'"
    holds '100000|0|1|10' "SELECT count(*), sum(abalance), (SELECT count(*) FROM pgbench_branches),
        (SELECT count(*) FROM pgbench_tellers) FROM pgbench_accounts"
done
for protocol in simple extended prepared; do
    ran 400 -S -M "$protocol" -c 4 -j 2 -t 100
    ran 200 -n -f "$here/insert.sql" -f "$here/report.sql" -M "$protocol" -c 4 -j 2 -t 50
done

# Its own script adds to what it read, which is allowed where lost updates are accepted.
say "TRUNCATE pgbench_history"
export PGOPTIONS="-c lazybase.read_modify_write=on"
for protocol in simple extended prepared; do
    ran 30 -n -M "$protocol" -c 1 -t 30
done
ran 30 -n -N -c 1 -t 30
holds '120' "SELECT count(*) FROM pgbench_history"
holds 't' "SELECT (SELECT sum(delta) FROM pgbench_history) = (SELECT sum(abalance) FROM pgbench_accounts)"
