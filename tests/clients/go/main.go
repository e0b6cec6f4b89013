// pgx: values in binary, prepared statements, batches, COPY, nested transactions, the pool, the
// ways in which it can send queries, its database/sql driver, producers and tokens.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
)

var ctx = context.Background()

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		panic(fmt.Sprintf("%#v is not %#v", found, wanted))
	}
}

func state(err error) string {
	var told *pgconn.PgError
	if errors.As(err, &told) {
		return told.Code
	}
	return fmt.Sprint(err)
}

func one[T any](db interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, query string, arguments ...any) T {
	var found T
	must(db.QueryRow(ctx, query, arguments...).Scan(&found))
	return found
}

func values(db *pgx.Conn, table string) {
	_, err := db.Exec(ctx, `CREATE TABLE `+table+` (k INT PRIMARY KEY, b BOOLEAN, t TEXT,
		n DECIMAL(10, 2), d DOUBLE PRECISION, y BYTEA, u UUID, dt DATE, ts TIMESTAMP,
		tz TIMESTAMPTZ, l BIGINT, s SMALLINT, r REAL, li INT[], lt TEXT[])`)
	must(err)
	moment := time.Date(2020, 2, 29, 12, 30, 15, 250000000, time.UTC)
	day := time.Date(2020, 2, 29, 0, 0, 0, 0, time.UTC)
	id := pgtype.UUID{Bytes: [16]byte{10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25}, Valid: true}
	number := pgtype.Numeric{}
	must(number.Scan("12.50"))
	text := "it's \\ ünï"
	list := []*int32{new(int32), nil}
	words := []string{"a", `b"c`, ""}
	tag, err := db.Exec(ctx, `INSERT INTO `+table+` VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,
		$12, $13, $14, $15)`, 1, true, text, number, 2.5, []byte{0, 255}, id, day, moment, moment,
		int64(1)<<60, int16(-7), float32(0.5), list, words)
	must(err)
	expect(tag.RowsAffected(), int64(1))
	var (
		b      bool
		t      string
		n      string
		d      float64
		y      []byte
		u      pgtype.UUID
		dt, ts time.Time
		tz     time.Time
		l      int64
		s      int16
		r      float32
		li     []*int32
		lt     []string
	)
	row := db.QueryRow(ctx, `SELECT b, t, n::text, d, y, u, dt, ts, tz, l, s, r, li, lt FROM `+table+` WHERE k = $1`, 1)
	must(row.Scan(&b, &t, &n, &d, &y, &u, &dt, &ts, &tz, &l, &s, &r, &li, &lt))
	expect([]any{b, t, n, d, y, u, dt, ts, tz.UTC(), l, s, r, li, lt},
		[]any{true, text, "12.50", 2.5, []byte{0, 255}, id, day, moment, moment, int64(1) << 60,
			int16(-7), float32(0.5), list, words})
	found := one[pgtype.Numeric](db, `SELECT n FROM `+table+` WHERE k = 1`)
	told, err := found.Value()
	must(err)
	expect(told, "12.50")
	_, err = db.Exec(ctx, `INSERT INTO `+table+` (k) VALUES ($1)`, 2)
	must(err)
	expect(one[*string](db, `SELECT t FROM `+table+` WHERE k = 2`), (*string)(nil))
	rows, err := db.Query(ctx, `SELECT k, t FROM `+table+` WHERE k = ANY($1) ORDER BY k`, []int32{1, 2, 9})
	must(err)
	type pair struct {
		K int32
		T *string
	}
	pairs, err := pgx.CollectRows(rows, pgx.RowToStructByName[pair])
	must(err)
	expect(pairs, []pair{{1, &text}, {2, nil}})
}

