"""pandas: frames to tables and back through SQLAlchemy and through ADBC, in pieces, with many rows
a statement."""

import adbc_driver_postgresql.dbapi
import first_pandas
import numpy
import pandas
import sqlalchemy as sa
from common import URL, expect, version

version("pandas")
PSYCOPG = URL.replace("postgresql", "postgresql+psycopg")
engine = sa.create_engine(PSYCOPG)
rows = 1200
frame = pandas.DataFrame(
    {
        "id": numpy.arange(rows, dtype="int64"),
        "name": [f"n{at}" if at % 3 else None for at in range(rows)],
        "value": numpy.arange(rows) / 8,
        "flag": [at % 2 == 0 for at in range(rows)],
        "at": pandas.date_range("2024-01-01", periods=rows, freq="h").astype("datetime64[us]"),
    }
)


def same(found, wanted):
    wanted = wanted.reset_index(drop=True)
    expect(list(found.columns), list(wanted.columns))
    for column in wanted.columns:
        left, right = found[column], wanted[column]
        expect((column, left.isna().tolist()), (column, right.isna().tolist()))
        expect((column, left.dropna().tolist()), (column, right.dropna().tolist()))


for name, method in (("pd_rows", None), ("pd_multi", "multi")):
    frame.to_sql(name, engine, index=False, method=method, chunksize=400)
    same(pandas.read_sql(f"SELECT * FROM {name} ORDER BY id", engine), frame)
    same(pandas.read_sql_table(name, engine).sort_values("id", ignore_index=True), frame)
frame.iloc[:10].to_sql("pd_rows", engine, index=False, if_exists="append")
counted = pandas.read_sql("SELECT count(*) AS n FROM pd_rows", engine)
expect(counted["n"].tolist(), [rows + 10])
frame.iloc[:10].to_sql("pd_rows", engine, index=False, if_exists="replace", method="multi")
same(pandas.read_sql("SELECT * FROM pd_rows ORDER BY id", engine), frame.iloc[:10])
try:
    frame.to_sql("pd_rows", engine, index=False, if_exists="fail")
except ValueError:
    pass
else:
    raise AssertionError("a table that is there was made again")
same(first_pandas.readings(PSYCOPG, frame).sort_values("id", ignore_index=True), frame)
with engine.begin() as db:
    db.execute(sa.text("DROP TABLE readings"))
query = sa.text("SELECT id, value FROM pd_multi WHERE id BETWEEN :low AND :high ORDER BY id")
found = pandas.read_sql_query(query, engine, params={"low": 5, "high": 9}, index_col="id")
expect(found["value"].tolist(), [at / 8 for at in range(5, 10)])
pieces = pandas.read_sql("SELECT id FROM pd_multi ORDER BY id", engine, chunksize=500)
expect([len(piece) for piece in pieces], [500, 500, 200])
mean = pandas.read_sql(
    "SELECT date_trunc('month', at) AS month, avg(value) AS mean FROM pd_multi GROUP BY 1 ORDER BY 1",
    engine,
)
wanted = frame.groupby(frame["at"].dt.to_period("M"))["value"].mean()
expect(mean["mean"].tolist(), wanted.tolist())

with adbc_driver_postgresql.dbapi.connect(URL) as db:
    expect(frame.to_sql("pd_adbc", db, index=False), rows)
    same(pandas.read_sql("SELECT * FROM pd_adbc ORDER BY id", db), frame)
engine.dispose()
