// Command go_lake writes and reads Iceberg tables with the Go implementation, through the SQLite
// catalog that lithify and pyiceberg share. Rows come and go as files of Arrow's IPC format, so that
// whoever asks knows every value.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	sqlcatalog "github.com/apache/iceberg-go/catalog/sql"
	"github.com/apache/iceberg-go/table"
	_ "modernc.org/sqlite"
)

const usage = `usage: go_lake COMMAND [OPTIONS]

  create     a table of -schema and -spec, of -property format-version
  append     the rows of each file, a snapshot each
  delete     the rows whose column id is one of the arguments, as write.delete.mode says
  equality   rows of a file of key values deleted by equality: -key
  scan       all rows to a file; of -snapshot; with row lineage: -lineage
  manifests  manifests and manifest lists of every version with every form of value, to a folder

Options come before other arguments:
`

type options struct {
	database, warehouse, name string
	root, schema, spec, key   string
	snapshot                  int64
	lineage                   bool
	properties                iceberg.Properties
}

func (o *options) parse(args []string) []string {
	o.properties = iceberg.Properties{}
	flags := flag.NewFlagSet("go_lake", flag.ExitOnError)
	flags.Usage = func() {
		fmt.Fprint(os.Stderr, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.database, "database", "", "file of the SQLite catalog")
	flags.StringVar(&o.warehouse, "warehouse", "", "URI below which tables are created")
	flags.StringVar(&o.name, "table", "", "NAMESPACE.NAME")
	flags.StringVar(&o.root, "root", "", "directory that stands for file:/// in locations")
	flags.StringVar(&o.schema, "schema", "", "schema as JSON")
	flags.StringVar(&o.spec, "spec", "", "partition spec as JSON; empty: not partitioned")
	flags.StringVar(&o.key, "key", "", "columns that make rows equal, with commas between")
	flags.Int64Var(&o.snapshot, "snapshot", 0, "snapshot to scan; 0: the current one")
	flags.BoolVar(&o.lineage, "lineage", false, "with the columns of row lineage")
	flags.Func("property", "KEY=VALUE of a created table; may be repeated", func(text string) error {
		key, value, found := strings.Cut(text, "=")
		if !found {
			return errors.New("no = in it")
		}
		o.properties[key] = value
		return nil
	})
	_ = flags.Parse(args) // It exits on its own.
	return flags.Args()
}

// One table of the catalog, with what was asked for.
type lake struct {
	options
	catalog *sqlcatalog.Catalog
}

func openLake(o options) (*lake, error) {
	if o.root != "" {
		useRoot(o.root)
	}
	database, err := sql.Open("sqlite", "file:"+o.database+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	found, err := sqlcatalog.NewCatalog("lake", database, sqlcatalog.SQLite,
		iceberg.Properties{"warehouse": o.warehouse})
	return &lake{options: o, catalog: found}, err
}

func (l *lake) identifier() table.Identifier { return strings.Split(l.name, ".") }

func (l *lake) load(ctx context.Context) (*table.Table, error) {
	return l.catalog.LoadTable(ctx, l.identifier())
}

func (l *lake) create(ctx context.Context) error {
	schema := iceberg.NewSchema(0)
	if err := json.Unmarshal([]byte(l.schema), schema); err != nil {
		return err
	}
	made := []catalog.CreateTableOpt{catalog.WithProperties(l.properties)}
	if l.spec != "" {
		spec := iceberg.PartitionSpec{}
		if err := json.Unmarshal([]byte(l.spec), &spec); err != nil {
			return err
		}
		made = append(made, catalog.WithPartitionSpec(&spec))
	}
	namespace := l.identifier()[:len(l.identifier())-1]
	exists, err := l.catalog.CheckNamespaceExists(ctx, namespace)
	if err != nil {
		return err
	}
	if !exists {
		if err := l.catalog.CreateNamespace(ctx, namespace, nil); err != nil {
			return err
		}
	}
	_, err = l.catalog.CreateTable(ctx, l.identifier(), schema, made...)
	return err
}

// A snapshot of its own for what `change` does to the table.
func (l *lake) commit(ctx context.Context, change func(*table.Transaction) error) error {
	found, err := l.load(ctx)
	if err != nil {
		return err
	}
	transaction := found.NewTransaction()
	if err := change(transaction); err != nil {
		return err
	}
	_, err = transaction.Commit(ctx)
	return err
}

func (l *lake) append(ctx context.Context, paths []string) error {
	for _, path := range paths {
		rows, err := readRows(path)
		if err != nil {
			return err
		}
		err = l.commit(ctx, func(transaction *table.Transaction) error {
			return transaction.AppendTable(ctx, rows, rows.NumRows(), nil)
		})
		rows.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *lake) delete(ctx context.Context, args []string) error {
	ids := make([]int64, len(args))
	for i, arg := range args {
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil {
			return err
		}
		ids[i] = id
	}
	return l.commit(ctx, func(transaction *table.Transaction) error {
		return transaction.Delete(ctx, iceberg.IsIn(iceberg.Reference("id"), ids...), nil)
	})
}

func (l *lake) equality(ctx context.Context, paths []string) error {
	found, err := l.load(ctx)
	if err != nil {
		return err
	}
	var ids []int
	for _, name := range strings.Split(l.key, ",") {
		field, known := found.Schema().FindFieldByName(name)
		if !known {
			return fmt.Errorf("no column %q", name)
		}
		ids = append(ids, field.ID)
	}
	rows, err := readRows(paths[0])
	if err != nil {
		return err
	}
	defer rows.Release()
	return l.commit(ctx, func(transaction *table.Transaction) error {
		return transaction.CommitEqualityDeletes(ctx, ids, batchesOf(rows), nil)
	})
}

func (l *lake) scan(ctx context.Context, paths []string) error {
	found, err := l.load(ctx)
	if err != nil {
		return err
	}
	var asked []table.ScanOption
	if l.snapshot != 0 {
		asked = append(asked, table.WithSnapshotID(l.snapshot))
	}
	if l.lineage {
		asked = append(asked, table.WithRowLineage())
	}
	schema, batches, err := found.Scan(asked...).ToArrowRecords(ctx)
	if err != nil {
		return err
	}
	return writeRows(paths[0], schema, batches)
}

func (l *lake) run(command string, args []string) error {
	ctx := context.Background()
	commands := map[string]func() error{
		"create":   func() error { return l.create(ctx) },
		"append":   func() error { return l.append(ctx, args) },
		"delete":   func() error { return l.delete(ctx, args) },
		"equality": func() error { return l.equality(ctx, args) },
		"scan":     func() error { return l.scan(ctx, args) },
	}
	asked, known := commands[command]
	if !known {
		return fmt.Errorf("no command %q", command)
	}
	return asked()
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	asked := options{}
	rest := asked.parse(args[1:])
	if args[0] == "manifests" {
		return writeManifests(rest[0])
	}
	opened, err := openLake(asked)
	if err != nil {
		return err
	}
	return opened.run(args[0], rest)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "go_lake:", err)
		os.Exit(1)
	}
}
