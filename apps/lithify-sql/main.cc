// lithify sql: statements to a Flight SQL server, their results as a table, CSV or JSON.
#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/flight/client.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "arrow_text.h"
#include "base/secret.h"
#include "base/text.h"
#include "exit_code.h"
#include "flightsql/messages.h"
#include "text/text_table.h"

namespace lithify::cli {
namespace {

namespace flight = arrow::flight;
using Json = nlohmann::ordered_json;

constexpr const char* kFooter = R"END(Examples:
  lithify sql -e "CALL system.table_health(table => 'sales.orders')"
  lithify sql --url grpc+tls://lake.example:50051 --token-file token -e "SHOW TABLES IN sales"
  lithify sql --format json < statements.sql

The token is LITHIFY_TOKEN of the environment, or in a file; it is never an argument, which
others on the machine could read, and goes over grpc:// to this machine only.
For probes, without a token:
  lithify sql --health   0 if the server takes statements: ready
  lithify sql --alive    0 if it answers at all, be it that it ends
Exit codes: 0 done, 1 the statement or probe failed, 2 wrong usage, 130 stopped.)END";

struct Options {
  std::string url = "grpc://127.0.0.1:50051";
  std::vector<std::string> statements;
  std::string format = "table";
  std::string token_file;
  std::string user;
  std::string password_file;
  std::string ca_file;
  std::string cert_file;
  std::string key_file;
  std::string tls_name;
  bool no_progress = false;
  bool health = false;
  bool alive = false;
  bool allow_plaintext = false;
};

// A failed step, as a person reads it.
struct Failure {
  std::string text;
  int exit_code = kFailed;
};
template <typename T>
using Outcome = std::expected<T, Failure>;

// What Arrow puts after the server's words says less than they do.
std::unexpected<Failure> Failed(const arrow::Status& status) {
  std::string text = status.message();
  text.resize(std::min(text.find(". Detail: "), text.size()));
  return std::unexpected(Failure{std::move(text), kFailed});
}
std::unexpected<Failure> Wrong(std::string text) {
  return std::unexpected(Failure{std::move(text), kUsage});
}

Outcome<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Wrong("cannot read " + path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The content without the line end that editors leave.
Outcome<Secret> ReadSecret(const std::string& path) {
  auto text = ReadFile(path);
  if (!text) return std::unexpected(text.error());
  while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
  Secret secret(*text);
  Wipe(*text);
  return secret;
}

// --- printing ------------------------------------------------------------------------------------

class Printer {
 public:
  virtual ~Printer() = default;
  virtual void Begin(const arrow::Schema& schema) = 0;
  virtual void Add(const arrow::RecordBatch& batch) = 0;
  virtual void End() = 0;
};

class CsvPrinter final : public Printer {
 public:
  void Begin(const arrow::Schema& schema) override {
    std::string line;
    for (const auto& field : schema.fields()) line += Separator(line) + CsvField(field->name());
    std::cout << line << '\n';
  }
  void Add(const arrow::RecordBatch& batch) override {
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      std::string line;
      for (const auto& column : batch.columns()) {
        const bool null = column->IsNull(row);
        line += Separator(line) + (null ? std::string() : CsvField(CellText(*column, row)));
        first_ = false;
      }
      std::cout << line << '\n';
      first_ = true;
    }
  }
  void End() override { std::cout.flush(); }

 private:
  // An empty first field is no reason to leave the comma out.
  std::string Separator(const std::string& line) const { return line.empty() && first_ ? "" : ","; }
  bool first_ = true;
};

// One object per row and line.
class JsonPrinter final : public Printer {
 public:
  void Begin(const arrow::Schema&) override {}
  void Add(const arrow::RecordBatch& batch) override {
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      Json object = Json::object();
      for (int i = 0; i < batch.num_columns(); ++i) {
        object[batch.column_name(i)] = CellJson(*batch.column(i), row);
      }
      std::cout << object.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
    }
  }
  void End() override { std::cout.flush(); }
};

bool IsNumber(const arrow::DataType& type) {
  return arrow::is_numeric(type.id()) || arrow::is_decimal(type.id());
}

