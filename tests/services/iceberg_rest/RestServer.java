import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.io.PositionOutputStream;
import org.apache.iceberg.io.SeekableInputStream;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/**
 * Iceberg's own REST catalog servlet (the one its tests run against) over its JDBC catalog, with
 * SQLite and the local file system: RestServer DIRECTORY PORT_FILE. Binds loopback, a free port.
 */
public class RestServer {
  public static class LocalFileIO implements FileIO {
    private static File file(String location) {
      return new File(location.replaceFirst("^file:(//)?", ""));
    }

    // Iceberg's own local files drop the scheme from their location; these keep it as it was given.
    @Override
    public InputFile newInputFile(String location) {
      InputFile local = org.apache.iceberg.Files.localInput(file(location));
      return new InputFile() {
        @Override
        public long getLength() {
          return local.getLength();
        }

        @Override
        public SeekableInputStream newStream() {
          return local.newStream();
        }

        @Override
        public String location() {
          return location;
        }

        @Override
        public boolean exists() {
          return local.exists();
        }
      };
    }

    @Override
    public OutputFile newOutputFile(String location) {
      OutputFile local = org.apache.iceberg.Files.localOutput(file(location));
      return new OutputFile() {
        @Override
        public PositionOutputStream create() {
          return local.create();
        }

        @Override
        public PositionOutputStream createOrOverwrite() {
          return local.createOrOverwrite();
        }

        @Override
        public String location() {
          return location;
        }

        @Override
        public InputFile toInputFile() {
          return newInputFile(location);
        }
      };
    }

    @Override
    public void deleteFile(String location) {
      file(location).delete();
    }

    @Override
    public Map<String, String> properties() {
      return Map.of();
    }

    @Override
    public void initialize(Map<String, String> properties) {}
  }

  private static void writePort(Path file, int port) throws IOException {
    Path draft = file.resolveSibling(file.getFileName() + ".new");
    Files.writeString(draft, Integer.toString(port));
    Files.move(draft, file, java.nio.file.StandardCopyOption.ATOMIC_MOVE);
  }

  public static void main(String[] args) throws Exception {
    Path directory = Path.of(args[0]).toAbsolutePath();
    Files.createDirectories(directory);
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize(
        "test",
        Map.of(
            CatalogProperties.URI, "jdbc:sqlite:" + directory.resolve("catalog.db"),
            CatalogProperties.WAREHOUSE_LOCATION, "file://" + directory.resolve("warehouse"),
            CatalogProperties.FILE_IO_IMPL, LocalFileIO.class.getName(),
            "jdbc.schema-version", "V1"));
    Server server = new Server();
    ServerConnector connector = new ServerConnector(server);
    connector.setHost("127.0.0.1");
    server.addConnector(connector);
    ServletContextHandler context = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    context.addServlet(
        new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    server.setHandler(context);
    server.start();
    writePort(Path.of(args[1]), connector.getLocalPort());
    server.join();
  }
}
