"""One driver over TLS, by a role's password: who serves is checked, and who asks.

usage: over_tls.py URL FOLDER CLIENT. URL has the name and the password of a role that may make
tables; FOLDER has ca.crt, whose authority vouches for the server, clara.crt and clara.key of another
role, and other/ca.crt, whose authority vouches for nobody here."""

import asyncio
import base64
import os
import pathlib
import ssl
import sys
from contextlib import closing

from common import DATABASE, HOST, PARTS, PORT, URL, USER, expect, version

PASSWORD = PARTS.password
FOLDER = pathlib.Path(sys.argv[2])
CA, OTHER_CA = FOLDER / "ca.crt", FOLDER / "other" / "ca.crt"
FLIGHT_PORT = os.environ.get("LAZYBASE_TLS_FLIGHT_PORT")
# It is the same machine, by a name that the server's certificate does not have.
UNNAMED = "127.0.0.1"
WHO = "SELECT current_user, ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
ROWS = [(1, "one"), (2, "zwölf"), (3, None)]


def url(host=HOST, password=PASSWORD, ca=CA, scheme="postgresql"):
    """What psycopg, ADBC, SQLAlchemy and asyncpg take, and all else that is made of libpq."""
    return f"{scheme}://{USER}:{password}@{host}:{PORT}/{DATABASE}?sslmode=verify-full&sslrootcert={ca}"


def refused(word, action):
    """Fails unless the action raises an error that says the word."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 - drivers have no error in common
        if word not in f"{type(error).__name__} {error!r} {error}".lower():
            raise
        return
    raise AssertionError(f"there should have been an error of the {word}")


def checks(connect):
    """Nobody gets in with another password, and nothing is sent to who is not vouched for."""
    refused("password", lambda: connect(password="wrong"))
    refused("certificate", lambda: connect(ca=OTHER_CA))
    refused("certificate", lambda: connect(host=UNNAMED))


def works(db, table, place, ask=WHO):
    """Rows in and out, as the role that logged in, which may not do everything."""
    cursor = db.cursor()
    cursor.execute(ask)
    expect([tuple(row) for row in cursor.fetchall()], [(USER, True)])
    cursor.execute(f"CREATE TABLE {table} (k INT PRIMARY KEY, t TEXT)")
    for row in ROWS:
        cursor.execute(f"INSERT INTO {table} VALUES ({place(1)}, {place(2)})", row)
    cursor.execute(f"SELECT k, t FROM {table} ORDER BY k")
    expect([tuple(row) for row in cursor.fetchall()], ROWS)
    cursor.execute(f"DROP TABLE {table}")
    db.commit()
    refused("permission denied", lambda: cursor.execute("SELECT * FROM payroll"))


def use_psycopg3():
    import psycopg

    def connect(**how):
        return psycopg.connect(url(**how))

    version("psycopg")
    checks(connect)
    with connect() as db:
        works(db, "tls_psycopg3", lambda _: "%s")
        db.rollback()
        db.execute("CREATE TABLE tls_copied (k INT PRIMARY KEY, t TEXT)")
        with db.cursor() as cursor, cursor.copy("COPY tls_copied FROM STDIN") as copy:
            for k in range(50_000):
                copy.write_row((k, f"line {k}"))
        expect(db.execute("SELECT count(*), max(k) FROM tls_copied").fetchone(), (50_000, 49_999))
        with db.cursor().copy("COPY (SELECT k, t FROM tls_copied ORDER BY k) TO STDOUT") as copy:
            expect(sum(1 for _ in copy.rows()), 50_000)
        db.execute("DROP TABLE tls_copied")
    # A certificate of one's own, in place of a password.
    shows = {"user": "clara", "password": "", "sslcert": FOLDER / "clara.crt", "sslkey": FOLDER / "clara.key"}
    with psycopg.connect(url(), **shows) as db:
        expect(db.execute(WHO).fetchone(), ("clara", True))
    refused("certificate", lambda: psycopg.connect(url(), **shows | {"user": USER}))
    refused("password", lambda: psycopg.connect(url(), user="clara"))


def use_psycopg2():
    import psycopg2

    def connect(**how):
        return psycopg2.connect(url(**how))

    version("psycopg2-binary")
    checks(connect)
    with closing(connect()) as db:
        works(db, "tls_psycopg2", lambda _: "%s")


def use_pg8000():
    import pg8000.dbapi

    def connect(host=HOST, password=PASSWORD, ca=CA):
        trusts = ssl.create_default_context(cafile=ca)
        return pg8000.dbapi.connect(
            USER, host=host, port=PORT, database=DATABASE, password=password, ssl_context=trusts
        )

    version("pg8000")
    checks(connect)
    with closing(connect()) as db:
        works(db, "tls_pg8000", lambda _: "%s")


def use_asyncpg():
    import asyncpg

    async def work(db):
        expect(tuple(await db.fetchrow(WHO)), (USER, True))
        await db.execute("CREATE TABLE tls_asyncpg (k INT PRIMARY KEY, t TEXT)")
        await db.copy_records_to_table("tls_asyncpg", records=ROWS)
        found = await db.fetch("SELECT k, t FROM tls_asyncpg WHERE k < $1 ORDER BY k", 9)
        expect([tuple(row) for row in found], ROWS)
        await db.execute("DROP TABLE tls_asyncpg")
        try:
            await db.execute("SELECT * FROM payroll")
        except asyncpg.InsufficientPrivilegeError:
            return
        raise AssertionError("payroll was read")

    async def connected(work, how):
        db = await asyncpg.connect(url(**how))
        await work(db)
        await db.close()

    version("asyncpg")
    checks(lambda **how: asyncio.run(connected(work, how)))
    asyncio.run(connected(work, {}))


def use_sqlalchemy():
    import sqlalchemy as sa
    from sqlalchemy.ext.asyncio import create_async_engine

    version("sqlalchemy")
    payroll, who = sa.text("SELECT * FROM payroll"), sa.text(WHO)
    for driver in ("psycopg", "psycopg2"):

        def connect(**how):
            return sa.create_engine(url(scheme=f"postgresql+{driver}", **how)).connect()

        checks(connect)
        with connect() as db:
            expect(tuple(db.execute(who).one()), (USER, True))
            table = sa.Table(
                f"tls_{driver}_sa",
                sa.MetaData(),
                sa.Column("k", sa.Integer, primary_key=True, autoincrement=False),
                sa.Column("t", sa.Text),
            )
            table.create(db)
            db.execute(table.insert(), [{"k": k, "t": t} for k, t in ROWS])
            found = db.execute(sa.select(table).order_by(table.c.k))
            expect([tuple(row) for row in found], ROWS)
            table.drop(db)
            db.commit()
            refused("permission denied", lambda: db.execute(payroll))

    async def asynchronously():
        trusts = ssl.create_default_context(cafile=CA)
        engine = create_async_engine(
            f"postgresql+asyncpg://{USER}:{PASSWORD}@{HOST}:{PORT}/{DATABASE}", connect_args={"ssl": trusts}
        )
        async with engine.connect() as db:
            expect(tuple((await db.execute(who)).one()), (USER, True))
        await engine.dispose()

    asyncio.run(asynchronously())


def use_adbc():
    import adbc_driver_postgresql.dbapi as adbc
    import pyarrow as pa

    def connect(**how):
        return adbc.connect(url(**how))

    version("adbc-driver-postgresql")
    checks(connect)
    with connect() as db:
        works(db, "tls_adbc", lambda at: f"${at}")
        db.rollback()
        with db.cursor() as cursor:
            many = pa.table({"k": pa.array(range(50_000)), "t": [f"v{at}" for at in range(50_000)]})
            expect(cursor.adbc_ingest("tls_ingested", many, mode="create"), 50_000)
            cursor.execute("SELECT k, t FROM tls_ingested ORDER BY k")
            expect(cursor.fetch_arrow_table().equals(many), True)
            cursor.execute("DROP TABLE tls_ingested")
        db.commit()


def use_polars():
    import polars as pl

    version("polars")
    # connectorx knows no verify-full; with sslrootcert, `require` checks the same.
    trusts = url().replace("verify-full", "require")
    expect(pl.read_database_uri(WHO, trusts, engine="connectorx").rows(), [(USER, True)])


def flight(host=HOST, ca=CA, **options):
    """Arrow Flight SQL with ADBC, which takes the authority's certificate itself and no file."""
    from adbc_driver_flightsql import dbapi

    options["adbc.flight.sql.client_option.tls_root_certs"] = ca.read_text()
    return dbapi.connect(f"grpc+tls://{host}:{FLIGHT_PORT}", db_kwargs=options, autocommit=True)


