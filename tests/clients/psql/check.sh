#!/usr/bin/env bash
# psql: statements, its commands about tables, scripts with conditions and variables, COPY with
# files, producers and tokens. usage: check.sh URL
set -euo pipefail
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
echo "version $(psql --version | sed 's/[^0-9]*\([0-9.]*\).*/\1/')"

# told TEXT...: what psql wrote must have all of these.
told() {
    for wanted in "$@"; do
        if ! grep -qF -- "$wanted" "$scratch/out"; then
            cat "$scratch/out" >&2
            echo "psql did not say '$wanted'" >&2
            exit 1
        fi
    done
}

ask() {
    psql -X -v ON_ERROR_STOP=1 "$@" >"$scratch/out" 2>&1 || { cat "$scratch/out" >&2; exit 1; }
}

url="$1"
printf '1\tone\n2\t\\N\n' >"$scratch/rows"
ask "$url" -c "CREATE TABLE ps (k INT PRIMARY KEY, t VARCHAR(20) DEFAULT 'x', n DECIMAL(8, 2), l INT[])" \
    -c "COMMENT ON TABLE ps IS 'told by psql'" -c "\\copy ps (k, t) FROM '$scratch/rows'" \
    -c "SELECT k, t FROM ps ORDER BY k" \
    -c "\\copy (SELECT k, t FROM ps ORDER BY k) TO '$scratch/written' CSV HEADER"
told 'CREATE TABLE' 'COMMENT' 'COPY 2' '1 | one' '(2 rows)'
diff "$scratch/written" <(printf 'k,t\n1,one\n2,\n')

ask "$url" -c '\d' -c '\dt+' -c '\d ps' -c '\d+ ps' -c '\di' -c '\l' -c '\dn' -c '\du' -c '\dT' \
    -c '\df' -c '\dv' -c '\dm' -c '\ds' -c '\dp' -c '\db' -c '\dx' -c '\dd' -c '\ddp' -c '\conninfo'
told 'told by psql' 'ps_pkey' 'character varying(20)' 'numeric(8,2)' 'integer[]' 'lazybase' \
    'public' 'PRIMARY KEY' 'You are connected to database'

# The rest of its family: nearly all of these lists are empty here, and none is an error.
family=('\dD' '\dC' '\do' '\dO' '\dL' '\dA' '\dAc' '\dAf' '\dAo' '\dAp' '\dF' '\dFd' '\dFp' '\dFt'
    '\dy' '\dRp' '\dRs' '\drds' '\des' '\det' '\dew' '\deu' '\dX' '\dP' '\dl' '\dE' '\z' '\dS'
    '\sv ps_seen')
# \dconfig came with psql 15.
if psql --version | grep -qE ' (1[5-9]|[2-9][0-9])'; then
    family+=('\dconfig')
fi
commands=()
for command in "${family[@]}"; do
    commands+=(-c "$command")
done
ask "$url" -c 'CREATE VIEW ps_seen AS SELECT k FROM ps' "${commands[@]}" -c 'DROP VIEW ps_seen'
told 'List of domains' 'List of casts' 'List of operators' 'List of collations' 'List of languages' \
    'List of access methods' 'List of publications' 'List of foreign servers' \
    'List of partitioned relations' 'CREATE OR REPLACE VIEW public.ps_seen' 'pg_class'

ask "$url" -c '\d lazybase.lag' -c '\d+ pg_class' -c '\dv lazybase.*' -c '\dv pg_catalog.pg_a*'
told 'View "lazybase.lag"' 'View "pg_catalog.pg_class"' 'table_lag' 'pg_attribute'

cat >"$scratch/script.sql" <<'SQL'
\set limit 2
SELECT count(*) AS rows FROM ps \gset
SELECT :rows > 1 AS many \gset
\if :many
    INSERT INTO ps (k, t) VALUES (:limit + 1, :'rows');
\endif
SELECT t AS found FROM ps WHERE k > :limit \gx
SELECT 'DELETE FROM ps WHERE k = ' || k FROM ps WHERE k > 2 \gexec
SELECT k, t FROM ps WHERE k = $1 \bind 1 \g
SELECT k, n FROM ps \gdesc
BEGIN;
DELETE FROM ps;
ROLLBACK;
SELECT count(*) || ' are left' FROM ps;
\errverbose
SQL
# \bind came with psql 16.
if ! psql --version | grep -qE ' (1[6-9]|[2-9][0-9])'; then
    sed -i '/\\bind/d' "$scratch/script.sql"
fi
ask "$url" -f "$scratch/script.sql"
told 'found | 2' 'DELETE 1' 'numeric(8,2)' '2 are left'

ask "$url" -c 'DROP TABLE IF EXISTS nothing' -c COMMIT -c 'SET lazybase.notices = on' \
    -c 'SELECT count(*) FROM ps'
told 'NOTICE:  there is no table "nothing": skipped' 'WARNING:  there is no transaction' 'INFO:  horizon' \
    ' (asked 0), as of 2'