// Widths are known at the end, or once there are too many rows to wait for it.
class TablePrinter final : public Printer {
 public:
  void Begin(const arrow::Schema& schema) override { schema_ = &schema; }
  void Add(const arrow::RecordBatch& batch) override {
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      std::vector<Cell> cells;
      for (const auto& column : batch.columns()) {
        cells.push_back(
            {Printable(CellText(*column, row)), column->IsNull(row) ? Tone::kDim : Tone::kPlain});
      }
      rows_.push_back(std::move(cells));
      ++count_;
      if (rows_.size() == kRowsAtOnce) Flush();
    }
  }
  void End() override {
    Flush();
    std::cout << '(' << FormatCount(count_) << (count_ == 1 ? " row" : " rows") << ")\n";
    std::cout.flush();
  }

 private:
  static constexpr size_t kRowsAtOnce = 10'000;

  void Flush() {
    if (rows_.empty()) return count_ == 0 ? PrintNames() : void();
    std::vector<TextTable::Column> columns;
    for (const auto& field : schema_->fields()) {
      columns.push_back(
          {Printable(field->name()), IsNumber(*field->type()) ? Align::kRight : Align::kLeft});
    }
    TextTable table(std::move(columns));
    for (auto& row : rows_) table.AddRow(std::move(row));
    rows_.clear();
    std::cout << table.Render(isatty(STDOUT_FILENO) == 1);
  }

  void PrintNames() {
    std::string line;
    for (const auto& field : schema_->fields()) {
      line += (line.empty() ? "" : "  ") + Printable(field->name());
    }
    std::cout << line << '\n';
  }

  const arrow::Schema* schema_ = nullptr;
  std::vector<std::vector<Cell>> rows_;
  int64_t count_ = 0;
};

std::unique_ptr<Printer> MakePrinter(const std::string& format) {
  if (format == "csv") return std::make_unique<CsvPrinter>();
  if (format == "json") return std::make_unique<JsonPrinter>();
  return std::make_unique<TablePrinter>();
}

// What the server says of a statement that runs, on one line of the terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool on) : on_(on) {}
  ~ProgressLine() { Clear(); }
  void Show(const std::string& metadata) {
    if (!on_) return;
    const Json json = Json::parse(metadata, nullptr, false);
    if (!json.is_object()) return;
    const int64_t done = json.value("bytes_done", int64_t{0});
    const int64_t total = json.value("bytes_total", int64_t{0});
    std::string text = json.value("state", "running");
    if (total > 0) {
      text += "  " + std::to_string(done * 100 / total) + "%  " + FormatBytes(done) + " of " +
              FormatBytes(total);
    }
    const std::string message = json.value("message", "");
    if (!message.empty()) text += "  " + Printable(message);
    std::fprintf(stderr, "\r\033[K%s", text.c_str());
    shown_ = true;
  }
  void Clear() {
    if (shown_) std::fputs("\r\033[K", stderr);
    shown_ = false;
  }

 private:
  const bool on_;
  bool shown_ = false;
};

// --- the client ----------------------------------------------------------------------------------

// Ctrl-C ends the call under way; the server then stops the statement.
class Interrupt {
 public:
  Interrupt() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    std::thread([this] { Watch(); }).detach();
  }
  void Set(flight::FlightStreamReader* reader) {
    const std::lock_guard lock(mutex_);
    reader_ = reader;
    if (interrupted_ && reader_ != nullptr) reader_->Cancel();
  }
  bool interrupted() const { return interrupted_; }

 private:
  void Watch() {
    for (int signal = 0; sigwait(&signals_, &signal) == 0;) {
      // Before there is anything to cancel, or for the second time: at once.
      if (interrupted_.exchange(true)) _exit(kStopped);
      const std::lock_guard lock(mutex_);
      if (reader_ == nullptr) _exit(kStopped);
      reader_->Cancel();
    }
  }

  sigset_t signals_;
  std::mutex mutex_;
  flight::FlightStreamReader* reader_ = nullptr;
  std::atomic<bool> interrupted_{false};
};

class Client {
 public:
  static Outcome<std::unique_ptr<Client>> Connect(const Options& options, Interrupt& interrupt) {
    const auto location = flight::Location::Parse(options.url);
    if (!location.ok()) return Wrong("--url: " + location.status().message());
    flight::FlightClientOptions client_options = flight::FlightClientOptions::Defaults();
    if (!options.ca_file.empty()) {
      auto roots = ReadFile(options.ca_file);
      if (!roots) return std::unexpected(roots.error());
      client_options.tls_root_certs = *std::move(roots);
    }
    if (!options.cert_file.empty()) {
      auto chain = ReadFile(options.cert_file);
      if (!chain) return std::unexpected(chain.error());
      client_options.cert_chain = *std::move(chain);
      auto key = ReadFile(options.key_file);
      if (!key) return std::unexpected(key.error());
      client_options.private_key = *std::move(key);
    }
    client_options.override_hostname = options.tls_name;
    auto connected = flight::FlightClient::Connect(*location, client_options);
    if (!connected.ok()) return Failed(connected.status());
    auto client = std::unique_ptr<Client>(new Client(options, interrupt, *std::move(connected)));
    // A probe shows nobody's token, whatever the environment has.
    if (options.health || options.alive) return client;
    if (auto known = client->Identify(); !known) return std::unexpected(known.error());
    return client;
  }