def bearer():
    """Logs in once with pyarrow's client; the token is the session."""
    import pyarrow.flight as fl

    with fl.FlightClient(f"grpc+tls://{HOST}:{FLIGHT_PORT}", tls_root_certs=CA.read_bytes()) as client:
        name, value = client.authenticate_basic_token(USER, PASSWORD)
    expect(name, b"authorization")
    return value.decode()


def asks(db, sql):
    with db.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


def use_flight():
    import pyarrow as pa

    def connect(password=PASSWORD, **how):
        db = flight(username=USER, password=password, **how)
        asks(db, "SELECT 1")
        return db

    version("adbc-driver-flightsql")
    refused("28p01", lambda: connect(password="wrong"))
    refused("certificate", lambda: connect(ca=OTHER_CA))
    refused("certificate", lambda: connect(host=UNNAMED))
    refused("28000", lambda: asks(flight(), "SELECT 1"))
    with connect() as db, db.cursor() as cursor:
        expect(asks(db, WHO), [(USER, True)])
        many = pa.table({"k": pa.array(range(50_000)), "t": [f"v{at}" for at in range(50_000)]})
        expect(cursor.adbc_ingest("tls_flight", many, mode="create"), 50_000)
        cursor.execute("SELECT k, t FROM tls_flight ORDER BY k")
        expect(cursor.fetch_arrow_table().to_pydict(), many.to_pydict())
        refused("42501", lambda: asks(db, "SELECT * FROM payroll"))
        refused("42501", lambda: cursor.adbc_ingest("payroll", many, mode="append"))
        asks(db, "DROP TABLE tls_flight")
    # The role's password with each call; or the token that logging in gives.
    header = "adbc.flight.sql.authorization_header"
    basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    with flight(**{header: f"Basic {basic}"}) as db:
        expect(asks(db, WHO), [(USER, True)])
    token = bearer()
    with flight(**{header: token}) as db:
        expect(asks(db, WHO), [(USER, True)])
        asks(db, "SET lazybase.freshness = '7 s'")
        expect(asks(db, "SHOW lazybase.freshness"), [("7s",)])
    # The driver ends the session when it closes, and the token with it; one that is made up is none.
    refused("08003", lambda: asks(flight(**{header: token}), "SELECT 1"))
    refused("28000", lambda: asks(flight(**{header: "Bearer k1"}), "SELECT 1"))
    # A certificate of one's own, in place of a password.
    option = "adbc.flight.sql.client_option.mtls_"
    shows = {
        option + "cert_chain": (FOLDER / "clara.crt").read_text(),
        option + "private_key": (FOLDER / "clara.key").read_text(),
    }
    with flight(**shows) as db:
        expect(asks(db, WHO), [("clara", True)])


globals()[f"use_{sys.argv[3]}"]()
