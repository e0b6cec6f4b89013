#!/usr/bin/env bash
# psql over TLS, by a role's password and by a role's certificate: who serves is checked, and who
# asks. usage: over_tls.sh URL FOLDER, as python/over_tls.py has them.
set -euo pipefail
url="$1"
folder="$2"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
echo "version $(psql --version | sed 's/[^0-9]*\([0-9.]*\).*/\1/')"
checked="sslmode=verify-full&sslrootcert=$folder/ca.crt"
who="SELECT current_user, CASE WHEN ssl THEN 'on' ELSE 'off' END FROM pg_stat_ssl WHERE pid = pg_backend_pid()"

ask() {
    psql -X -w -At -v ON_ERROR_STOP=1 "$@"
}

# gives WANTED ARGUMENTS...: what psql writes is exactly that.
gives() {
    local wanted="$1" found
    shift
    found="$(ask "$@")"
    if [[ "$found" != "$wanted" ]]; then
        echo "psql gives '$found' and not '$wanted'" >&2
        exit 1
    fi
}

# refused WORDS ARGUMENTS...: psql gets nothing, and says why with these words.
refused() {
    local words="$1"
    shift
    if ask "$@" -c "SELECT 1" >"$scratch/out" 2>&1; then
        echo "psql was let in where it should have heard of '$words'" >&2
        exit 1
    fi
    grep -qiF -- "$words" "$scratch/out" || { cat "$scratch/out" >&2; exit 1; }
}

gives 'anna|on' "$url?$checked" -c "$who"
gives 'anna|on' "$url?$checked&channel_binding=require" -c "$who"
refused 'password authentication failed' "${url%%://*}://anna:wrong@${url#*@}?$checked"
refused 'certificate' "$url?sslmode=verify-full&sslrootcert=$folder/other/ca.crt"
refused '127.0.0.1' "${url/localhost/127.0.0.1}?$checked"
refused 'permission denied' "$url?$checked" -c "SELECT * FROM payroll"

seq 1 20000 | sed 's/.*/&,line &/' >"$scratch/rows.csv"
ask "$url?$checked" -q -c "CREATE TABLE tls_psql (k INT PRIMARY KEY, t TEXT)" \
    -c "\\copy tls_psql FROM '$scratch/rows.csv' (FORMAT csv)" \
    -c "\\copy (SELECT k, t FROM tls_psql ORDER BY k) TO '$scratch/back.csv' (FORMAT csv)" \
    -c "DROP TABLE tls_psql"
diff -q "$scratch/rows.csv" "$scratch/back.csv"

# The role clara has no password: its certificate shows who it is, and no other role's does.
shows="$checked&sslcert=$folder/clara.crt&sslkey=$folder/clara.key"
clara="postgresql://clara@${url#*@}"
gives 'clara|on' "$clara?$shows" -c "$who"
refused 'password' "$clara?$checked"
refused 'certificate' "$url?$shows"
