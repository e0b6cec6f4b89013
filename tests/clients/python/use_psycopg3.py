"""psycopg 3: values as text and binary, prepared statements, pipelines, COPY of all kinds, nested
transactions, cancelling, the pool, producers and tokens."""

import datetime
import decimal
import threading
import uuid

import first_psycopg3
import once
import psycopg
import psycopg_pool
from common import URL, expect, fails, version
from psycopg.rows import dict_row, namedtuple_row
from psycopg.types.json import Json

ROW = (
    1,
    True,
    "it's ünïcode",
    decimal.Decimal("12.50"),
    2.5,
    b"\x00\xff",
    uuid.UUID("0a0b0c0d-0e0f-1011-1213-141516171819"),
    datetime.date(2013, 1, 2),
    datetime.time(3, 4, 5, 6),
    datetime.datetime(2013, 1, 2, 3, 4, 5, 6),
    datetime.datetime(2013, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
    [1, None, 3],
    ["a", 'b"c', None, "{}"],
    -7,
    1 << 60,
    0.5,
)
COLUMNS = (
    "k INT PRIMARY KEY, b BOOLEAN, t TEXT, n DECIMAL(10, 2), d DOUBLE PRECISION, y BYTEA, "
    "u UUID, dt DATE, tm TIME, ts TIMESTAMP, tz TIMESTAMPTZ, li INT[], lt TEXT[], "
    "s SMALLINT, l BIGINT, r REAL"
)


def values(db):
    db.execute(f"CREATE TABLE p3 ({COLUMNS}, j JSON)")
    places = ", ".join(["%s"] * len(ROW))
    db.execute(f"INSERT INTO p3 VALUES ({places}, %s)", (*ROW, Json({"a": [1, "x"]})))
    places = ", ".join(["%b"] * (len(ROW) - 1))
    db.execute(f"INSERT INTO p3 VALUES (2, {places}, NULL)", ROW[1:])
    for binary in (False, True):
        cursor = db.cursor(binary=binary)
        cursor.execute("SELECT * FROM p3 WHERE k = %s", (1,))
        found = cursor.fetchone()
        expect(found[:-1], ROW)
        expect(found[-1], {"a": [1, "x"]})
        cursor.execute("SELECT * FROM p3 WHERE k = %s", (2,))
        expect(cursor.fetchone(), (2, *ROW[1:], None))
        cursor.execute("SELECT NULL::int, 'NaN'::float8, '-Infinity'::float8, interval '1 day'")
        none, nan, infinite, day = cursor.fetchone()
        expect((none, nan != nan, infinite), (None, True, float("-inf")))
        expect(day, datetime.timedelta(days=1))
    cursor = db.cursor(row_factory=dict_row)
    cursor.execute("SELECT k, t FROM p3 WHERE t = %(t)s AND k < %(k)s", {"t": ROW[2], "k": 2})
    expect(cursor.fetchall(), [{"k": 1, "t": ROW[2]}])
    names = [column.name for column in cursor.description]
    types = [column.type_code for column in cursor.description]
    expect((names, types), (["k", "t"], [23, 25]))
    found = db.execute("SELECT k FROM p3 WHERE k = ANY(%s) ORDER BY k", ([2, 1, 9],))
    expect(found.fetchall(), [(1,), (2,)])


def statements(db):
    db.execute("CREATE TABLE p3s (k INT PRIMARY KEY, t TEXT)")
    with db.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO p3s VALUES (%s, %s)", [(k, f"v{k}") for k in range(500)]
        )
        expect(cursor.rowcount, 500)
    for k in range(20):
        cursor = db.execute("SELECT t FROM p3s WHERE k = %s", (k,), prepare=True)
        expect(cursor.fetchone(), (f"v{k}",))
    expect(db.execute("UPDATE p3s SET t = 'new' WHERE k = %s", (3,)).rowcount, 1)
    expect(db.execute("DELETE FROM p3s WHERE k >= %s", (400,)).rowcount, 100)
    expect(db.execute("SELECT count(*), min(t) FROM p3s").fetchone(), (400, "new"))
    rows = db.cursor().stream("SELECT k FROM p3s ORDER BY k")
    expect([k for (k,) in rows], list(range(400)))
    cursor = db.cursor(row_factory=namedtuple_row)
    expect(cursor.execute("SELECT k AS id FROM p3s WHERE k = 7").fetchone().id, 7)


