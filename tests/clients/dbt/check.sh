#!/usr/bin/env bash
# dbt: seeds, tables from queries, tables that grow, views, tests, and the catalogue for its
# documents. usage: check.sh DBT URL
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
work run
holds 'ann|40' "SELECT customer, total FROM dbt_totals ORDER BY total DESC LIMIT 1"
holds '4|60' "SELECT count(*), sum(amount) FROM dbt_growing"
holds 'dbt_names' "SELECT viewname FROM pg_views WHERE viewname LIKE 'dbt%'"
holds 'ann|40' "SELECT customer, total FROM dbt_names ORDER BY total DESC LIMIT 1"

# Nothing has changed: a view takes the place of the one that went with its table, or of itself.
work run
work run --select dbt_names
holds 'ann|40' "SELECT customer, total FROM dbt_names ORDER BY total DESC LIMIT 1"

# More orders come: tables are made anew, and the one that grows takes what is new.
printf '5,bea,100,2024-01-05\n' >>"$scratch/seeds/dbt_orders.csv"
work seed
work run
holds 'bea|110' "SELECT customer, total FROM dbt_totals ORDER BY total DESC LIMIT 1"
holds '5|160' "SELECT count(*), sum(amount) FROM dbt_growing"
holds 'bea|110' "SELECT customer, total FROM dbt_names ORDER BY total DESC LIMIT 1"
work seed --full-refresh
work run --full-refresh
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
grep -q '"dbt_names"' "$scratch/target/catalog.json"
