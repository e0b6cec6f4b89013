"""The ADBC driver for PostgreSQL: Arrow tables by COPY in binary, both ways, with all types that it
has; its ways to make and append to tables; what it tells about the catalog."""

import datetime
import decimal
import uuid

import adbc_driver_postgresql.dbapi as adbc
import pyarrow
from common import URL, expect, version

MOMENT = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456)
ZONED = MOMENT.replace(tzinfo=datetime.timezone.utc)
TYPES = {
    "k": (pyarrow.int64(), [1, 2, 3]),
    "s": (pyarrow.int16(), [1, None, -3]),
    "i": (pyarrow.int32(), [1, None, -3]),
    "f": (pyarrow.float32(), [0.5, None, -1.5]),
    "d": (pyarrow.float64(), [0.25, None, float("inf")]),
    "b": (pyarrow.bool_(), [True, None, False]),
    "t": (pyarrow.string(), ["ünï", None, ""]),
    "y": (pyarrow.binary(), [b"\x00\xff", None, b""]),
    "dt": (pyarrow.date32(), [datetime.date(2024, 2, 29), None, datetime.date(1969, 12, 31)]),
    "tm": (pyarrow.time64("us"), [datetime.time(1, 2, 3, 4), None, datetime.time(0)]),
    "ts": (pyarrow.timestamp("us"), [MOMENT, None, datetime.datetime(1960, 1, 1)]),
    "tz": (pyarrow.timestamp("us", "UTC"), [ZONED, None, ZONED]),
    "l": (pyarrow.list_(pyarrow.int64()), [[1, None, 3], None, []]),
    "lt": (pyarrow.list_(pyarrow.string()), [["a", None], None, []]),
    "iv": (
        pyarrow.month_day_nano_interval(),
        [pyarrow.MonthDayNano([1, 2, 3_000_000_000]), None, pyarrow.MonthDayNano([-13, 0, -500_000_000])],
    ),
}
TABLE = pyarrow.table({name: pyarrow.array(cells, kind) for name, (kind, cells) in TYPES.items()})


def ingest(db):
    with db.cursor() as cursor:
        expect(cursor.adbc_ingest("adbc_all", TABLE, mode="create"), 3)
        db.commit()
        cursor.execute("SELECT * FROM adbc_all ORDER BY k")
        found = cursor.fetch_arrow_table()
        expect(found.to_pydict(), TABLE.to_pydict())
        expect(found.schema.types, TABLE.schema.types)
        expect(cursor.adbc_ingest("adbc_all", TABLE, mode="append"), 3)
        db.commit()
        cursor.execute("SELECT count(*), count(s) FROM adbc_all")
        expect(cursor.fetchone(), (6, 4))
        expect(cursor.adbc_ingest("adbc_all", TABLE.slice(0, 1), mode="replace"), 1)
        db.commit()
        cursor.execute("SELECT k FROM adbc_all")
        expect(cursor.fetchall(), [(1,)])
        many = pyarrow.table({"k": pyarrow.array(range(50_000)), "t": [f"v{at}" for at in range(50_000)]})
        expect(cursor.adbc_ingest("adbc_many", many.to_reader(max_chunksize=7000), mode="create_append"), 50_000)
        db.commit()
        cursor.execute("SELECT k, t FROM adbc_many ORDER BY k")
        expect(cursor.fetch_arrow_table().equals(many), True)
    try:
        with db.cursor() as cursor:
            cursor.adbc_ingest("adbc_many", TABLE.select(["k"]), mode="create")
    except adbc.Error:
        db.rollback()
    else:
        raise AssertionError("a table that is there was made again")