ask "$url" -c 'SET client_min_messages = warning' -c 'DROP TABLE IF EXISTS nothing' -c COMMIT
told 'WARNING:  there is no transaction'
if grep -q NOTICE "$scratch/out"; then
    echo "psql was told what it did not want to hear" >&2
    exit 1
fi

if psql -X -v ON_ERROR_STOP=1 "$url" -c 'SELECT nothing FROM ps' >"$scratch/out" 2>&1; then
    echo "psql read a column that is not there" >&2
    exit 1
fi
told 'LINE 1: SELECT nothing FROM ps' '^'
ask "$url" --csv -c "SELECT k, t FROM ps WHERE k = 1" -c "COPY (SELECT 1 AS one) TO STDOUT"
told 'k,t' '1,one'

# A table and its view, out with pg_dump and in again with psql: in this order, with all that they had.
if pg_dump --version | grep -qE ' (1[5-9]|[2-9][0-9])[.b]'; then
    ask "$url" -c "CREATE MATERIALIZED VIEW ps_by_t AS SELECT t, k FROM ps ORDER BY t, k" \
        -c "CREATE VIEW ps_few (number, word) AS SELECT k, t FROM ps_by_t WHERE k < 3" \
        -c "COMMENT ON VIEW ps_few IS 'the first'" -c '\dv' -c '\d+ ps_few'
    told 'ps_few' 'View "public.ps_few"' 'View definition:' 'ps_by_t WHERE k < 3'
    all_of_it=(
        '\d+ ps' "SELECT obj_description('ps'::regclass)" 'SELECT * FROM ps ORDER BY k'
        'SELECT * FROM ps_by_t ORDER BY t, k' 'SELECT * FROM ps_few ORDER BY number'
        "SELECT obj_description('ps_few'::regclass)"
    )
    for shown in "${all_of_it[@]}"; do
        psql -X -q --csv "$url" -c "$shown"
    done >"$scratch/before"
    pg_dump -d "$url" >"$scratch/dump.sql"
    pg_dump -d "$url" --format=custom --file="$scratch/dump"
    pg_restore --list "$scratch/dump" >"$scratch/out"
    told 'TABLE public ps' 'MATERIALIZED VIEW public ps_by_t' 'CONSTRAINT public ps ps_pkey' \
        'VIEW public ps_few'
    ask "$url" -c "DROP TABLE ps CASCADE"
    ask "$url" -f "$scratch/dump.sql"
    for shown in "${all_of_it[@]}"; do
        psql -X -q --csv "$url" -c "$shown"
    done >"$scratch/after"
    diff "$scratch/before" "$scratch/after"
    grep -q 'told by psql' "$scratch/after"
    pg_dump -d "$url" --inserts --data-only --table=ps >"$scratch/out"
    told "INSERT INTO public.ps VALUES (1, 'one', NULL, NULL);"
fi

# once URL NUMBER FILE: writes a file as the batch of that number; may be run again after an error.
once() {
    PGOPTIONS='-c lazybase.producer=till-4' psql -X -q -At -v ON_ERROR_STOP=1 "$1" \
        -c "SET lazybase.batch_number = $2" \
        -c "\\copy sales FROM '$3' (FORMAT csv)" \
        -c "SHOW lazybase.last_token"
}

# total URL TOKEN: a cheap answer that holds that write.
total() {
    PGOPTIONS='-c lazybase.freshness=best\ effort' psql -X -q -At "$1" \
        -c "SELECT sum(cents) FROM sales AFTER '$2'"
}

# newest URL: what all sales come to; where that is dear to tell, what those that are sorted come to.
newest() {
    local asked="SELECT sum(cents) FROM sales" told
    if told="$(PGOPTIONS='-c lazybase.on_miss=error' psql -X -q -At -v VERBOSITY=sqlstate \
        "$1" -c "$asked" 2>&1)"; then
        echo "$told"
    elif [[ "$told" == *53L01* ]]; then
        psql -X -q -At "$1" -c "$asked FRESHNESS 0 ON MISS STALE"
    else
        echo "$told" >&2
        return 1
    fi
}

ask "$url" -c "CREATE TABLE sales (id BIGINT PRIMARY KEY, cents INT)"
printf '1,250\n2,100\n' >"$scratch/sales.csv"
first="$(once "$url" 1 "$scratch/sales.csv")"
ask "$url" -c "DELETE FROM sales WHERE id = 2"
[[ "$(once "$url" 1 "$scratch/sales.csv")" == "$first" ]]
ask "$url" -c "SELECT 'sum ' || sum(cents) FROM sales"
told 'sum 250'
printf '3,50\n' >"$scratch/more.csv"
[[ "$(total "$url" "$(once "$url" 2 "$scratch/more.csv")")" == 300 ]]
ask "$url" -c SETTLE -c 'PAUSE STAGE SORT' -c 'INSERT INTO sales VALUES (4, 1)'
[[ "$(newest "$url")" == 300 ]]
ask "$url" -c 'RESUME STAGE SORT' -c SETTLE
[[ "$(newest "$url")" == 301 ]]
ask "$url" -c "DROP TABLE sales"