func batches(db *pgx.Conn) {
	_, err := db.Exec(ctx, `CREATE TABLE g_many (k BIGINT PRIMARY KEY, t TEXT, n DECIMAL(8, 2), at TIMESTAMPTZ)`)
	must(err)
	batch := &pgx.Batch{}
	for k := range 300 {
		batch.Queue(`INSERT INTO g_many (k, t) VALUES ($1, $2)`, k, fmt.Sprint("v", k))
	}
	batch.Queue(`SELECT count(*) FROM g_many`).QueryRow(func(row pgx.Row) error {
		var count int64
		err := row.Scan(&count)
		expect(count, int64(300))
		return err
	})
	must(db.SendBatch(ctx, batch).Close())
	batch = &pgx.Batch{}
	batch.Queue(`INSERT INTO g_many (k) VALUES (1000)`)
	batch.Queue(`SELECT * FROM nothing`)
	expect(state(db.SendBatch(ctx, batch).Close()), "42P01")
	expect(one[int64](db, `SELECT count(*) FROM g_many`), int64(300))
	described, err := db.Prepare(ctx, "by_key", `SELECT t FROM g_many WHERE k = $1`)
	must(err)
	expect(described.ParamOIDs, []uint32{pgtype.Int8OID})
	for k := range 20 {
		expect(one[string](db, "by_key", k), fmt.Sprint("v", k))
	}
	moment := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	rows := make([][]any, 20000)
	for at := range rows {
		number := pgtype.Numeric{}
		must(number.Scan(fmt.Sprintf("%d.25", at%1000)))
		rows[at] = []any{int64(10000 + at), fmt.Sprint("c", at), number, moment.Add(time.Duration(at) * time.Second)}
	}
	copied, err := db.CopyFrom(ctx, pgx.Identifier{"g_many"}, []string{"k", "t", "n", "at"}, pgx.CopyFromRows(rows))
	must(err)
	expect(copied, int64(20000))
	expect(one[string](db, `SELECT sum(n)::text FROM g_many`), "9995000.00")
	expect(one[time.Time](db, `SELECT max(at) FROM g_many`).UTC(), moment.Add(19999*time.Second))
	var out bytes.Buffer
	_, err = db.PgConn().CopyTo(ctx, &out, `COPY (SELECT k, t FROM g_many WHERE k < 3 ORDER BY k) TO STDOUT`)
	must(err)
	expect(out.String(), "0\tv0\n1\tv1\n2\tv2\n")
}

func transactions(db *pgx.Conn) {
	must(pgx.BeginFunc(ctx, db, func(outer pgx.Tx) error {
		_, err := outer.Exec(ctx, `INSERT INTO g_many (k) VALUES (500)`)
		must(err)
		inner, err := outer.Begin(ctx)
		must(err)
		_, err = inner.Exec(ctx, `SELECT * FROM nothing`)
		expect(state(err), "42P01")
		must(inner.Rollback(ctx))
		_, err = outer.Exec(ctx, `INSERT INTO g_many (k) VALUES ($1)`, 501)
		return err
	}))
	expect(one[int64](db, `SELECT count(*) FROM g_many WHERE k BETWEEN 500 AND 501`), int64(2))
	late, stop := context.WithTimeout(ctx, 500*time.Millisecond)
	defer stop()
	_, err := db.Exec(late, `SELECT count(*) FROM generate_series(1, 1000000000000) AS s (x) WHERE x % 7 = 3`)
	if err == nil {
		panic("an endless query ended")
	}
}

func pool(url string) {
	connections, err := pgxpool.New(ctx, url)
	must(err)
	defer connections.Close()
	var wait sync.WaitGroup
	for at := range 40 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			_, err := connections.Exec(ctx, `INSERT INTO g_many (k, t) VALUES ($1, 'pooled')`, 100000+at)
			must(err)
		}()
	}
	wait.Wait()
	expect(one[int64](connections, `SELECT count(*) FROM g_many WHERE t = $1`, "pooled"), int64(40))
}

func standard(url string) {
	db, err := sql.Open("pgx", url)
	must(err)
	defer db.Close()
	work, err := db.Begin()
	must(err)
	_, err = work.Exec(`INSERT INTO g_many (k, t) VALUES ($1, $2)`, 200000, "gone")
	must(err)
	must(work.Rollback())
	var count int
	must(db.QueryRow(`SELECT count(*) FROM g_many WHERE k >= $1`, 200000).Scan(&count))
	expect(count, 0)
}

// readings copies rows of a sensor, a moment and a value, and reads the greatest of sensor 1.
func readings(ctx context.Context, url string, rows [][]any) (most float64, err error) {
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer db.Close(ctx)
	columns := []string{"sensor", "at", "value"}
	if _, err = db.CopyFrom(ctx, pgx.Identifier{"readings"}, columns, pgx.CopyFromRows(rows)); err != nil {
		return 0, err
	}
	err = db.QueryRow(ctx, "SELECT max(value) FROM readings WHERE sensor = $1", 1).Scan(&most)
	return most, err
}

func firstLines(db *pgx.Conn, url string) {
	_, err := db.Exec(ctx, `CREATE TABLE readings (sensor INT, at TIMESTAMP, value FLOAT, PRIMARY KEY (sensor, at))`)
	must(err)
	moment := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	found, err := readings(ctx, url, [][]any{{1, moment, 20.5}, {1, moment.Add(time.Second), 19.0}, {2, moment, 30.0}})
	must(err)
	expect(found, 20.5)
	_, err = db.Exec(ctx, `DROP TABLE readings`)
	must(err)
}

