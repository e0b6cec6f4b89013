"""pgcli, without a terminal: statements, its own commands about tables, and completion's queries."""

import subprocess
import sys
import pathlib

from common import URL, expect, version

version("pgcli")
PGCLI = pathlib.Path(sys.executable).parent / "pgcli"
COMMANDS = """
CREATE TABLE pc (k INT PRIMARY KEY, t VARCHAR(20) DEFAULT 'x');
INSERT INTO pc VALUES (1, 'first'), (2, 'second');
SELECT t FROM pc ORDER BY k;
\\d
\\dt
\\d pc
\\l
\\dn
\\du
\\df
\\dT
\\di
\\dv
SELECT * FROM nothing;
SELECT 'still ' || 'here' AS said;
"""
done = subprocess.run(
    [PGCLI, URL, "--pgclirc", "/dev/null", "--no-password", "--less-chatty"],
    input=COMMANDS,
    capture_output=True,
    text=True,
    timeout=240,
)
for wanted in ("first", "second", "pc_pkey", "character varying(20)", "lazybase", "still here", "public"):
    expect((wanted, wanted in done.stdout, done.stdout + done.stderr if wanted not in done.stdout else ""), (wanted, True, ""))
for unwanted in ("Traceback", "not supported", "does not exist\nLINE", "syntax error"):
    expect((unwanted, unwanted in done.stdout + done.stderr, done.stdout if unwanted in done.stdout else ""), (unwanted, False, ""))
