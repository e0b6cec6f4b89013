"""asyncpg: binary throughout, prepared statements, cursors, COPY both ways, the pool, which resets
its connections."""

import asyncio
import datetime
import decimal
import io
import json
import uuid

import asyncpg
from common import URL, expect, version

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
    ["a", None],
    datetime.timedelta(days=3, seconds=5),
)
COLUMNS = (
    "k INT PRIMARY KEY, b BOOLEAN, t TEXT, n DECIMAL(10, 2), d DOUBLE PRECISION, y BYTEA, "
    "u UUID, dt DATE, tm TIME, ts TIMESTAMP, tz TIMESTAMPTZ, li INT[], lt TEXT[], iv INTERVAL"
)


async def values(db):
    await db.execute(f"CREATE TABLE ap ({COLUMNS})")
    places = ", ".join(f"${at + 1}" for at in range(len(ROW)))
    expect(await db.execute(f"INSERT INTO ap VALUES ({places})", *ROW), "INSERT 0 1")
    found = await db.fetchrow("SELECT * FROM ap WHERE k = $1", 1)
    expect(tuple(found), ROW)
    await db.executemany(
        "INSERT INTO ap (k, t) VALUES ($1, $2)", [(k, f"v{k}") for k in range(2, 300)]
    )
    statement = await db.prepare("SELECT t FROM ap WHERE k = $1")
    expect([kind.name for kind in statement.get_parameters()], ["int4"])
    expect([column.name for column in statement.get_attributes()], ["t"])
    for k in range(2, 20):
        expect(await statement.fetchval(k), f"v{k}")
    found = await db.fetch("SELECT k FROM ap WHERE k = ANY($1::int[])", [5, 6])
    expect(len(found), 2)
    expect(await db.fetchval("SELECT count(*) FROM ap WHERE t LIKE $1", "v1%"), 110)
    told = await (await db.prepare("SELECT t FROM ap WHERE k > 5")).explain(analyze=True)
    expect("Node Type" in told[0]["Plan"], True)
    ours = next(value for value in ROW if isinstance(value, uuid.UUID))
    expect(await db.fetchval("SELECT k FROM ap WHERE u = $1", ours), 1)
    expect(await db.fetchval("SELECT k FROM ap WHERE u IN ($1, $2)", ours, uuid.uuid4()), 1)
    expect(await db.fetchval("SELECT count(*) FROM ap WHERE u = $1", uuid.uuid4()), 0)


async def codecs(db):
    await db.execute("CREATE TABLE apj (k INT PRIMARY KEY, j JSON)")
    await db.set_type_codec("json", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    given = {"a": [1, "x", None]}
    await db.execute("INSERT INTO apj VALUES ($1, $2)", 1, given)
    expect(await db.fetchval("SELECT j FROM apj WHERE k = $1", 1), given)
    expect(await db.fetchval("SELECT j -> 'a' FROM apj"), given["a"])
    expect(await db.fetchval("SELECT j ->> 'a' FROM apj"), '[1, "x", null]')


async def copies(db):
    records = [(k, f"c{k}", decimal.Decimal(k)) for k in range(300, 1000)]
    done = await db.copy_records_to_table("ap", records=records, columns=["k", "t", "n"])
    expect(done, "COPY 700")
    expect(await db.fetchval("SELECT count(*) FROM ap"), 999)
    out = io.BytesIO()
    await db.copy_from_query("SELECT k, t FROM ap WHERE k >= $1 ORDER BY k", 998, output=out, format="csv")
    expect(out.getvalue(), b"998,c998\n999,c999\n")
    out.seek(0)
    await db.execute("CREATE TABLE ap2 (k INT PRIMARY KEY, t TEXT)")
    await db.copy_to_table("ap2", source=out, format="csv")
    expect([tuple(row) for row in await db.fetch("SELECT * FROM ap2")], [(998, "c998"), (999, "c999")])


async def transactions(db):
    async with db.transaction():
        seen = 0
        async for _ in db.cursor("SELECT k FROM ap ORDER BY k", prefetch=50):
            seen += 1
        expect(seen, 999)
        cursor = await db.cursor("SELECT k FROM ap ORDER BY k")
        await cursor.forward(10)
        expect([row["k"] for row in await cursor.fetch(3)], [11, 12, 13])
        try:
            async with db.transaction():
                await db.execute("INSERT INTO ap2 VALUES (1, 'gone')")
                await db.execute("SELECT * FROM nothing")
        except asyncpg.UndefinedTableError:
            pass
        await db.execute("INSERT INTO ap2 VALUES (2, 'kept')")
    expect(await db.fetchval("SELECT count(*) FROM ap2 WHERE k < 10"), 1)


async def pool():
    async with asyncpg.create_pool(URL, min_size=2, max_size=5) as connections:

        async def work(at):
            async with connections.acquire() as db:
                await db.execute("SET application_name = 'changed'")
                await db.execute("INSERT INTO ap2 VALUES ($1, 'pooled')", 10_000 + at)

        await asyncio.gather(*(work(at) for at in range(20)))
        expect(await connections.fetchval("SELECT count(*) FROM ap2 WHERE k >= 10000"), 20)
        for _ in range(5):
            expect(await connections.fetchval("SHOW application_name") == "changed", False)


async def run():
    db = await asyncpg.connect(URL)
    for part in (values, codecs, copies, transactions):
        await part(db)
    try:
        await db.execute("SELECT pg_sleep(10)", timeout=0.5)
    except asyncio.TimeoutError:
        pass
    else:
        raise AssertionError("a statement outlived the time that it was given")
    expect(await db.fetchval("SELECT 1"), 1)
    await db.close()
    await pool()


version("asyncpg")
asyncio.run(run())