  // Whether the server takes statements, or (options.alive) answers; needs no token.
  Outcome<void> CheckHealth() {
    flight::FlightCallOptions call;
    call.timeout = flight::TimeoutDuration{5.0};
    const auto results = client_->DoAction(call, {"HealthCheck", arrow::Buffer::FromString("")});
    if (!results.ok()) return Failed(results.status());
    const auto result = (*results)->Next();
    if (!result.ok()) return Failed(result.status());
    const std::string text = *result && (*result)->body ? (*result)->body->ToString() : "";
    std::cout << text << '\n';
    const Json json = Json::parse(text, nullptr, false);
    const std::string status = json.is_object() ? json.value("status", "") : "";
    if (status == "serving" || (options_.alive && !status.empty())) return {};
    return std::unexpected(Failure{"the server takes no statements", kFailed});
  }

  Outcome<void> Run(const std::string& statement) {
    const auto descriptor = flight::FlightDescriptor::Command(
        flightsql::PackCommand(flightsql::StatementQuery{.query = statement}));
    const auto info = client_->GetFlightInfo(call_, descriptor);
    if (!info.ok()) return Failed(info.status());
    for (const flight::FlightEndpoint& endpoint : (*info)->endpoints()) {
      if (auto read = Read(endpoint); !read) return read;
    }
    return {};
  }

 private:
  Client(const Options& options, Interrupt& interrupt, std::unique_ptr<flight::FlightClient> client)
      : options_(options), interrupt_(interrupt), client_(std::move(client)) {}

  // Nobody's token crosses a network in plaintext.
  Outcome<void> CheckTransport() const {
    const std::string& url = options_.url;
    if (url.starts_with("grpc+tls://") || options_.allow_plaintext) return {};
    const std::string host = url.substr(std::min(url.find("://") + 3, url.size()));
    for (const std::string_view here : {"127.", "localhost", "[::1]"}) {
      if (host.starts_with(here)) return {};
    }
    return Wrong(
        "the token would cross the network in plaintext: write grpc+tls://, or give "
        "--allow-plaintext");
  }

  Outcome<void> Identify() {
    if (!options_.user.empty()) {
      if (auto safe = CheckTransport(); !safe) return safe;
      const auto password = ReadSecret(options_.password_file);
      if (!password) return std::unexpected(password.error());
      const auto header = client_->AuthenticateBasicToken({}, options_.user, password->Reveal());
      if (!header.ok()) return Failed(header.status());
      call_.headers.push_back(*header);
      return {};
    }
    Secret token;
    if (!options_.token_file.empty()) {
      auto read = ReadSecret(options_.token_file);
      if (!read) return std::unexpected(read.error());
      token = *std::move(read);
    } else if (const char* variable = std::getenv("LITHIFY_TOKEN")) {  // NOLINT(concurrency-*)
      token = Secret(variable);
    }
    if (token.empty()) return {};
    if (auto safe = CheckTransport(); !safe) return safe;
    call_.headers.emplace_back("authorization", "Bearer " + token.Reveal());
    return {};
  }

  Outcome<void> Read(const flight::FlightEndpoint& endpoint) {
    auto opened = client_->DoGet(call_, endpoint.ticket);
    if (!opened.ok()) return Failed(opened.status());
    const auto reader = *std::move(opened);
    interrupt_.Set(reader.get());
    auto read = Print(*reader);
    interrupt_.Set(nullptr);
    // What was read in whole was done.
    if (!read && interrupt_.interrupted()) return std::unexpected(Failure{"stopped", kStopped});
    return read;
  }

  Outcome<void> Print(flight::FlightStreamReader& reader) {
    ProgressLine progress(!options_.no_progress && isatty(STDERR_FILENO) == 1);
    const auto printer = MakePrinter(options_.format);
    const auto schema = reader.GetSchema();
    if (!schema.ok()) return Failed(schema.status());
    printer->Begin(**schema);
    for (;;) {
      const auto chunk = reader.Next();
      if (!chunk.ok()) return Failed(chunk.status());
      if (!chunk->data && !chunk->app_metadata) break;
      if (chunk->app_metadata) progress.Show(chunk->app_metadata->ToString());
      if (!chunk->data || chunk->data->num_rows() == 0) continue;
      progress.Clear();
      printer->Add(*chunk->data);
    }
    progress.Clear();
    printer->End();
    return {};
  }

