// pgx over TLS, by a role's password: who serves is checked, and who asks.

package main

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// checked is a URL that trusts one authority, and asks whether it is the server of that name.
func checked(url, authority string) string {
	return url + "?sslmode=verify-full&sslrootcert=" + authority
}

// refused fails unless there is an error with this word.
func refused(word string, err error) {
	if err == nil || !strings.Contains(fmt.Sprint(err), word) {
		panic(fmt.Sprintf("%v does not say %q", err, word))
	}
}

// overTLS takes the URL and the folder that python/over_tls.py has.
func overTLS(url, folder string) {
	ours := folder + "/ca.crt"
	config, err := pgx.ParseConfig(checked(url, ours))
	must(err)
	config.Password = "wrong"
	_, err = pgx.ConnectConfig(ctx, config)
	expect(state(err), "28P01")
	_, err = pgx.Connect(ctx, checked(url, folder+"/other/ca.crt"))
	refused("certificate", err)
	_, err = pgx.Connect(ctx, checked(strings.Replace(url, "localhost", "127.0.0.1", 1), ours))
	refused("certificate", err)
	db, err := pgxpool.New(ctx, checked(url, ours))
	must(err)
	defer db.Close()
	var name string
	var encrypted bool
	who := `SELECT current_user, ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`
	must(db.QueryRow(ctx, who).Scan(&name, &encrypted))
	expect([]any{name, encrypted}, []any{"anna", true})
	_, err = db.Exec(ctx, `CREATE TABLE tls_go (k INT PRIMARY KEY, t TEXT)`)
	must(err)
	rows := make([][]any, 20000)
	for at := range rows {
		rows[at] = []any{int32(at), fmt.Sprint("line ", at)}
	}
	copied, err := db.CopyFrom(ctx, pgx.Identifier{"tls_go"}, []string{"k", "t"}, pgx.CopyFromRows(rows))
	must(err)
	expect(copied, int64(20000))
	expect(one[string](db, `SELECT t FROM tls_go WHERE k = $1`, 777), "line 777")
	_, err = db.Exec(ctx, `DROP TABLE tls_go`)
	must(err)
	_, err = db.Exec(ctx, `SELECT * FROM payroll`)
	expect(state(err), "42501")
}
