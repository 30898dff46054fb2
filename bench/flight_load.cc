// Many clients at once on a Flight SQL server: each has a connection of its own and sends the same
// statement again and again. Prints one line of JSON: calls, seconds, and how long calls took.
//
//   flight_load URL CLIENTS CALLS STATEMENT
#include <arrow/flight/client.h>
#include <arrow/table.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "flightsql/messages.h"

namespace {

namespace flight = arrow::flight;
using Clock = std::chrono::steady_clock;

struct Load {
  std::string url;
  std::string statement;
  int64_t calls = 0;
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> failed{0};
};

arrow::Status Call(flight::FlightClient& client, const Load& load) {
  const auto descriptor = flight::FlightDescriptor::Command(
      lithify::flightsql::PackCommand(lithify::flightsql::StatementQuery{.query = load.statement}));
  ARROW_ASSIGN_OR_RAISE(const auto info, client.GetFlightInfo(descriptor));
  for (const flight::FlightEndpoint& endpoint : info->endpoints()) {
    ARROW_ASSIGN_OR_RAISE(const auto reader, client.DoGet(endpoint.ticket));
    ARROW_RETURN_NOT_OK(reader->ToTable().status());
  }
  return arrow::Status::OK();
}

// Milliseconds of each call, into `took`.
arrow::Status Run(Load& load, std::vector<double>& took) {
  ARROW_ASSIGN_OR_RAISE(const auto location, flight::Location::Parse(load.url));
  ARROW_ASSIGN_OR_RAISE(const auto client, flight::FlightClient::Connect(location));
  while (load.next.fetch_add(1) < load.calls) {
    const auto begin = Clock::now();
    if (const arrow::Status done = Call(*client, load); !done.ok()) {
      if (load.failed.fetch_add(1) == 0) std::fprintf(stderr, "%s\n", done.ToString().c_str());
    }
    took.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  return arrow::Status::OK();
}

double Percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  return sorted[std::min(sorted.size() - 1,
                         static_cast<size_t>(share * static_cast<double>(sorted.size())))];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: flight_load URL CLIENTS CALLS STATEMENT\n", stderr);
    return 2;
  }
  Load load;
  load.url = argv[1];
  load.calls = std::atoll(argv[3]);
  load.statement = argv[4];
  const auto clients = static_cast<size_t>(std::max(1, std::atoi(argv[2])));
  std::vector<std::vector<double>> took(clients);
  std::vector<std::thread> threads;
  const auto begin = Clock::now();
  for (size_t i = 0; i < clients; ++i) {
    threads.emplace_back([&load, &took, i] {
      if (const arrow::Status ran = Run(load, took[i]); !ran.ok()) {
        std::fprintf(stderr, "%s\n", ran.ToString().c_str());
        load.failed.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::vector<double> all;
  for (const auto& one : took) all.insert(all.end(), one.begin(), one.end());
  std::sort(all.begin(), all.end());
  std::printf(
      "{\"calls\": %zu, \"failed\": %lld, \"seconds\": %.3f, \"p50_ms\": %.2f, "
      "\"p99_ms\": %.2f, \"max_ms\": %.2f}\n",
      all.size(), static_cast<long long>(load.failed.load()), seconds, Percentile(all, 0.5),
      Percentile(all, 0.99), all.empty() ? 0 : all.back());
  return load.failed.load() == 0 ? 0 : 1;
}