  const Options& options_;
  Interrupt& interrupt_;
  std::unique_ptr<flight::FlightClient> client_;
  flight::FlightCallOptions call_;
};

// Statements of a file, by the semicolons that are not in quotes or comments.
std::vector<std::string> SplitStatements(const std::string& text) {
  std::vector<std::string> statements(1);
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == '\n' || quote == '*') {  // In a comment.
      const bool ends = quote == '*' ? text.compare(i, 2, "*/") == 0 : c == '\n';
      if (!ends) continue;
      if (quote == '*') ++i;
      quote = 0;
      statements.back() += ' ';
      continue;
    }
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"' || c == '`') {
      quote = c;
    } else if (text.compare(i, 2, "--") == 0) {
      quote = '\n';
      continue;
    } else if (text.compare(i, 2, "/*") == 0) {
      quote = '*';
      ++i;
      continue;
    } else if (c == ';') {
      statements.emplace_back();
      continue;
    }
    statements.back() += c;
  }
  std::erase_if(statements, [](const std::string& statement) {
    return statement.find_first_not_of(" \t\r\n") == std::string::npos;
  });
  return statements;
}

int Run(Options& options) {
  const bool probe = options.health || options.alive;
  if (options.statements.empty() && !probe) {
    const std::string text(std::istreambuf_iterator<char>(std::cin), {});
    options.statements = SplitStatements(text);
  }
  Interrupt interrupt;
  const auto print = [](const Failure& failure) {
    std::cout.flush();
    std::fprintf(stderr, "lithify: %s\n", failure.text.c_str());
    return failure.exit_code;
  };
  const auto client = Client::Connect(options, interrupt);
  if (!client) return print(client.error());
  if (probe) {
    const auto checked = (*client)->CheckHealth();
    return checked ? kDone : print(checked.error());
  }
  for (const std::string& statement : options.statements) {
    if (const auto ran = (*client)->Run(statement); !ran) return print(ran.error());
  }
  return kDone;
}

int Main(int argc, char** argv) {
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  CLI::App app("Sends SQL statements to a Flight SQL server, such as lithify's.", "lithify sql");
  app.set_version_flag("--version", "lithify " LITHIFY_VERSION);
  app.footer(kFooter);
  Options options;
  app.add_option("--url", options.url, "grpc://host:port, or grpc+tls://host:port")
      ->envname("LITHIFY_URL")
      ->capture_default_str();
  app.add_option("-e,--execute", options.statements,
                 "A statement; may be repeated (default: those of standard input)");
  app.add_option("--format", options.format, "table, csv, or json (an object per row and line)")
      ->check(CLI::IsMember({"table", "csv", "json"}))
      ->capture_default_str();
  app.add_option("--token-file", options.token_file, "File with the bearer token");
  auto* user = app.add_option("--user", options.user, "Log in with a password");
  app.add_option("--password-file", options.password_file, "File with it")->needs(user);
  app.add_option("--ca-file", options.ca_file, "PEM file with the roots to trust");
  auto* cert = app.add_option("--cert-file", options.cert_file,
                              "PEM file with the certificate to show, where the server wants one");
  auto* key = app.add_option("--key-file", options.key_file, "PEM file with its key")->needs(cert);
  cert->needs(key);
  app.add_option("--tls-name", options.tls_name,
                 "Name in the server's certificate, where it is not that of the URL");
  app.add_flag("--allow-plaintext", options.allow_plaintext,
               "Send token or password without TLS beyond this machine, too");
  app.add_flag("--health", options.health,
               "Only ask whether the server takes statements (for probes; needs no token)");
  app.add_flag("--alive", options.alive, "Only ask whether the server answers, likewise");
  app.add_flag("--no-progress", options.no_progress, "No progress on the terminal");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  if (!options.user.empty() && options.password_file.empty()) {
    std::fputs("lithify: --user needs --password-file\n", stderr);
    return kUsage;
  }
  return Run(options);
}

}  // namespace
}  // namespace lithify::cli

int main(int argc, char** argv) {
  try {
    return lithify::cli::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lithify: internal: %s\n", error.what());
    return lithify::cli::kFailed;
  }
}
