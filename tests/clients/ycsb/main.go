// go-ycsb: its core workloads by its own binding for PostgreSQL, as they are. Of its command only that is
// left out which registers two dozen other databases. An operation that fails, and a read or a scan that
// finds nothing, are only counted there: here they are failures.
package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/magiconair/properties"
	_ "github.com/pingcap/go-ycsb/db/pg"
	"github.com/pingcap/go-ycsb/pkg/client"
	"github.com/pingcap/go-ycsb/pkg/measurement"
	_ "github.com/pingcap/go-ycsb/pkg/workload"
	"github.com/pingcap/go-ycsb/pkg/ycsb"
)

const (
	records    = 1000
	operations = 500
	threads    = 4
)

// The shares of each workload's operations, as its file has them; that of the scans asks for more rows.
var workloads = []struct{ name, shares string }{
	{"a", "readproportion=0.5 updateproportion=0.5 requestdistribution=uniform"},
	{"b", "readproportion=0.95 updateproportion=0.05 requestdistribution=uniform"},
	{"c", "readproportion=1 updateproportion=0 requestdistribution=uniform"},
	{"d", "readproportion=0.95 updateproportion=0 insertproportion=0.05 requestdistribution=latest"},
	{"e", "readproportion=0 updateproportion=0 scanproportion=0.95 insertproportion=0.05 " +
		"requestdistribution=uniform maxscanlength=50"},
	{"f", "readproportion=0.5 updateproportion=0 readmodifywriteproportion=0.5 requestdistribution=uniform"},
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// watched passes operations on, and keeps what went wrong first.
type watched struct {
	ycsb.DB
	lock  sync.Mutex
	done  int
	wrong error
}

func (w *watched) note(what, key string, err error, empty bool) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.done++
	if err == nil && empty {
		err = fmt.Errorf("it finds nothing")
	}
	if err != nil && w.wrong == nil {
		w.wrong = fmt.Errorf("%s of %s: %w", what, key, err)
	}
}

func (w *watched) Read(ctx context.Context, table, key string, fields []string) (map[string][]byte, error) {
	row, err := w.DB.Read(ctx, table, key, fields)
	w.note("a read", key, err, len(row) == 0)
	return row, err
}

func (w *watched) Scan(ctx context.Context, table, key string, count int, fields []string) ([]map[string][]byte, error) {
	rows, err := w.DB.Scan(ctx, table, key, count, fields)
	w.note("a scan", key, err, len(rows) == 0)
	return rows, err
}

func (w *watched) Update(ctx context.Context, table, key string, values map[string][]byte) error {
	err := w.DB.Update(ctx, table, key, values)
	w.note("an update", key, err, false)
	return err
}

func (w *watched) Insert(ctx context.Context, table, key string, values map[string][]byte) error {
	err := w.DB.Insert(ctx, table, key, values)
	w.note("an insert", key, err, false)
	return err
}

// given is what the command is given as options.
func given(server *url.URL, more map[string]string) *properties.Properties {
	password, _ := server.User.Password()
	all := map[string]string{
		"pg.host": server.Hostname(), "pg.port": server.Port(), "pg.db": server.Path[1:],
		"pg.user": server.User.Username(), "pg.password": password,
		"recordcount": fmt.Sprint(records), "operationcount": fmt.Sprint(operations),
		"threadcount": fmt.Sprint(threads),
		// What is read is what is written for its key and field.
		"dataintegrity": "true",
	}
	for name, value := range more {
		all[name] = value
	}
	return properties.LoadMap(all)
}

func connect(options *properties.Properties) ycsb.DB {
	measurement.InitMeasure(options)
	db, err := ycsb.GetDBCreator("postgresql").Create(options)
	must(err)
	return db
}

// run loads, or runs a workload; at least so many operations are done.
func run(name string, options *properties.Properties, least int) {
	db := &watched{DB: connect(options)}
	workload, err := ycsb.GetWorkloadCreator("core").Create(options)
	must(err)
	client.NewClient(options, workload, client.DbWrapper{DB: db}).Run(context.Background())
	must(workload.Close())
	must(db.Close())
	if db.wrong == nil && db.done < least {
		db.wrong = fmt.Errorf("%d operations were done of %d", db.done, least)
	}
	if db.wrong != nil {
		panic(fmt.Sprintf("%s: %v", name, db.wrong))
	}
	fmt.Println(name, "ok")
}

// single does each operation once, for no workload deletes.
func single(options *properties.Properties) {
	const table, key = "usertable", "single"
	db := connect(options)
	ctx := db.InitThread(context.Background(), 0, 1)
	values := map[string][]byte{}
	for at := range 10 {
		values[fmt.Sprintf("field%d", at)] = []byte(fmt.Sprintf("it's ünï %d", at))
	}
	reads := func(wanted string) {
		row, err := db.Read(ctx, table, key, []string{"field3"})
		must(err)
		if found := string(row["field3"]); found != wanted {
			panic(fmt.Sprintf("%q was read, and not %q", found, wanted))
		}
	}
	reads("")
	must(db.Insert(ctx, table, key, values))
	reads("it's ünï 3")
	must(db.Update(ctx, table, key, map[string][]byte{"field3": []byte("other"), "field4": nil}))
	reads("other")
	must(db.Delete(ctx, table, key))
	reads("")
	db.CleanupThread(ctx)
	must(db.Close())
}

func version() {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/pingcap/go-ycsb" {
			fmt.Println("version", module.Version[1:])
		}
	}
}

func main() {
	version()
	server, err := url.Parse(os.Args[1])
	must(err)
	loading := map[string]string{"dotransactions": "false", "dropdata": "true"}
	run("load", given(server, loading), records)
	for _, workload := range workloads {
		shares := properties.MustLoadString(strings.ReplaceAll(workload.shares, " ", "\n"))
		run(workload.name, given(server, shares.Map()), operations)
	}
	single(given(server, nil))
}
