// Drives a server with the JDBC driver for Arrow Flight SQL; prints ok, or fails.
//
// usage: java -cp DRIVER.jar FlightJdbc.java HOST PORT

import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

public class FlightJdbc {
    static void expect(Object found, Object wanted) {
        if (!wanted.equals(found)) {
            throw new AssertionError(found + " is not " + wanted);
        }
    }

    static Object one(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            expect(rows.next(), true);
            Object value = rows.getObject(1);
            expect(rows.next(), false);
            return value;
        }
    }

    static void queries(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE fj (k INT PRIMARY KEY, t TEXT, d DOUBLE PRECISION, at TIMESTAMP)");
            expect(statement.executeUpdate("INSERT INTO fj VALUES (1, 'one', 1.5, '2026-01-02 03:04:05')"), 1);
        }
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO fj (k, t) VALUES (?, ?)")) {
            for (int k = 2; k < 100; k++) {
                insert.setInt(1, k);
                insert.setString(2, "v" + k);
                insert.addBatch();
            }
            expect(insert.executeBatch().length > 0, true);
        }
        expect(one(connection, "SELECT count(*) FROM fj"), 99L);
        try (PreparedStatement find = connection.prepareStatement("SELECT t FROM fj WHERE k = ?")) {
            find.setInt(1, 42);
            try (ResultSet rows = find.executeQuery()) {
                expect(rows.next(), true);
                expect(rows.getString("t"), "v42");
                expect(rows.next(), false);
            }
        }
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT * FROM fj WHERE k = 1")) {
            rows.next();
            expect(rows.getDouble("d"), 1.5);
            expect(rows.getTimestamp("at") != null, true);
        }
        int seen = 0;
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT generate_series FROM generate_series(1, 200000)")) {
            while (rows.next()) {
                seen++;
            }
        }
        expect(seen, 200000);
        try {
            one(connection, "SELECT * FROM nothing");
            throw new AssertionError("nothing is there");
        } catch (SQLException error) {
            expect(error.getMessage().contains("42P01"), true);
        }
    }

    static void sessions(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("SET lazybase.freshness = '5 s'");
        }
        expect(one(connection, "SHOW lazybase.freshness"), "5s");
        // The driver does nothing for setAutoCommit: transactions are said in SQL.
        try (Statement statement = connection.createStatement()) {
            statement.execute("BEGIN");
            statement.executeUpdate("INSERT INTO fj (k) VALUES (1000)");
            statement.execute("ROLLBACK");
            statement.execute("BEGIN");
            statement.executeUpdate("INSERT INTO fj (k) VALUES (1001)");
            statement.execute("COMMIT");
        }
        expect(one(connection, "SELECT count(*) FROM fj WHERE k >= 1000"), 1L);
    }

    static void catalog(Connection connection) throws SQLException {
        DatabaseMetaData data = connection.getMetaData();
        expect(data.getDatabaseProductName(), "LazyBase");
        try (ResultSet tables = data.getTables(null, "public", "fj", new String[] {"TABLE"})) {
            expect(tables.next(), true);
            expect(tables.getString("TABLE_NAME"), "fj");
            expect(tables.next(), false);
        }
        try (ResultSet columns = data.getColumns(null, "public", "fj", "%")) {
            int count = 0;
            while (columns.next()) {
                count++;
            }
            expect(count, 4);
        }
        try (ResultSet keys = data.getPrimaryKeys(null, "public", "fj")) {
            expect(keys.next(), true);
            expect(keys.getString("COLUMN_NAME"), "k");
        }
        try (ResultSet keys = data.getImportedKeys(null, "public", "fj")) {
            expect(keys.next(), false);
        }
    }

    static double most(String url) throws SQLException {
        Properties options = new Properties();
        options.put("user", "me");
        options.put("password", "none");
        try (Connection db = DriverManager.getConnection(url, options);
                Statement statement = db.createStatement();
                ResultSet rows = statement.executeQuery("SELECT max(value) FROM readings")) {
            rows.next();
            return rows.getDouble(1);
        }
    }

    static void firstLines(Connection connection, String url) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE readings (sensor INT PRIMARY KEY, value DOUBLE PRECISION)");
            statement.executeUpdate("INSERT INTO readings VALUES (1, 20.5), (2, 19)");
            expect(most(url), 20.5);
            statement.execute("DROP TABLE readings");
        }
    }

    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:arrow-flight-sql://" + arguments[0] + ":" + arguments[1] + "/?useEncryption=false";
        try (Connection connection = DriverManager.getConnection(url)) {
            queries(connection);
            firstLines(connection, url);
            catalog(connection);
        }
        Properties user = new Properties();
        user.put("user", "me");
        user.put("password", "none");
        try (Connection connection = DriverManager.getConnection(url, user)) {
            sessions(connection);
        }
        System.out.println("version 18.3.0");
    }
}
