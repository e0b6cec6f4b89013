"""Arrow Flight SQL: the ADBC driver with pyarrow's and polars' frames, and pyarrow's own client."""

import datetime
import decimal
import os
import uuid

from common import HOST, expect, fails, version

FLIGHT_PORT = int(os.environ["LAZYBASE_FLIGHT_PORT"])
FLIGHT = f"grpc://{HOST}:{FLIGHT_PORT}"
HEADER = "adbc.flight.sql.rpc.call_header."
COOKIES = {"adbc.flight.sql.rpc.with_cookie_middleware": "true"}
ROW = (
    1,
    True,
    "it's ünïcode",
    decimal.Decimal("12.50"),
    2.5,
    b"\x00\xff",
    uuid.UUID("0a0b0c0d-0e0f-1011-1213-141516171819"),
    datetime.date(2013, 1, 2),
    datetime.datetime(2013, 1, 2, 3, 4, 5, 6),
    datetime.datetime(2013, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
)
TABLE = (
    "(k INT PRIMARY KEY, b BOOLEAN, t TEXT, n DECIMAL(10, 2), d DOUBLE PRECISION, "
    "y BYTEA, u UUID, dt DATE, ts TIMESTAMP, tz TIMESTAMPTZ)"
)


def flight(autocommit=True, **options):
    from adbc_driver_flightsql import dbapi

    return dbapi.connect(FLIGHT, db_kwargs=options, autocommit=autocommit)


def rows_of(connection, sql, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def refused(sqlstate, work):
    fails(sqlstate, work, lambda error: sqlstate if f"[{sqlstate}]" in str(error) else None)


def use_queries():
    import pyarrow as pa

    with flight() as connection:
        rows_of(connection, f"CREATE TABLE fq {TABLE}")
        places = ", ".join(["?"] * len(ROW))
        row = [str(value) if isinstance(value, uuid.UUID) else value for value in ROW]
        rows_of(connection, f"INSERT INTO fq VALUES ({places})", row)
        expect(rows_of(connection, "SELECT * FROM fq WHERE k = $1", (1,)), [tuple(row)])
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO fq (k, t) VALUES (?, ?)", [(k, f"v{k}") for k in range(2, 1000)]
            )
            cursor.executemany("UPDATE fq SET t = ? WHERE k = ?", [("new", k) for k in range(2, 10)])
            cursor.executemany("DELETE FROM fq WHERE k = ?", [(k,) for k in range(990, 1000)])
            cursor.execute("SELECT count(*), max(k) FROM fq WHERE t <> 'new'")
            expect(cursor.fetchone(), (981, 989))
            cursor.execute("SELECT k, t FROM fq WHERE k > ? ORDER BY k", (985,))
            expect([field.name for field in cursor.fetch_arrow_table().schema], ["k", "t"])
            cursor.execute("SELECT n FROM generate_series(1, 3000000) AS n")
            seen = 0
            for batch in cursor.fetch_record_batch():
                seen += batch.num_rows
            expect(seen, 3000000)
            expect(cursor.adbc_execute_schema("SELECT 1 AS one"), pa.schema([pa.field("one", pa.int64(), nullable=False)]))
            cursor.adbc_prepare("SELECT t FROM fq WHERE k = $1")
            cursor.execute("SELECT t FROM fq WHERE k = $1", pa.record_batch([pa.array([5, 6])], ["k"]))
            expect(cursor.fetchall(), [("new",), ("new",)])
        refused("42P01", lambda: rows_of(connection, "SELECT * FROM nothing"))
        refused("42601", lambda: rows_of(connection, "SELEC 1"))
        refused("55000", lambda: rows_of(connection, "SET lazybase.freshness = '5 s'"))


def use_first_lines():
    import first_flight
    import polars as pl

    first, second = (datetime.datetime(2026, 1, day) for day in (1, 2))
    frame = pl.DataFrame({"sensor": [1, 1, 2], "at": [first, second, first], "value": [20.5, 30.0, 19.0]})
    expect(first_flight.readings(FLIGHT, frame, [(1, second)]).rows(), [(1, 20.5), (2, 19.0)])
    with flight() as connection:
        rows_of(connection, "DROP TABLE readings")


def use_ingest():
    import polars as pl
    import pyarrow as pa

    frame = {"k": [1, 2, 3], "t": ["a", None, "c"], "at": [datetime.datetime(2026, 1, 2, 3, 4, 5)] * 3}
    with flight() as connection:
        for name, made in (("pyarrow", pa.table(frame)), ("polars", pl.DataFrame(frame))):
            table = f"fi_{name}"
            ingest = lambda data, **options: connection.cursor().adbc_ingest(table, data, **options)
            refused("42P01", lambda: ingest(made, mode="append"))
            expect(ingest(made, mode="create"), 3)
            refused("42P07", lambda: ingest(made, mode="create"))
            expect(ingest(made, mode="append"), 3)
            expect(rows_of(connection, f"SELECT count(*), count(t) FROM {table}"), [(6, 4)])
            expect(ingest(made, mode="replace"), 3)
            expect(rows_of(connection, f"SELECT max(at) FROM {table}"), [(frame["at"][0],)])
            expect(ingest(made, mode="create_append"), 3)
            expect(rows_of(connection, f"SELECT count(*) FROM {table}"), [(6,)])
            refused("55000", lambda: ingest(made, mode="create", temporary=True))
            refused("3F000", lambda: ingest(made, mode="append", db_schema_name="elsewhere"))
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM fi_polars ORDER BY k")
            expect(pl.from_arrow(cursor.fetch_arrow_table()).shape, (6, 3))
        read = pl.read_database("SELECT t FROM fi_polars WHERE k = 1 LIMIT 1", connection)
        expect(read["t"].to_list(), ["a"])
        pl.DataFrame(frame).write_database("fi_written", connection, engine="adbc")
        expect(rows_of(connection, "SELECT count(*) FROM fi_written"), [(3,)])
    # A frame without rows makes its table; one of nothing but NULL is written.
    with flight() as connection:
        schema = pa.schema({"k": pa.int64(), "t": pa.string()})
        empty = pa.RecordBatch.from_pylist([], schema=schema)
        expect(connection.cursor().adbc_ingest("fi_empty", empty, mode="create"), 0)
        expect(connection.cursor().adbc_ingest("fi_empty", empty, mode="append"), 0)
        # Of a table without a batch the driver sends nothing, not even the name.
        refused("08P01", lambda: connection.cursor().adbc_ingest("fi_none", schema.empty_table(), mode="create"))
        expect(rows_of(connection, "SELECT count(*) FROM fi_empty"), [(0,)])
        nothing = pa.table({"t": pa.nulls(3)})
        expect(connection.cursor().adbc_ingest("fi_empty", nothing, mode="append"), 3)
        expect(rows_of(connection, "SELECT count(*), count(t) FROM fi_empty"), [(3, 0)])
    # A temporary table is its session's.
    with flight(**COOKIES) as connection, flight(**COOKIES) as other:
        rows_of(connection, "SELECT 1")
        made = pa.table({"k": [1, 2]})
        expect(connection.cursor().adbc_ingest("fi_own", made, mode="create", temporary=True), 2)
        expect(rows_of(connection, "SELECT count(*) FROM pg_temp.fi_own"), [(2,)])
        refused("42P01", lambda: rows_of(other, "SELECT * FROM fi_own"))
    # A primary key by header: rows of one key replace each other. Also a stream of batches.
    with flight(**{HEADER + "lazybase-primary-key": "k"}) as connection:
        batches = [pa.record_batch({"k": range(at, at + 1000), "v": ["x"] * 1000}) for at in (0, 500)]
        reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
        expect(connection.cursor().adbc_ingest("fi_keyed", reader, mode="create"), 2000)
        expect(rows_of(connection, "SELECT count(*) FROM fi_keyed"), [(1500,)])
    # A client that fails ends its stream as if it were whole: what was announced tells.
    def breaks():
        yield batches[0]
        raise RuntimeError("the client fails")

    with flight(**{HEADER + "lazybase-rows": "2000"}) as connection:
        reader = pa.RecordBatchReader.from_batches(batches[0].schema, breaks())
        try:
            connection.cursor().adbc_ingest("fi_broken", reader, mode="create")
        except Exception as error:
            expect("the client fails" in str(error), True)
    with flight() as connection:
        rows_of(connection, "SELECT 1")
        refused("42P01", lambda: rows_of(connection, "SELECT * FROM fi_broken"))
    # The same batch of a producer counts once.
    numbered = {HEADER + "lazybase-producer": "adbc", HEADER + "lazybase-batch-number": "1"}
    for _ in range(2):
        with flight(**numbered) as connection:
            connection.cursor().adbc_ingest("fi_pyarrow", pa.table(frame), mode="append")
    with flight() as connection:
        expect(rows_of(connection, "SELECT count(*) FROM fi_pyarrow"), [(9,)])


def once(url, number, frame):
    """Ingests a frame as the batch of that number; may be called again after a lost connection."""
    from adbc_driver_flightsql import dbapi

    header = "adbc.flight.sql.rpc.call_header."
    options = {
        header + "lazybase-producer": "till-5",
        header + "lazybase-batch-number": str(number),
        "adbc.flight.sql.rpc.with_cookie_middleware": "true",
    }
    with dbapi.connect(url, db_kwargs=options, autocommit=True) as db, db.cursor() as cursor:
        cursor.adbc_ingest("sales", frame, mode="append")
        cursor.execute("SHOW lazybase.last_token")
        return cursor.fetchone()[0]


def total(url, token):
    """A cheap answer that holds that write."""
    from adbc_driver_flightsql import dbapi

    header = "adbc.flight.sql.rpc.call_header."
    options = {header + "lazybase-after": token, header + "lazybase-freshness": "best effort"}
    with dbapi.connect(url, db_kwargs=options, autocommit=True) as db, db.cursor() as cursor:
        cursor.execute("SELECT sum(cents) FROM sales")
        return cursor.fetchone()[0]


def newest(url):
    """What all sales come to; where that is dear to tell, what those that are sorted come to."""
    from adbc_driver_flightsql import dbapi

    asked = "SELECT sum(cents) FROM sales"
    options = {"adbc.flight.sql.rpc.call_header.lazybase-on-miss": "error"}
    with dbapi.connect(url, db_kwargs=options, autocommit=True) as db, db.cursor() as cursor:
        try:
            cursor.execute(asked)
            return cursor.fetchone()[0]
        except dbapi.Error as refusal:
            if "[53L01]" not in str(refusal):
                raise
        cursor.execute(asked + " FRESHNESS 0 ON MISS STALE")
        return cursor.fetchone()[0]


def use_producers():
    import pyarrow as pa

    with flight() as connection:
        rows_of(connection, "CREATE TABLE sales (id BIGINT PRIMARY KEY, cents INT)")
        batch = pa.table({"id": [1, 2], "cents": [250, 100]})
        first = once(FLIGHT, 1, batch)
        rows_of(connection, "DELETE FROM sales WHERE id = 2")
        expect(once(FLIGHT, 1, batch), first)
        expect(rows_of(connection, "SELECT sum(cents) FROM sales"), [(250,)])
        token = once(FLIGHT, 2, pa.table({"id": [3], "cents": [50]}))
        expect(total(FLIGHT, token), 300)
        for sql in ("SETTLE", "PAUSE STAGE SORT", "INSERT INTO sales VALUES (4, 1)"):
            rows_of(connection, sql)
        expect(newest(FLIGHT), 300)
        for sql in ("RESUME STAGE SORT", "SETTLE"):
            rows_of(connection, sql)
        expect(newest(FLIGHT), 301)
        rows_of(connection, "DROP TABLE sales")


def use_sessions():
    import pyarrow as pa

    with flight(**{HEADER + "lazybase-freshness": "30 s"}) as connection:
        expect(rows_of(connection, "SHOW lazybase.freshness"), [("30s",)])
    for options in (COOKIES, {"username": "me", "password": ""}):
        with flight(**options) as connection:
            rows_of(connection, "SET lazybase.freshness = '5 s'")
            expect(rows_of(connection, "SHOW lazybase.freshness"), [("5s",)])
            rows_of(connection, "CREATE TABLE IF NOT EXISTS fs (k INT PRIMARY KEY)")
            rows_of(connection, "INSERT INTO fs VALUES (1)")
            (token,) = rows_of(connection, "SHOW lazybase.last_token")[0]
        with flight(**{HEADER + "lazybase-after": token, HEADER + "lazybase-freshness": "best effort"}) as other:
            expect(rows_of(other, "SELECT count(*) FROM fs"), [(1,)])
    option = "adbc.flight.sql.session.option."
    with flight(**COOKIES) as connection:
        connection.adbc_connection.set_options(**{option + "lazybase.freshness": "7 s"})
        expect(rows_of(connection, "SHOW lazybase.freshness"), [("7s",)])
        expect(connection.adbc_connection.get_option(option + "lazybase.freshness"), "7s")
    with flight(autocommit=False) as connection, flight() as other:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO fs VALUES (2)")
            cursor.executemany("INSERT INTO fs VALUES (?)", [(3,), (4,)])
            expect(rows_of(other, "SELECT count(*) FROM fs"), [(1,)])
            connection.rollback()
            cursor.execute("INSERT INTO fs VALUES (5)")
            connection.commit()
        expect(rows_of(other, "SELECT k FROM fs ORDER BY k"), [(1,), (5,)])
    # An ingest is part of the transaction that its session has begun; a client that has none is
    # refused.
    for options in (COOKIES, {"username": "me", "password": ""}):
        with flight(autocommit=False, **options) as connection, flight() as other:
            ingest = lambda k: connection.cursor().adbc_ingest("fs", pa.table({"k": [k]}), mode="append")
            expect(ingest(6), 1)
            expect(rows_of(connection, "SELECT max(k) FROM fs"), [(6,)])
            expect(rows_of(other, "SELECT max(k) FROM fs"), [(5,)])
            connection.rollback()
            expect(rows_of(other, "SELECT max(k) FROM fs"), [(5,)])
            expect(ingest(5), 1)
            connection.commit()
            expect(rows_of(other, "SELECT count(*) FROM fs"), [(2,)])
    with flight(autocommit=False) as connection:
        refused("25000", lambda: connection.cursor().adbc_ingest("fs", pa.table({"k": [7]}), mode="append"))


def use_catalog():
    with flight() as connection:
        rows_of(connection, "CREATE TABLE fc (a INT, b TEXT, PRIMARY KEY (a, b))")
        expect(connection.adbc_get_info()["vendor_name"], "LazyBase")
        expect("TABLE" in connection.adbc_get_table_types(), True)
        schema = connection.adbc_get_table_schema("fc")
        expect(schema.names, ["a", "b"])
        found = connection.adbc_get_objects(depth="all", table_name_filter="fc").read_all().to_pylist()
        schemas = {schema["db_schema_name"]: schema for schema in found[0]["catalog_db_schemas"]}
        (table,) = schemas["public"]["db_schema_tables"]
        expect(table["table_name"], "fc")
        expect([column["column_name"] for column in table["table_columns"]], ["a", "b"])
        # A query that takes long is cancelled.
        import threading
        import adbc_driver_manager

        cursor = connection.cursor()
        long = "SELECT count(*) FROM generate_series(1, 1000000000000) AS s (x) WHERE x % 7 = 3"
        ended = threading.Event()

        # What comes before the query has begun is forgotten.
        def later():
            while not ended.wait(0.5):
                cursor.adbc_cancel()

        thread = threading.Thread(target=later, daemon=True)
        thread.start()
        try:
            cursor.execute(long)
            cursor.fetchall()
        except adbc_driver_manager.Error:
            pass
        else:
            raise AssertionError("the query was not cancelled")
        ended.set()
        thread.join()


def use_pyarrow_flight():
    import json
    import pyarrow.flight as fl

    client = fl.FlightClient(f"grpc+tcp://{HOST}:{FLIGHT_PORT}")

    def field(number, value):
        """A field of protobuf whose value is bytes."""
        assert len(value) < 128
        return bytes([number << 3 | 2, len(value)]) + value

    kind = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
    command = field(1, kind) + field(2, field(1, b"SELECT 42 AS n"))
    info = client.get_flight_info(fl.FlightDescriptor.for_command(command))
    told = None
    reader = client.do_get(info.endpoints[0].ticket)
    rows = []
    while True:
        try:
            chunk = reader.read_chunk()
        except StopIteration:
            break
        rows += chunk.data.to_pylist()
        told = chunk.app_metadata or told
    expect(rows, [{"n": 42}])
    expect(json.loads(told.to_pybytes())["tag"], "SELECT 1")
    client.close()


version("adbc-driver-flightsql")
PARTS = (
    use_queries,
    use_first_lines,
    use_ingest,
    use_producers,
    use_sessions,
    use_catalog,
    use_pyarrow_flight,
)
for part in PARTS:
    part()
