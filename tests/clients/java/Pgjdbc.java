// pgJDBC: batches with and without rewriting, values as text and binary, statements that are
// prepared on the server, fetch sizes, COPY, savepoints, what its metadata tells, producers and
// tokens.

import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.Array;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Properties;
import java.util.UUID;
import org.postgresql.PGConnection;
import org.postgresql.util.PGobject;

public class Pgjdbc {
    static void expect(Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) {
            throw new AssertionError(found + " is not " + wanted);
        }
    }

    interface Action {
        void run() throws SQLException;
    }

    static void fails(String state, Action action) throws SQLException {
        try {
            action.run();
        } catch (SQLException error) {
            if (!state.equals(error.getSQLState())) {
                throw error;
            }
            return;
        }
        throw new AssertionError("there should have been an error " + state);
    }

    static Object one(Connection db, String sql) throws SQLException {
        try (Statement statement = db.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            expect(rows.next(), true);
            return rows.getObject(1);
        }
    }

    static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> all = new ArrayList<>();
        while (rows.next()) {
            all.add(rows.getString(name));
        }
        return all;
    }

    static void values(Connection db, String table) throws SQLException {
        try (Statement statement = db.createStatement()) {
            statement.execute("CREATE TABLE " + table + " (k INT PRIMARY KEY, b BOOLEAN, t TEXT, n DECIMAL(10, 2), "
                + "d DOUBLE PRECISION, y BYTEA, u UUID, dt DATE, ts TIMESTAMP, tz TIMESTAMPTZ, l BIGINT, "
                + "s SMALLINT, r REAL, li INT[], v VARCHAR(20))");
        }
        UUID id = UUID.fromString("0a0b0c0d-0e0f-1011-1213-141516171819");
        LocalDateTime moment = LocalDateTime.of(2020, 2, 29, 12, 30, 15, 250_000_000);
        OffsetDateTime zoned = moment.atOffset(ZoneOffset.UTC);
        String insert = "INSERT INTO " + table + " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        try (PreparedStatement put = db.prepareStatement(insert)) {
            for (int k = 0; k < 12; k++) {
                put.setInt(1, k);
                put.setBoolean(2, k % 2 == 0);
                put.setString(3, "it's \\ ünï " + k);
                put.setBigDecimal(4, new BigDecimal("12.50"));
                put.setDouble(5, k / 4.0);
                put.setBytes(6, new byte[] {0, (byte) 255, (byte) k});
                put.setObject(7, id);
                put.setDate(8, Date.valueOf("2020-02-29"));
                put.setObject(9, moment);
                put.setObject(10, zoned);
                put.setLong(11, 1L << 60);
                put.setShort(12, (short) -k);
                put.setFloat(13, 0.5f);
                put.setArray(14, db.createArrayOf("int4", new Integer[] {k, null, 7}));
                put.setNull(15, java.sql.Types.VARCHAR);
                expect(put.executeUpdate(), 1);
            }
        }
        try (PreparedStatement get = db.prepareStatement("SELECT * FROM " + table + " WHERE k = ?")) {
            for (int k = 0; k < 12; k++) {
                get.setInt(1, k);
                try (ResultSet row = get.executeQuery()) {
                    expect(row.next(), true);
                    expect(row.getBoolean("b"), k % 2 == 0);
                    expect(row.getString("t"), "it's \\ ünï " + k);
                    expect(row.getBigDecimal("n"), new BigDecimal("12.50"));
                    expect(row.getDouble("d"), k / 4.0);
                    expect(Arrays.toString(row.getBytes("y")), "[0, -1, " + k + "]");
                    expect(row.getObject("u"), id);
                    expect(row.getDate("dt"), Date.valueOf("2020-02-29"));
                    expect(row.getObject("ts", LocalDateTime.class), moment);
                    expect(row.getObject("tz", OffsetDateTime.class), zoned);
                    expect(row.getLong("l"), 1L << 60);
                    expect(row.getShort("s"), (short) -k);
                    expect(row.getFloat("r"), 0.5f);
                    Array list = row.getArray("li");
                    expect(Arrays.toString((Object[]) list.getArray()), "[" + k + ", null, 7]");
                    expect(row.getString("v"), null);
                    expect(row.wasNull(), true);
                    expect(row.next(), false);
                }
            }
        }
    }

    static void generatedKeys(Connection db, String table) throws SQLException {
        try (Statement statement = db.createStatement()) {
            statement.execute("CREATE TABLE " + table + " (k INT PRIMARY KEY, v TEXT DEFAULT 'new', n INT DEFAULT 7)");
        }
        String insert = "INSERT INTO " + table + " (k) VALUES (?)";
        try (PreparedStatement put = db.prepareStatement(insert, Statement.RETURN_GENERATED_KEYS)) {
            for (int k = 0; k < 8; k++) {
                put.setInt(1, k);
                expect(put.executeUpdate(), 1);
                try (ResultSet told = put.getGeneratedKeys()) {
                    expect(told.next(), true);
                    expect(told.getInt("k"), k);
                    expect(told.getString("v"), "new");
                    expect(told.getInt("n"), 7);
                    expect(told.next(), false);
                }
            }
        }
        try (PreparedStatement put = db.prepareStatement(insert, new String[] {"v"})) {
            for (int k = 100; k < 103; k++) {
                put.setInt(1, k);
                put.addBatch();
            }
            expect(put.executeBatch().length, 3);
            try (ResultSet told = put.getGeneratedKeys()) {
                expect(column(told, "v"), List.of("new", "new", "new"));
            }
        }
        expect(one(db, "SELECT count(*) FROM " + table), 11L);
    }

    static void batches(Connection db, String table) throws SQLException {
        try (Statement statement = db.createStatement()) {
            statement.execute("CREATE TABLE " + table + " (id BIGINT PRIMARY KEY, v TEXT, n INT)");
        }
        db.setAutoCommit(false);
        try (PreparedStatement put = db.prepareStatement("INSERT INTO " + table + " (id, v, n) VALUES (?, ?, ?)")) {
            for (int round = 0; round < 3; round++) {
                for (int at = 0; at < 1000; at++) {
                    put.setLong(1, round * 1000L + at);
                    put.setString(2, "v" + at);
                    put.setInt(3, at);
                    put.addBatch();
                }
                expect(put.executeBatch().length, 1000);
            }
        }
        db.commit();
        try (PreparedStatement put = db.prepareStatement(
                "INSERT INTO " + table + " (id, v) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v")) {
            for (int at = 0; at < 100; at++) {
                put.setLong(1, at);
                put.setString(2, "changed");
                put.addBatch();
            }
            put.executeBatch();
        }
        db.commit();
        try (PreparedStatement change = db.prepareStatement("UPDATE " + table + " SET n = ? WHERE id = ?")) {
            for (int at = 0; at < 50; at++) {
                change.setInt(1, -1);
                change.setLong(2, at);
                change.addBatch();
            }
            int[] counts = change.executeBatch();
            expect(Arrays.stream(counts).sum(), 50);
        }
        db.rollback();
        expect(one(db, "SELECT count(*) FROM " + table), 3000L);
        expect(one(db, "SELECT count(*) FROM " + table + " WHERE v = 'changed'"), 100L);
        expect(one(db, "SELECT count(*) FROM " + table + " WHERE n = -1"), 0L);
        try (PreparedStatement put = db.prepareStatement("INSERT INTO " + table + " (id, n) VALUES (?, ?::int)")) {
            for (String text : new String[] {"1", "two", "3"}) {
                put.setLong(1, 9000 + text.length());
                put.setString(2, text);
                put.addBatch();
            }
            put.executeBatch();
            throw new AssertionError("a batch with an error passed");
        } catch (BatchUpdateException error) {
            expect(error.getSQLState(), "22P02");
        }
        db.rollback();
        expect(one(db, "SELECT count(*) FROM " + table), 3000L);
        db.commit();
        db.setAutoCommit(true);
    }

    static void fetching(Connection db) throws SQLException {
        db.setAutoCommit(false);
        try (PreparedStatement get = db.prepareStatement("SELECT id, v FROM j_plain WHERE id >= ? ORDER BY id")) {
            get.setFetchSize(100);
            get.setLong(1, 500);
            try (ResultSet rows = get.executeQuery()) {
                long next = 500;
                while (rows.next()) {
                    expect(rows.getLong(1), next++);
                }
                expect(next, 3000L);
            }
            get.setMaxRows(7);
            try (ResultSet rows = get.executeQuery()) {
                expect(column(rows, "id").size(), 7);
            }
        }
        Savepoint before = db.setSavepoint("before");
        try (Statement statement = db.createStatement()) {
            expect(statement.executeUpdate("DELETE FROM j_plain WHERE id < 10"), 10);
            fails("42P01", () -> statement.executeQuery("SELECT * FROM nothing"));
            db.rollback(before);
            expect(one(db, "SELECT count(*) FROM j_plain"), 3000L);
        }
        db.commit();
        db.setAutoCommit(true);
        try (PreparedStatement get = db.prepareStatement("SELECT v FROM j_plain WHERE id = ? AND n IN (?, ?)")) {
            expect(get.getParameterMetaData().getParameterCount(), 3);
            ResultSetMetaData columns = get.getMetaData();
            expect(columns.getColumnName(1) + " " + columns.getColumnTypeName(1), "v text");
            for (int at = 200; at < 220; at++) {
                get.setLong(1, at);
                get.setInt(2, at);
                get.setInt(3, 0);
                try (ResultSet rows = get.executeQuery()) {
                    expect(column(rows, "v"), List.of("v" + at));
                }
            }
        }
        try (PreparedStatement get = db.prepareStatement("SELECT count(*) FROM j_plain WHERE id = ANY(?)")) {
            get.setArray(1, db.createArrayOf("int8", new Long[] {1L, 2L, 99_999L}));
            try (ResultSet rows = get.executeQuery()) {
                rows.next();
                expect(rows.getLong(1), 2L);
            }
        }
        try (Statement statement = db.createStatement()) {
            expect(statement.execute("SELECT 1; SELECT 2"), true);
            expect(statement.getMoreResults(), true);
            statement.getResultSet().next();
            statement.setQueryTimeout(1);
            fails("57014", () -> statement.executeQuery("SELECT count(*) FROM "
                + "generate_series(1, 1000000000000) AS s (x) WHERE x % 7 = 3"));
        }
    }

    static void copies(Connection db) throws Exception {
        var copy = db.unwrap(PGConnection.class).getCopyAPI();
        StringBuilder lines = new StringBuilder();
        for (int at = 0; at < 5000; at++) {
            lines.append(10_000 + at).append(",\"c,").append(at).append("\",\n");
        }
        expect(copy.copyIn("COPY j_plain FROM STDIN (FORMAT CSV)", new StringReader(lines.toString())), 5000L);
        StringWriter out = new StringWriter();
        expect(copy.copyOut("COPY (SELECT id, v FROM j_plain WHERE id >= 14998 ORDER BY id) TO STDOUT", out), 2L);
        expect(out.toString(), "14998\tc,4998\n14999\tc,4999\n");
    }

    static void metadata(Connection db) throws SQLException {
        try (Statement statement = db.createStatement()) {
            statement.execute("CREATE TABLE j_meta (b TEXT, a INT, v VARCHAR(20) DEFAULT 'x', n DECIMAL(8, 2) NOT NULL, "
                + "at TIMESTAMP, PRIMARY KEY (a, b))");
            statement.execute("COMMENT ON COLUMN j_meta.v IS 'told'");
            statement.execute("CREATE MATERIALIZED VIEW j_by_b AS SELECT b, a, n FROM j_meta ORDER BY b, a");
        }
        DatabaseMetaData about = db.getMetaData();
        expect(about.getDatabaseProductName(), "PostgreSQL");
        expect(about.getDatabaseMajorVersion(), 15);
        try (ResultSet rows = about.getTables(null, "public", "j\\_meta%", new String[] {"TABLE"})) {
            expect(column(rows, "TABLE_NAME"), List.of("j_meta"));
        }
        try (ResultSet rows = about.getTables(null, "public", "j_by%", new String[] {"MATERIALIZED VIEW"})) {
            expect(column(rows, "TABLE_NAME"), List.of("j_by_b"));
        }
        try (ResultSet rows = about.getTables(null, null, "j%", null)) {
            expect(column(rows, "TABLE_NAME").contains("j_plain"), true);
        }
        try (ResultSet rows = about.getColumns(null, "public", "j_meta", "%")) {
            List<String> told = new ArrayList<>();
            while (rows.next()) {
                told.add(rows.getString("COLUMN_NAME") + " " + rows.getString("TYPE_NAME") + " "
                    + rows.getInt("COLUMN_SIZE") + " " + rows.getInt("DECIMAL_DIGITS") + " "
                    + rows.getString("IS_NULLABLE") + " " + rows.getInt("ORDINAL_POSITION") + " "
                    + rows.getString("REMARKS"));
            }
            expect(told, List.of(
                "b text 2147483647 0 NO 1 null",
                "a int4 10 0 NO 2 null",
                "v varchar 20 0 YES 3 told",
                "n numeric 8 2 NO 4 null",
                "at timestamp 29 6 YES 5 null"));
        }
        try (ResultSet rows = about.getColumns(null, "public", "j_meta", "v")) {
            rows.next();
            expect(rows.getString("COLUMN_DEF").contains("x"), true);
        }
        try (ResultSet rows = about.getPrimaryKeys(null, "public", "j_meta")) {
            List<String> told = new ArrayList<>();
            while (rows.next()) {
                told.add(rows.getString("COLUMN_NAME") + " " + rows.getInt("KEY_SEQ") + " " + rows.getString("PK_NAME"));
            }
            expect(told, List.of("a 1 j_meta_pkey", "b 2 j_meta_pkey"));
        }
        try (ResultSet rows = about.getIndexInfo(null, "public", "j_meta", true, true)) {
            List<String> told = new ArrayList<>();
            while (rows.next()) {
                told.add(rows.getString("INDEX_NAME") + " " + rows.getInt("ORDINAL_POSITION") + " "
                    + rows.getString("COLUMN_NAME") + " " + rows.getBoolean("NON_UNIQUE"));
            }
            expect(told, List.of("j_meta_pkey 1 a false", "j_meta_pkey 2 b false"));
        }
        for (ResultSet rows : new ResultSet[] {
                about.getImportedKeys(null, "public", "j_meta"),
                about.getExportedKeys(null, "public", "j_meta"),
                about.getProcedures(null, "public", "%")}) {
            expect(rows.next(), false);
            rows.close();
        }
        try (ResultSet rows = about.getSchemas()) {
            expect(column(rows, "TABLE_SCHEM").contains("public"), true);
        }
        try (ResultSet rows = about.getCatalogs()) {
            expect(column(rows, "TABLE_CAT"), List.of("lazybase"));
        }
        try (ResultSet rows = about.getTypeInfo()) {
            List<String> types = column(rows, "TYPE_NAME");
            expect(types.contains("int4") && types.contains("timestamptz"), true);
        }
        try (ResultSet rows = about.getTablePrivileges(null, "public", "j_meta")) {
            rows.next();
        }
        try (ResultSet rows = about.getBestRowIdentifier(null, "public", "j_meta", DatabaseMetaData.bestRowSession, true)) {
            expect(column(rows, "COLUMN_NAME").size(), 2);
        }
        try (Statement statement = db.createStatement();
                ResultSet rows = statement.executeQuery("SELECT a, v AS shown, count(*) AS c FROM j_meta GROUP BY a, v")) {
            ResultSetMetaData columns = rows.getMetaData();
            expect(columns.getColumnCount(), 3);
            expect(columns.getColumnLabel(2), "shown");
            expect(columns.getColumnTypeName(1), "int4");
            expect(columns.isAutoIncrement(1), false);
        }
    }

    /** Writes a value for each sensor, many of them in one statement. */
    static void readings(String url, LocalDateTime at, double[] values) throws SQLException {
        Properties options = new Properties();
        options.setProperty("reWriteBatchedInserts", "true");
        try (Connection db = DriverManager.getConnection(url, options);
                PreparedStatement put = db.prepareStatement("INSERT INTO readings VALUES (?, ?, ?)")) {
            for (int sensor = 0; sensor < values.length; sensor++) {
                put.setInt(1, sensor);
                put.setObject(2, at);
                put.setDouble(3, values[sensor]);
                put.addBatch();
            }
            put.executeBatch();
        }
    }

    static void firstLines(Connection db, String url) throws SQLException {
        try (Statement statement = db.createStatement()) {
            statement.execute("CREATE TABLE readings (sensor INT, at TIMESTAMP, value FLOAT, PRIMARY KEY (sensor, at))");
            readings(url, LocalDateTime.of(2026, 1, 1, 0, 0), new double[] {19, 20.5, 18});
            expect(one(db, "SELECT count(*) FROM readings WHERE at = '2026-01-01'"), 3L);
            expect(one(db, "SELECT CAST(max(value) AS DOUBLE PRECISION) FROM readings"), 20.5);
            statement.execute("DROP TABLE readings");
        }
    }

    /** Writes rows as the batch of that number; may be called again after a lost connection. */
    static String once(String url, int number, long[][] rows) throws SQLException {
        Properties options = new Properties();
        options.setProperty("options", "-c lazybase.producer=till-3");
        try (Connection db = DriverManager.getConnection(url, options); Statement statement = db.createStatement()) {
            statement.execute("SET lazybase.batch_number = " + number);
            db.setAutoCommit(false);
            try (PreparedStatement put = db.prepareStatement("INSERT INTO sales VALUES (?, ?)")) {
                for (long[] row : rows) {
                    put.setLong(1, row[0]);
                    put.setLong(2, row[1]);
                    put.addBatch();
                }
                put.executeBatch();
            }
            db.commit();
            try (ResultSet token = statement.executeQuery("SHOW lazybase.last_token")) {
                token.next();
                return token.getString(1);
            }
        }
    }

    /** A cheap answer that holds that write. */
    static long total(String url, String token) throws SQLException {
        Properties options = new Properties();
        options.setProperty("options", "-c lazybase.freshness=best\\ effort -c lazybase.after=" + token);
        try (Connection db = DriverManager.getConnection(url, options);
                Statement statement = db.createStatement();
                ResultSet sum = statement.executeQuery("SELECT sum(cents) FROM sales")) {
            sum.next();
            return sum.getLong(1);
        }
    }

    /** What all sales come to; where that is dear to tell, what those that are sorted come to. */
    static long newest(String url) throws SQLException {
        Properties options = new Properties();
        options.setProperty("options", "-c lazybase.on_miss=error");
        try (Connection db = DriverManager.getConnection(url, options); Statement statement = db.createStatement()) {
            try (ResultSet sum = statement.executeQuery("SELECT sum(cents) FROM sales")) {
                sum.next();
                return sum.getLong(1);
            } catch (SQLException error) {
                if (!"53L01".equals(error.getSQLState())) {
                    throw error;
                }
            }
            String stale = "SELECT sum(cents) FROM sales FRESHNESS 0 ON MISS STALE";
            try (ResultSet sum = statement.executeQuery(stale)) {
                sum.next();
                return sum.getLong(1);
            }
        }
    }

    static void producers(Connection db, String url) throws SQLException {
        try (Statement statement = db.createStatement()) {
            statement.execute("CREATE TABLE sales (id BIGINT PRIMARY KEY, cents INT)");
            long[][] batch = {{1, 250}, {2, 100}};
            String first = once(url, 1, batch);
            statement.execute("DELETE FROM sales WHERE id = 2");
            expect(once(url, 1, batch), first);
            expect(one(db, "SELECT sum(cents) FROM sales"), 250L);
            expect(total(url, once(url, 2, new long[][] {{3, 50}})), 300L);
            statement.execute("SETTLE");
            statement.execute("PAUSE STAGE SORT");
            statement.execute("INSERT INTO sales VALUES (4, 1)");
            expect(newest(url), 300L);
            statement.execute("RESUME STAGE SORT");
            statement.execute("SETTLE");
            expect(newest(url), 301L);
            statement.execute("DROP TABLE sales");
        }
    }

    static void json(Connection db) throws SQLException {
        try (Statement statement = db.createStatement()) {
            statement.execute("CREATE TABLE j_json (k INT PRIMARY KEY, j JSON)");
        }
        PGobject given = new PGobject();
        given.setType("json");
        given.setValue("{\"a\": [1]}");
        try (PreparedStatement put = db.prepareStatement("INSERT INTO j_json VALUES (?, ?)")) {
            put.setInt(1, 1);
            put.setObject(2, given);
            expect(put.executeUpdate(), 1);
        }
        PGobject found = (PGobject) one(db, "SELECT j FROM j_json");
        expect(found.getType(), "json");
        expect(found.getValue(), given.getValue());
    }

    public static void main(String[] arguments) throws Exception {
        String url = arguments[0];
        String more = url + (url.contains("?") ? "&" : "?");
        try (Connection db = DriverManager.getConnection(more + "prepareThreshold=3")) {
            System.out.println("version " + db.getMetaData().getDriverVersion());
            values(db, "j_values");
            batches(db, "j_plain");
            generatedKeys(db, "j_keys");
            fetching(db);
            copies(db);
            metadata(db);
            json(db);
            firstLines(db, url);
            producers(db, url);
        }
        try (Connection db = DriverManager.getConnection(more + "reWriteBatchedInserts=true")) {
            batches(db, "j_rewritten");
            generatedKeys(db, "j_rewritten_keys");
        }
        for (String mode : new String[] {"preferQueryMode=simple", "binaryTransfer=false", "prepareThreshold=-1"}) {
            try (Connection db = DriverManager.getConnection(more + mode)) {
                values(db, "j_" + mode.replaceAll("[^a-zA-Z]", "").toLowerCase() + "_v");
                batches(db, "j_" + mode.replaceAll("[^a-zA-Z]", "").toLowerCase() + "_b");
            }
        }
    }
}