// once writes rows as the batch of that number; it may be called again after a lost connection.
func once(ctx context.Context, url string, number int, rows [][]any) (token string, err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return "", err
	}
	config.RuntimeParams["lazybase.producer"] = "till-2"
	db, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return "", err
	}
	defer db.Close(ctx)
	if _, err = db.Exec(ctx, fmt.Sprintf("SET lazybase.batch_number = %d", number)); err != nil {
		return "", err
	}
	columns := []string{"id", "cents"}
	if _, err = db.CopyFrom(ctx, pgx.Identifier{"sales"}, columns, pgx.CopyFromRows(rows)); err != nil {
		return "", err
	}
	err = db.QueryRow(ctx, "SHOW lazybase.last_token").Scan(&token)
	return token, err
}

// total is a cheap answer that holds that write.
func total(ctx context.Context, url, token string) (cents int64, err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return 0, err
	}
	config.RuntimeParams["lazybase.freshness"] = "best effort"
	config.RuntimeParams["lazybase.after"] = token
	db, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return 0, err
	}
	defer db.Close(ctx)
	err = db.QueryRow(ctx, "SELECT sum(cents) FROM sales").Scan(&cents)
	return cents, err
}

// newest is what all sales come to; where that is dear to tell, what those that are sorted come to.
func newest(ctx context.Context, url string) (cents int64, err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return 0, err
	}
	config.RuntimeParams["lazybase.on_miss"] = "error"
	db, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return 0, err
	}
	defer db.Close(ctx)
	const asked = "SELECT sum(cents) FROM sales"
	err = db.QueryRow(ctx, asked).Scan(&cents)
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && refusal.Code == "53L01" {
		err = db.QueryRow(ctx, asked+" FRESHNESS 0 ON MISS STALE").Scan(&cents)
	}
	return cents, err
}

func producers(url string) {
	db, err := pgx.Connect(ctx, url)
	must(err)
	defer db.Close(ctx)
	_, err = db.Exec(ctx, `CREATE TABLE sales (id BIGINT PRIMARY KEY, cents INT)`)
	must(err)
	batch := [][]any{{1, 250}, {2, 100}}
	first, err := once(ctx, url, 1, batch)
	must(err)
	_, err = db.Exec(ctx, `DELETE FROM sales WHERE id = 2`)
	must(err)
	again, err := once(ctx, url, 1, batch)
	must(err)
	expect(again, first)
	expect(one[int64](db, `SELECT sum(cents) FROM sales`), int64(250))
	token, err := once(ctx, url, 2, [][]any{{3, 50}})
	must(err)
	found, err := total(ctx, url, token)
	must(err)
	expect(found, int64(300))
	run := func(statements ...string) {
		for _, statement := range statements {
			_, err := db.Exec(ctx, statement)
			must(err)
		}
	}
	run(`SETTLE`, `PAUSE STAGE SORT`, `INSERT INTO sales VALUES (4, 1)`)
	found, err = newest(ctx, url)
	must(err)
	expect(found, int64(300))
	run(`RESUME STAGE SORT`, `SETTLE`)
	found, err = newest(ctx, url)
	must(err)
	expect(found, int64(301))
	run(`DROP TABLE sales`)
}

func main() {
	url := os.Args[1]
	if built, known := debug.ReadBuildInfo(); known {
		for _, module := range built.Deps {
			if strings.HasPrefix(module.Path, "github.com/jackc/pgx/") {
				fmt.Println("version", module.Version)
			}
		}
	}
	if len(os.Args) > 2 {
		overTLS(url, os.Args[2])
		return
	}
	db, err := pgx.Connect(ctx, url)
	must(err)
	values(db, "g_values")
	batches(db)
	firstLines(db, url)
	transactions(db)
	for name, mode := range map[string]pgx.QueryExecMode{
		"described": pgx.QueryExecModeDescribeExec,
		"cached":    pgx.QueryExecModeCacheDescribe,
		"once":      pgx.QueryExecModeExec,
		"simple":    pgx.QueryExecModeSimpleProtocol,
	} {
		config, err := pgx.ParseConfig(url)
		must(err)
		config.DefaultQueryExecMode = mode
		other, err := pgx.ConnectConfig(ctx, config)
		must(err)
		values(other, "g_"+name)
		must(other.Close(ctx))
	}
	pool(url)
	standard(url)
	producers(url)
}
