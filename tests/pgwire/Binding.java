// Ways in which programs bind values with pgjdbc: each counts rows of `purchases`.
//
//     java -cp postgresql.jar Binding.java URL USER PASSWORD
//
// Prints a line for each way: its name, a tab, and the first value or the error.

import java.math.BigDecimal;
import java.sql.*;
import java.time.*;
import java.util.*;

public class Binding {
    interface Set { void on(PreparedStatement s) throws Exception; }

    static Connection con;

    static void way(String name, String where, Set set) {
        String said;
        try (PreparedStatement s = con.prepareStatement("SELECT count(*) AS n FROM purchases WHERE " + where)) {
            set.on(s);
            for (int again = 0; again < 2; again++) {  // the second one is prepared by the server
                try (ResultSet r = s.executeQuery()) { r.next(); r.getLong(1); }
            }
            try (ResultSet r = s.executeQuery()) { r.next(); said = String.valueOf(r.getLong(1)); }
        } catch (Exception error) {
            said = "error: " + String.valueOf(error.getMessage()).replace('\n', ' ');
        }
        System.out.println(name + "\t" + said);
    }

    public static void main(String[] told) throws Exception {
        Properties p = new Properties();
        p.setProperty("user", told[1]);
        p.setProperty("password", told[2]);
        p.setProperty("prepareThreshold", "1");
        for (String mode : new String[] {"extended", "simple"}) {
            p.setProperty("preferQueryMode", mode);
            con = DriverManager.getConnection(told[0], p);
            ways(mode + " ");
            con.close();
        }
    }

    static void ways(String mode) throws Exception {
        LocalDate day = LocalDate.of(1997, 2, 1);
        LocalDateTime noon = day.atTime(12, 0);
        way(mode + "setDate", "day >= ?", s -> s.setDate(1, java.sql.Date.valueOf(day)));
        way(mode + "setDate beside a time", "seen >= ?", s -> s.setDate(1, java.sql.Date.valueOf(day)));
        way(mode + "LocalDate", "day >= ?", s -> s.setObject(1, day));
        way(mode + "setTimestamp", "seen >= ?", s -> s.setTimestamp(1, Timestamp.valueOf(noon)));
        way(mode + "setTimestamp beside a date", "day >= ?", s -> s.setTimestamp(1, Timestamp.valueOf(day.atStartOfDay())));
        way(mode + "LocalDateTime", "seen >= ?", s -> s.setObject(1, noon));
        way(mode + "OffsetDateTime", "seen >= ?", s -> s.setObject(1, noon.atOffset(ZoneOffset.UTC)));
        way(mode + "setInt", "quantity = ?", s -> s.setInt(1, 3));
        way(mode + "setLong", "quantity = ?", s -> s.setLong(1, 3));
        way(mode + "setBigDecimal", "amount > ?", s -> s.setBigDecimal(1, new BigDecimal("12.50")));
        way(mode + "setDouble", "amount > ?", s -> s.setDouble(1, 12.5));
        way(mode + "setBoolean", "paid = ?", s -> s.setBoolean(1, true));
        way(mode + "setString", "kind = ?", s -> s.setString(1, "gift"));
        if (mode.equals("extended ")) way(mode + "setArray", "kind = ANY(?)", s -> s.setArray(1, con.createArrayOf("text", new Object[] {"gift", "own"})));
        way(mode + "setNull", "(CAST(? AS timestamp) IS NULL OR seen < CAST(? AS timestamp))", s -> { s.setNull(1, Types.TIMESTAMP); s.setNull(2, Types.TIMESTAMP); });
        way(mode + "interval as a text", "seen >= TIMESTAMP '1997-02-01' - ?::interval", s -> s.setString(1, "7 days"));
        way(mode + "number times an interval", "seen >= TIMESTAMP '1997-02-01' - ? * INTERVAL '1 day'", s -> s.setInt(1, 7));
    }
}