NUMBERS = [decimal.Decimal(text) for text in ("12.25", "-0.05", "0.00", "12345678901234567890.12")] + [None]
IDS = [uuid.UUID("0a0b0c0d-0e0f-1011-1213-141516171819"), uuid.UUID(int=0), None, uuid.UUID(int=2**128 - 1), None]
TEXTS = ['{"a": [1, null]}', "null", None, '"ünï"', "[]"]
OTHERS = pyarrow.table(
    {
        "k": pyarrow.array(range(5), pyarrow.int64()),
        "n": pyarrow.array(NUMBERS, pyarrow.decimal128(22, 2)),
        "u": pyarrow.array([None if each is None else each.bytes for each in IDS], pyarrow.uuid()),
        "j": pyarrow.array(TEXTS, pyarrow.string()),
    }
)


def others(db):
    """What the driver fetches as another type than it was sent as: numbers come as texts."""
    with db.cursor() as cursor:
        cursor.execute("CREATE TABLE adbc_others (k BIGINT PRIMARY KEY, n DECIMAL(22, 2), u UUID, j JSON)")
        db.commit()
        expect(cursor.adbc_ingest("adbc_others", OTHERS, mode="append"), 5)
        # Its own DECIMAL says neither how many digits there are nor how many are behind the point.
        expect(cursor.adbc_ingest("adbc_numbers", OTHERS.select(["k", "n"]), mode="create"), 5)
        db.commit()
        cursor.execute("SELECT u, j FROM adbc_others ORDER BY k")
        found = cursor.fetch_arrow_table()
        expect(found["u"].to_pylist(), IDS)
        expect(found["j"].to_pylist(), TEXTS)
        for table in ("adbc_others", "adbc_numbers"):
            cursor.execute(f"SELECT n FROM {table} ORDER BY k")
            found = cursor.fetch_arrow_table()["n"].to_pylist()
            expect([None if text is None else decimal.Decimal(text) for text in found], NUMBERS)


def statements(db):
    with db.cursor() as cursor:
        cursor.execute("CREATE TABLE adbc_n (k BIGINT PRIMARY KEY, n DECIMAL(10, 2), t TEXT)")
        cursor.executemany("INSERT INTO adbc_n (k, t) VALUES ($1, $2)", [(1, "one"), (2, "two")])
        cursor.execute("INSERT INTO adbc_n VALUES ($1, 12.25, $2)", (3, "three"))
        db.commit()
        cursor.execute("SELECT t FROM adbc_n WHERE k = $1", (2,))
        expect(cursor.fetchall(), [("two",)])
        cursor.execute("SELECT k, n FROM adbc_n ORDER BY k")
        expect(cursor.fetchall(), [(1, None), (2, None), (3, "12.25")])
        cursor.execute("DELETE FROM adbc_n WHERE k = 1")
        db.rollback()
        cursor.execute("SELECT count(*) FROM adbc_n")
        expect(cursor.fetchone(), (3,))
        expect(cursor.adbc_execute_schema("SELECT k, t FROM adbc_n").names, ["k", "t"])


def catalog(db):
    expect("public" in schemas(db), True)
    expect(db.adbc_get_table_schema("adbc_n").names, ["k", "n", "t"])
    expect("table" in [kind.lower() for kind in db.adbc_get_table_types()], True)
    info = db.adbc_get_info()
    expect(info["vendor_name"], "PostgreSQL")
    found = db.adbc_get_objects(depth="all", db_schema_filter="public", table_name_filter="adbc_n").read_all()
    (schema,) = [
        schema
        for catalog in found.to_pylist()
        for schema in catalog["catalog_db_schemas"]
        if schema["db_schema_name"] == "public"
    ]
    (table,) = schema["db_schema_tables"]
    expect([column["column_name"] for column in table["table_columns"]], ["k", "n", "t"])
    keys = [
        constraint["constraint_column_names"]
        for constraint in table["table_constraints"]
        if constraint["constraint_type"] == "PRIMARY KEY"
    ]
    expect(keys, [["k"]])


def schemas(db):
    found = db.adbc_get_objects(depth="db_schemas").read_all().to_pylist()
    return [schema["db_schema_name"] for catalog in found for schema in catalog["catalog_db_schemas"]]


version("adbc-driver-postgresql")
with adbc.connect(URL) as connection:
    for part in (ingest, others, statements, catalog):
        part(connection)
