// The JDBC drivers of PostgreSQL and Arrow Flight SQL over TLS, by a role's password: who serves is
// checked, and who asks.
//
// usage: java -cp DRIVER.jar OverTls.java pgjdbc|flight-jdbc HOST PORT USER PASSWORD FOLDER; the
// folder is that of python/over_tls.py.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

public class OverTls {
    static void expect(Object found, Object wanted) {
        if (!wanted.equals(found)) {
            throw new AssertionError(found + " is not " + wanted);
        }
    }

    interface Action {
        Object run() throws SQLException;
    }

    /** Fails unless the action raises an error that has this SQLSTATE, or says this word, itself or by
     * a cause. */
    static void refused(String word, Action action) throws SQLException {
        try {
            action.run();
        } catch (SQLException error) {
            StringBuilder said = new StringBuilder(String.valueOf(error.getSQLState()));
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                said.append('\n').append(cause);
            }
            if (said.indexOf(word) < 0) {
                throw error;
            }
            return;
        }
        throw new AssertionError("there should have been an error of " + word);
    }

    static Object one(Connection db, String sql) throws SQLException {
        try (Statement statement = db.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            expect(rows.next(), true);
            return rows.getObject(1);
        }
    }

    final boolean overFlight;
    final String table;
    final String port;
    final String user;

    OverTls(String driver, String port, String user) {
        overFlight = driver.equals("flight-jdbc");
        table = "tls_" + driver.replace('-', '_');
        this.port = port;
        this.user = user;
    }

    Connection connect(String host, String password, String ca) throws SQLException {
        String at = host + ":" + port;
        String url = overFlight
            ? "jdbc:arrow-flight-sql://" + at + "/?useEncryption=true&tlsRootCerts=" + ca
            : "jdbc:postgresql://" + at + "/lazybase?ssl=true&sslrootcert=" + ca;
        return DriverManager.getConnection(url, user, password);
    }

    /** What a connection says of its first query: it may not have spoken to the server before. */
    Object asked(String host, String password, String ca) throws SQLException {
        try (Connection db = connect(host, password, ca)) {
            return one(db, "SELECT 1");
        }
    }

    void work(Connection db) throws SQLException {
        expect(one(db, "SELECT current_user FROM pg_stat_ssl WHERE ssl AND pid = pg_backend_pid()"), user);
        try (Statement statement = db.createStatement()) {
            statement.execute("CREATE TABLE " + table + " (k INT PRIMARY KEY, t TEXT)");
            expect(statement.executeUpdate("INSERT INTO " + table + " VALUES (-1, 'one'), (-2, NULL)"), 2);
        }
        try (PreparedStatement put = db.prepareStatement("INSERT INTO " + table + " (k, t) VALUES (?, ?)")) {
            for (int k = 0; k < 500; k++) {
                put.setInt(1, k);
                put.setString(2, "line " + k);
                put.addBatch();
            }
            put.executeBatch();
        }
        expect(one(db, "SELECT count(*) FROM " + table), 502L);
        expect(one(db, "SELECT t FROM " + table + " WHERE k = 499"), "line 499");
        try (Statement statement = db.createStatement()) {
            statement.execute("DROP TABLE " + table);
        }
        refused("42501", () -> one(db, "SELECT * FROM payroll"));
    }

    public static void main(String[] given) throws Exception {
        String host = given[1], password = given[4], ca = given[5] + "/ca.crt";
        OverTls driver = new OverTls(given[0], given[2], given[3]);
        refused("28P01", () -> driver.asked(host, "wrong", ca));
        refused("CertPath", () -> driver.asked(host, password, given[5] + "/other/ca.crt"));
        refused("127.0.0.1", () -> driver.asked("127.0.0.1", password, ca));
        try (Connection db = driver.connect(host, password, ca)) {
            // That of Arrow Flight SQL is the one that flight.xml names.
            System.out.println("version " + (driver.overFlight ? "18.3.0" : db.getMetaData().getDriverVersion()));
            driver.work(db);
        }
    }
}
