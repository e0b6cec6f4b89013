"""Drives a server with every client that can be imported or found; prints a table.

usage: check.py HOST PORT
"""

import asyncio
import datetime
import decimal
import importlib.metadata
import shutil
import subprocess
import sys
import uuid

HOST, PORT = sys.argv[1], int(sys.argv[2])
URL = f"postgresql://tester@{HOST}:{PORT}/lazybase"

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


def expect(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r} is not {wanted!r}")


def psycopg3():
    import psycopg

    with psycopg.connect(URL, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE p3 {TABLE}")
        places = ", ".join(["%s"] * len(ROW))
        connection.execute(f"INSERT INTO p3 VALUES ({places})", ROW)
        for binary in (False, True):
            cursor = connection.cursor(binary=binary)
            expect(cursor.execute("SELECT * FROM p3 WHERE k = %s", (1,)).fetchone(), ROW)
        with connection.transaction():
            with connection.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO p3 (k, t) VALUES (%s, %s)", [(k, f"v{k}") for k in range(2, 500)]
                )
        with connection.cursor() as cursor:
            with cursor.copy("COPY p3 (k, t) FROM STDIN") as copy:
                for k in range(500, 2000):
                    copy.write_row((k, None if k % 2 else f"tab\t{k}"))
            with cursor.copy("COPY p3 (k, t) FROM STDIN (FORMAT BINARY)") as copy:
                copy.set_types(["int4", "text"])
                copy.write_row((2000, "binary"))
            with cursor.copy("COPY (SELECT k, t FROM p3 WHERE k >= 1999 ORDER BY k) TO STDOUT") as copy:
                expect(list(copy.rows()), [("1999", None), ("2000", "binary")])
        with connection.pipeline():
            cursors = [connection.execute("SELECT %s::int + 1", (at,)) for at in range(20)]
            expect([cursor.fetchone()[0] for cursor in cursors], list(range(1, 21)))
        expect(connection.execute("SELECT count(*) FROM p3").fetchone(), (2000,))
        found = connection.execute("SELECT k FROM p3 WHERE k = ANY(%s) ORDER BY k", ([3, 5, 9999],))
        expect(found.fetchall(), [(3,), (5,)])
        try:
            connection.execute("SELECT * FROM nothing")
        except psycopg.errors.UndefinedTable:
            pass
        connection.execute("SET lazybase.freshness = '30 s'")
        expect(connection.execute("SHOW lazybase.freshness").fetchone(), ("30s",))


def psycopg2():
    import psycopg2

    connection = psycopg2.connect(URL)
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE p2 (k INT PRIMARY KEY, t TEXT)")
    cursor.execute("INSERT INTO p2 VALUES (%s, %s)", (1, "it's"))
    connection.commit()
    cursor.execute("SELECT k, t FROM p2")
    expect(cursor.fetchall(), [(1, "it's")])
    connection.close()


def use_asyncpg():
    import asyncpg

    async def run():
        connection = await asyncpg.connect(URL)
        await connection.execute(f"CREATE TABLE ap {TABLE}")
        places = ", ".join(f"${at + 1}" for at in range(len(ROW)))
        await connection.execute(f"INSERT INTO ap VALUES ({places})", *ROW)
        found = await connection.fetchrow("SELECT * FROM ap WHERE k = $1", 1)
        expect(tuple(found), ROW)
        await connection.executemany(
            "INSERT INTO ap (k, t) VALUES ($1, $2)", [(k, f"v{k}") for k in range(2, 300)]
        )
        await connection.copy_records_to_table(
            "ap", records=[(k, f"c{k}") for k in range(300, 1000)], columns=["k", "t"]
        )
        expect(await connection.fetchval("SELECT count(*) FROM ap"), 999)
        async with connection.transaction():
            seen = 0
            async for _ in connection.cursor("SELECT k FROM ap ORDER BY k", prefetch=50):
                seen += 1
            expect(seen, 999)
        found = await connection.fetch("SELECT k FROM ap WHERE k = ANY($1::int[])", [5, 6])
        expect(len(found), 2)
        await connection.close()

    asyncio.run(run())


def pg8000():
    import pg8000.native

    connection = pg8000.native.Connection("tester", host=HOST, port=PORT, database="lazybase")
    connection.run("CREATE TABLE p8 (k INT PRIMARY KEY, t TEXT)")
    connection.run("INSERT INTO p8 VALUES (:k, :t)", k=1, t="one")
    expect(connection.run("SELECT k, t FROM p8 WHERE k = :k", k=1), [[1, "one"]])
    connection.close()


def use_sqlalchemy():
    import sqlalchemy as sa
    from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

    engine = sa.create_engine(URL.replace("postgresql", "postgresql+psycopg"))

    class Base(DeclarativeBase):
        pass

    class Thing(Base):
        __tablename__ = "thing"
        id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True, autoincrement=False)
        name: Mapped[str] = mapped_column(sa.String(20))

    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all([Thing(id=1, name="one"), Thing(id=2, name="two")])
        session.commit()
        found = session.scalars(sa.select(Thing).where(Thing.name == "two")).all()
        expect([thing.id for thing in found], [2])
    inspector = sa.inspect(engine)
    expect("thing" in inspector.get_table_names(), True)
    expect([column["name"] for column in inspector.get_columns("thing")], ["id", "name"])
    expect(inspector.get_pk_constraint("thing")["constrained_columns"], ["id"])
    expect(inspector.get_foreign_keys("thing"), [])
    engine.dispose()


def psql():
    if not shutil.which("psql"):
        raise ModuleNotFoundError("psql is not installed")
    commands = [
        "CREATE TABLE ps (k INT PRIMARY KEY, t VARCHAR(20) DEFAULT 'x')",
        "\\copy ps FROM pstdin",
        "SELECT k, t FROM ps ORDER BY k",
        "\\dt",
        "\\d ps",
        "\\l",
        "\\dn",
    ]
    arguments = [argument for command in commands for argument in ("-c", command)]
    done = subprocess.run(
        ["psql", "-X", "-v", "ON_ERROR_STOP=1", URL, *arguments],
        input="1\tone\n2\ttwo\n",
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    for wanted in ("COPY 2", "one", "ps_pkey", "character varying(20)", "lazybase"):
        expect((wanted, wanted in done.stdout), (wanted, True))


CLIENTS = [
    ("psql", None, psql),
    ("psycopg 3", "psycopg", psycopg3),
    ("psycopg 2", "psycopg2-binary", psycopg2),
    ("asyncpg", "asyncpg", use_asyncpg),
    ("pg8000", "pg8000", pg8000),
    ("SQLAlchemy", "sqlalchemy", use_sqlalchemy),
]


def main():
    failed = 0
    for name, package, run in CLIENTS:
        version = ""
        try:
            version = importlib.metadata.version(package) if package else ""
            run()
            outcome = "ok"
        except (ModuleNotFoundError, importlib.metadata.PackageNotFoundError) as error:
            outcome = f"skipped: {error}"
        except Exception as error:  # noqa: BLE001 - the table shows whatever it was
            failed += 1
            outcome = f"FAILED: {type(error).__name__}: {error}".replace("\n", " | ")
        print(f"{name:12} {version:10} {outcome}", flush=True)
    sys.exit(1 if failed else 0)


main()
