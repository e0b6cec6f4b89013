"""polars: frames to tables and back, through ADBC, connectorx and SQLAlchemy."""

import datetime

import polars
from common import URL, expect, version
from polars.testing import assert_frame_equal

version("polars")
rows = 3000
frame = polars.DataFrame(
    {
        "id": polars.Series(range(rows), dtype=polars.Int64),
        "name": [None if at % 5 == 0 else f"n{at}" for at in range(rows)],
        "value": [at / 4 for at in range(rows)],
        "flag": [at % 2 == 0 for at in range(rows)],
        "at": [datetime.datetime(2024, 1, 1) + datetime.timedelta(minutes=at) for at in range(rows)],
        "day": [datetime.date(2024, 1, 1) + datetime.timedelta(days=at % 300) for at in range(rows)],
        "small": polars.Series([at % 100 for at in range(rows)], dtype=polars.Int32),
    }
)
for name, engine in (("pl_adbc", "adbc"), ("pl_sa", "sqlalchemy")):
    uri = URL if engine == "adbc" else URL.replace("postgresql", "postgresql+psycopg")
    frame.head(2000).write_database(name, uri, engine=engine)
    frame.tail(1000).write_database(name, uri, engine=engine, if_table_exists="append")
    query = f"SELECT * FROM {name} ORDER BY id"
    found = polars.read_database_uri(query, URL, engine="adbc")
    assert_frame_equal(found.with_columns(polars.col("small").cast(polars.Int32)), frame)
    found = polars.read_database_uri(query, URL, engine="connectorx")
    assert_frame_equal(found, frame, check_dtypes=False)
frame.head(5).write_database("pl_adbc", URL, engine="adbc", if_table_exists="replace")
found = polars.read_database_uri("SELECT count(*) AS n, sum(value) AS s FROM pl_adbc", URL, engine="adbc")
expect(found.rows(), [(5, 2.5)])
parted = polars.read_database_uri(
    "SELECT id, value FROM pl_sa", URL, partition_on="id", partition_num=3, engine="connectorx"
)
expect((parted.height, parted["id"].n_unique()), (rows, rows))