def pipelines(db):
    with db.pipeline() as pipeline:
        cursors = [db.execute("SELECT %s::int + 1", (at,)) for at in range(50)]
        expect([cursor.fetchone()[0] for cursor in cursors], list(range(1, 51)))
        db.execute("INSERT INTO p3s VALUES (1000, 'piped')")
        pipeline.sync()
        expect(db.execute("SELECT t FROM p3s WHERE k = 1000").fetchone(), ("piped",))
    try:
        with db.pipeline():
            db.execute("INSERT INTO p3s VALUES (1001, 'gone')")
            db.execute("SELECT * FROM nothing")
            db.execute("INSERT INTO p3s VALUES (1002, 'gone')")
    except psycopg.errors.UndefinedTable:
        pass
    else:
        raise AssertionError("a pipeline with an error passed")
    expect(db.execute("SELECT count(*) FROM p3s WHERE k > 1000").fetchone(), (0,))


def copies(db):
    db.execute("CREATE TABLE p3c (k INT PRIMARY KEY, t TEXT, n DECIMAL(10, 2), ts TIMESTAMP)")
    moment = datetime.datetime(2020, 2, 29, 1, 2, 3, 4)
    special = 'tab\t, quote " backslash \\ line\n end'
    with db.cursor() as cursor:
        with cursor.copy("COPY p3c FROM STDIN") as copy:
            for k in range(1000):
                copy.write_row((k, None if k % 2 else special, decimal.Decimal(k) / 4, moment))
        expect(cursor.rowcount, 1000)
        with cursor.copy("COPY p3c (k, t, ts) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(["int4", "text", "timestamp"])
            for k in range(1000, 1500):
                copy.write_row((k, special, moment))
        with cursor.copy("COPY p3c (k, t) FROM STDIN (FORMAT CSV, HEADER)") as copy:
            copy.write('k,t\n1500,"a ""quoted"" text"\n1501,\n1502,""\n')
        expect(db.execute("SELECT count(*), sum(n) FROM p3c").fetchone(), (1503, 124875))
        with cursor.copy("COPY (SELECT * FROM p3c WHERE k < 1200 ORDER BY k) TO STDOUT") as copy:
            copy.set_types(["int4", "text", "numeric", "timestamp"])
            rows = list(copy.rows())
        expect(rows[2], (2, special, decimal.Decimal("0.50"), moment))
        expect((len(rows), rows[999][1], rows[1199][2]), (1200, None, None))
        with cursor.copy(
            "COPY (SELECT k, t, n, ts FROM p3c WHERE k < 1200 ORDER BY k) TO STDOUT (FORMAT BINARY)"
        ) as copy:
            copy.set_types(["int4", "text", "numeric", "timestamp"])
            expect(list(copy.rows()), rows)
        with cursor.copy("COPY (SELECT k, t FROM p3c WHERE k >= 1500 ORDER BY k) TO STDOUT CSV") as copy:
            written = b"".join(bytes(block) for block in copy)
        expect(written, b'1500,"a ""quoted"" text"\n1501,\n1502,""\n')


def transactions(db):
    with db.transaction():
        db.execute("INSERT INTO p3s VALUES (2000, 'outer')")
        try:
            with db.transaction():
                db.execute("INSERT INTO p3s VALUES (2001, 'inner')")
                db.execute("SELECT 1 / 0")
        except psycopg.errors.DivisionByZero:
            pass
        with db.transaction():
            db.execute("INSERT INTO p3s VALUES (2002, 'inner')")
    found = db.execute("SELECT k FROM p3s WHERE k >= 2000 ORDER BY k").fetchall()
    expect(found, [(2000,), (2002,)])
    with psycopg.connect(URL) as other:
        other.execute("INSERT INTO p3s VALUES (2003, 'rolled back')")
        other.rollback()
        expect(other.execute("SELECT count(*) FROM p3s WHERE k = 2003").fetchone(), (0,))
        expect(other.info.transaction_status.name, "INTRANS")
    for end, left in (("COMMIT AND CHAIN", "INTRANS"), ("ROLLBACK AND NO CHAIN", "IDLE")):
        db.execute("BEGIN" if db.info.transaction_status.name == "IDLE" else "SELECT 1")
        db.execute("INSERT INTO p3s VALUES (2004, %s)", (end,))
        db.execute(end)
        expect(db.info.transaction_status.name, left)
    found = db.execute("SELECT t FROM p3s WHERE k = 2004").fetchall()
    expect(found, [("COMMIT AND CHAIN",)])
    state = lambda error: error.sqlstate  # noqa: E731
    fails("42P01", lambda: db.execute("SELECT * FROM nothing"), state)
    fails("42703", lambda: db.execute("SELECT nothing FROM p3s"), state)
    fails("42601", lambda: db.execute("SELEC 1"), state)
    fails("22P02", lambda: db.execute("SELECT 'x'::int"), state)


def cancelling(db):
    ended = threading.Event()

    # What comes before the query has begun is forgotten.
    def later():
        while not ended.wait(0.5):
            db.cancel()

    thread = threading.Thread(target=later, daemon=True)
    thread.start()
    endless = "SELECT count(*) FROM generate_series(1, 1000000000000) AS s (x) WHERE x - 3 = x / 7 * 7"
    fails("57014", lambda: db.execute(endless), lambda error: error.sqlstate)
    ended.set()
    thread.join()
    expect(db.execute("SELECT 1").fetchone(), (1,))


def pool():
    with psycopg_pool.ConnectionPool(
        URL, min_size=2, max_size=4, check=psycopg_pool.ConnectionPool.check_connection
    ) as connections:

        def work(at):
            with connections.connection() as db:
                db.execute("INSERT INTO p3s VALUES (%s, 'pooled')", (3000 + at,))

        threads = [threading.Thread(target=work, args=(at,)) for at in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with connections.connection() as db:
            expect(db.execute("SELECT count(*) FROM p3s WHERE k >= 3000").fetchone(), (12,))


def settings(db):
    db.execute("SET lazybase.freshness = '30 s'")
    expect(db.execute("SHOW lazybase.freshness").fetchone()[0].replace(" ", ""), "30s")
    expect(db.info.parameter_status("server_encoding"), "UTF8")
    expect(db.info.server_version // 10000, 15)


def notices(db):
    heard = []
    handler = lambda said: heard.append((said.severity_nonlocalized, said.sqlstate))  # noqa: E731
    db.add_notice_handler(handler)
    skipped, outside = "DROP TABLE IF EXISTS nothing", "ROLLBACK"
    for level, told in (
        ("notice", [("NOTICE", "00000"), ("WARNING", "25P01")]),
        ("warning", [("WARNING", "25P01")]),
        ("error", []),
    ):
        db.execute(f"SET client_min_messages = {level}")
        db.execute(skipped)
        db.execute(outside)
        expect(heard, told)
        heard.clear()
    db.execute("RESET client_min_messages")
    db.remove_notice_handler(handler)


version("psycopg")
with psycopg.connect(URL, autocommit=True) as db:
    for part in (values, statements, pipelines, copies, transactions, cancelling):
        part(db)
    pool()
    settings(db)
    notices(db)
    expect(first_psycopg3.readings(URL), 20.5)
    db.execute("DROP TABLE readings")
    once.drive(db)
