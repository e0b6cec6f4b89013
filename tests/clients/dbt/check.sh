#!/usr/bin/env bash
# dbt: seeds, tables from queries, tables that grow, tests, and the catalogue for its documents;
# a view is refused with the reason. usage: check.sh DBT URL
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
dbt="$1"
url="$2"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
cp -r "$here/project/." "$scratch/"
address="${url#*://}"
host="${address#*@}"
host="${host%%/*}"
cat >"$scratch/profiles.yml" <<YML
shop:
  target: lazybase
  outputs:
    lazybase:
      type: postgres
      host: ${host%%:*}
      port: ${host##*:}
      user: ${address%%@*}
      password: any
      dbname: ${address##*/}
      schema: public
      threads: 2
YML
export DBT_SEND_ANONYMOUS_USAGE_STATS=false DO_NOT_TRACK=1
echo "version $("$(dirname "$dbt")/python" -c \
    'import importlib.metadata as m; print(m.version("dbt-postgres"))')"

work() {
    "$dbt" --no-version-check "$@" --project-dir "$scratch" --profiles-dir "$scratch" --no-use-colors
}

holds() {
    local found
    found="$(psql -XAtq -v ON_ERROR_STOP=1 "$url" -c "$2")"
    if [[ "$found" != "$1" ]]; then
        echo "$2 gives '$found' and not '$1'" >&2
        exit 1
    fi
}

work debug --connection
work seed
holds '4|60' "SELECT count(*), sum(amount) FROM dbt_orders"
work run --exclude refused
holds 'ann|40' "SELECT customer, total FROM dbt_totals ORDER BY total DESC LIMIT 1"
holds '4|60' "SELECT count(*), sum(amount) FROM dbt_growing"

# More orders come: tables are made anew, and the one that grows takes what is new.
printf '5,bea,100,2024-01-05\n' >>"$scratch/seeds/dbt_orders.csv"
work seed
work run --exclude refused
holds 'bea|110' "SELECT customer, total FROM dbt_totals ORDER BY total DESC LIMIT 1"
holds '5|160' "SELECT count(*), sum(amount) FROM dbt_growing"
work seed --full-refresh
work run --exclude refused --full-refresh
holds '5|160' "SELECT count(*), sum(amount) FROM dbt_growing"
holds '' "SELECT table_name FROM information_schema.tables WHERE table_name LIKE '%dbt\\_tmp%' OR table_name LIKE '%dbt\\_backup%'"

work test
sed -i 's/100,2024/-1,2024/' "$scratch/seeds/dbt_orders.csv"
work seed --full-refresh
if work test --select no_negative_amounts; then
    echo "a test that should fail passed" >&2
    exit 1
fi

work docs generate >"$scratch/docs.log" 2>&1 || { cat "$scratch/docs.log" >&2; exit 1; }
grep -q '"dbt_totals"' "$scratch/target/catalog.json"
grep -q '"customer"' "$scratch/target/catalog.json"

if work run --select refused >"$scratch/refused.log" 2>&1; then
    echo "a view was made" >&2
    exit 1
fi
grep -q 'MATERIALIZED' "$scratch/refused.log"
