// pgJDBC over TLS, by a role's password: who serves is checked, and who asks.
//
// usage: java -cp DRIVER.jar PgjdbcTls.java HOST PORT USER PASSWORD FOLDER; the folder is that of
// python/over_tls.py.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

public class PgjdbcTls {
    static void expect(Object found, Object wanted) {
        if (!wanted.equals(found)) {
            throw new AssertionError(found + " is not " + wanted);
        }
    }

    interface Action {
        Object run() throws SQLException;
    }

    /** Fails unless the action raises an error that has this SQLSTATE, or says this word. */
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

    static Connection connect(String host, String port, String user, String password, String ca)
            throws SQLException {
        return DriverManager.getConnection(
            "jdbc:postgresql://" + host + ":" + port + "/lazybase?ssl=true&sslrootcert=" + ca, user, password);
    }

    static void work(Connection db) throws SQLException {
        try (Statement statement = db.createStatement()) {
            try (ResultSet row = statement.executeQuery(
                    "SELECT current_user, ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")) {
                expect(row.next(), true);
                expect(row.getString(1), "anna");
                expect(row.getBoolean(2), true);
            }
            statement.execute("CREATE TABLE tls_jdbc (k INT PRIMARY KEY, t TEXT)");
            try (PreparedStatement put = db.prepareStatement("INSERT INTO tls_jdbc VALUES (?, ?)")) {
                for (int k = 0; k < 500; k++) {
                    put.setInt(1, k);
                    put.setString(2, "line " + k);
                    put.addBatch();
                }
                put.executeBatch();
            }
            try (ResultSet row = statement.executeQuery("SELECT count(*), max(k) FROM tls_jdbc")) {
                expect(row.next(), true);
                expect(row.getLong(1), 500L);
                expect(row.getInt(2), 499);
            }
            statement.execute("DROP TABLE tls_jdbc");
            refused("42501", () -> statement.executeQuery("SELECT * FROM payroll"));
        }
    }

    public static void main(String[] given) throws Exception {
        String host = given[0], port = given[1], user = given[2], password = given[3];
        String ca = given[4] + "/ca.crt";
        refused("28P01", () -> connect(host, port, user, "wrong", ca));
        refused("CertPath", () -> connect(host, port, user, password, given[4] + "/other/ca.crt"));
        refused("127.0.0.1", () -> connect("127.0.0.1", port, user, password, ca));
        try (Connection db = connect(host, port, user, password, ca)) {
            System.out.println("version " + db.getMetaData().getDriverVersion());
            work(db);
        }
    }
}
