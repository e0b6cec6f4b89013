"""The first lines with pandas, as docs/user/connecting.md shows them."""

import pandas
import sqlalchemy


def readings(url, frame):
    engine = sqlalchemy.create_engine(url)
    frame.to_sql("readings", engine, index=False, if_exists="append", method="multi", chunksize=1000)
    return pandas.read_sql("SELECT * FROM readings FRESHNESS 30", engine)
