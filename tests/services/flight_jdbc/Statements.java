// Statements by JDBC, each in the way that its prefix says:
//   query:   executeQuery, by a plain statement
//   prepared: prepareStatement and executeQuery
//   update:  executeUpdate
//   batch:   prepareStatement with one parameter, and executeBatch with the values after "|"
//   tables:  DatabaseMetaData.getTables of a schema, and its columns
// Prints a JSON line for each row, and {"updated": n}.
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.Statement;

public class Statements {
  public static void main(String[] args) throws Exception {
    try (Connection connection = DriverManager.getConnection(args[0])) {
      for (int i = 1; i < args.length; ++i) run(connection, args[i]);
    }
  }

  private static void run(Connection connection, String item) throws Exception {
    int colon = item.indexOf(':');
    String how = item.substring(0, colon);
    String sql = item.substring(colon + 1).trim();
    switch (how) {
      case "query":
        try (Statement statement = connection.createStatement();
            ResultSet rows = statement.executeQuery(sql)) {
          print(rows);
        }
        break;
      case "prepared":
        try (PreparedStatement statement = connection.prepareStatement(sql);
            ResultSet rows = statement.executeQuery()) {
          print(rows);
        }
        break;
      case "update":
        try (Statement statement = connection.createStatement()) {
          System.out.println("{\"updated\": " + statement.executeUpdate(sql) + "}");
        }
        break;
      case "batch":
        String[] parts = sql.split("[|]");
        try (PreparedStatement statement = connection.prepareStatement(parts[0])) {
          for (int i = 1; i < parts.length; ++i) {
            statement.setLong(1, Long.parseLong(parts[i]));
            statement.addBatch();
          }
          System.out.println("{\"batch\": " + statement.executeBatch().length + "}");
        }
        break;
      case "tables":
        DatabaseMetaData metadata = connection.getMetaData();
        try (ResultSet rows = metadata.getTables(null, sql, "%", null)) {
          print(rows);
        }
        try (ResultSet rows = metadata.getColumns(null, sql, "%", "%")) {
          print(rows);
        }
        break;
      default:
        throw new IllegalArgumentException(item);
    }
  }

  private static void print(ResultSet rows) throws Exception {
    ResultSetMetaData columns = rows.getMetaData();
    while (rows.next()) {
      StringBuilder line = new StringBuilder("{");
      for (int i = 1; i <= columns.getColumnCount(); ++i) {
        Object value = rows.getObject(i);
        line.append(i > 1 ? ", " : "").append(quote(columns.getColumnLabel(i))).append(": ");
        boolean bare = value == null || value instanceof Number || value instanceof Boolean;
        line.append(bare ? String.valueOf(value) : quote(value.toString()));
      }
      System.out.println(line.append("}"));
    }
  }

  private static String quote(String text) {
    StringBuilder out = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      if (c == '"' || c == '\\') out.append('\\').append(c);
      else if (c < ' ') out.append(String.format("\\u%04x", (int) c));
      else out.append(c);
    }
    return out.append('"').toString();
  }
}
