"""The first lines with ADBC over Flight SQL, as docs/user/connecting.md shows them."""

import polars
from adbc_driver_flightsql import dbapi


def readings(url, frame, gone):
    key = "adbc.flight.sql.rpc.call_header.lazybase-primary-key"
    with dbapi.connect(url, autocommit=True, db_kwargs={key: "sensor, at"}) as db, db.cursor() as cursor:
        cursor.adbc_ingest("readings", frame, mode="create_append")
        cursor.executemany("DELETE FROM readings WHERE sensor = ? AND at = ?", gone)
        cursor.execute("SELECT sensor, max(value) FROM readings GROUP BY sensor ORDER BY sensor FRESHNESS 0")
        return polars.from_arrow(cursor.fetch_arrow_table())
