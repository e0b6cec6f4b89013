// The JDBC driver for Arrow Flight SQL over TLS, by a role's password: who serves is checked, and who
// asks.
//
// usage: java -cp DRIVER.jar FlightJdbcTls.java HOST PORT USER PASSWORD FOLDER; the folder is that
// of python/over_tls.py.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

public class FlightJdbcTls {
    static void expect(Object found, Object wanted) {
        if (!wanted.equals(found)) {
            throw new AssertionError(found + " is not " + wanted);
        }
    }

    interface Action {
        Object run() throws SQLException;
    }

    /** Fails unless the action raises an error that says this word, itself or by a cause. */
    static void refused(String word, Action action) throws SQLException {
        try {
            action.run();
        } catch (SQLException error) {
            StringBuilder said = new StringBuilder();
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
        Properties who = new Properties();
        who.put("user", user);
        who.put("password", password);
        return DriverManager.getConnection(
            "jdbc:arrow-flight-sql://" + host + ":" + port + "/?useEncryption=true&tlsRootCerts=" + ca, who);
    }

    static Object one(Connection db, String sql) throws SQLException {
        try (Statement statement = db.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            expect(rows.next(), true);
            return rows.getObject(1);
        }
    }

    public static void main(String[] given) throws Exception {
        String host = given[0], port = given[1], user = given[2], password = given[3];
        String ca = given[4] + "/ca.crt";
        refused("28P01", () -> one(connect(host, port, user, "wrong", ca), "SELECT 1"));
        refused("CertPath", () -> one(connect(host, port, user, password, given[4] + "/other/ca.crt"), "SELECT 1"));
        refused("127.0.0.1", () -> one(connect("127.0.0.1", port, user, password, ca), "SELECT 1"));
        try (Connection db = connect(host, port, user, password, ca)) {
            String who = "SELECT current_user FROM pg_stat_ssl WHERE ssl AND pid = pg_backend_pid()";
            expect(one(db, who), "anna");
            try (Statement statement = db.createStatement()) {
                statement.execute("CREATE TABLE tls_flight_jdbc (k INT PRIMARY KEY, t TEXT)");
                expect(statement.executeUpdate("INSERT INTO tls_flight_jdbc VALUES (1, 'one'), (2, NULL)"), 2);
            }
            expect(one(db, "SELECT t FROM tls_flight_jdbc WHERE k = 1"), "one");
            try (Statement statement = db.createStatement()) {
                statement.execute("DROP TABLE tls_flight_jdbc");
            }
            refused("42501", () -> one(db, "SELECT * FROM payroll"));
        }
        System.out.println("version 18.3.0");
    }
}
