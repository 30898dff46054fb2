// A writer that hosts its own compactor.
//
//   ingest_and_compact SOURCE ROOT [FILES] [FILES_PER_SECOND]
//
// SOURCE holds small Parquet files (*.parquet, any schema, all alike). The program plays a writer:
// it puts FILES (default 400) copies of them into ROOT, in batches of 40 per partition, each under
// a fresh name, written aside and renamed, so that no reader ever sees half a file. It does so
// twice: first alone, then with lithify compacting in the background, and prints both rates.
// FILES_PER_SECOND paces the writer; 0 (the default) writes as fast as it can.
#include <fcntl.h>
#include <lithify/compactor.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kFilesPerPartition = 40;

// No time in the path: a partition is sealed a grace after its newest file, so the compactor works
// right behind the writer, and adopts what arrives late.
constexpr const char* kConfig = R"([layout]
preset = "none"
[compaction]
grace = "1s"
[[series]]
name = "data"
partition_columns = ["ingest_run", "ingest_batch"]
)";

std::vector<std::string> ReadSources(const fs::path& directory) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".parquet") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> contents;
  for (const fs::path& path : paths) {
    std::ostringstream bytes;
    bytes << std::ifstream(path, std::ios::binary).rdbuf();
    contents.push_back(std::move(bytes).str());
  }
  return contents;
}

// Durable and atomic: written under a name that nobody reads, synced, renamed.
bool WriteFile(const fs::path& path, const std::string& bytes) {
  const fs::path aside = path.string() + ".tmp";
  const int fd = open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = write(fd, bytes.data() + done, bytes.size() - done);
    if (put <= 0) break;
    done += static_cast<size_t>(put);
  }
  const bool ok = done == bytes.size() && fsync(fd) == 0;
  return (close(fd) == 0) && ok && rename(aside.c_str(), path.c_str()) == 0;
}

struct Rate {
  double files_per_second = 0;
  double mib_per_second = 0;
};

// Writes `files` files as run `run` and measures. Ends the process on an error.
Rate Ingest(const fs::path& root, const std::vector<std::string>& sources, int run, int files,
            double files_per_second) {
  const auto start = Clock::now();
  double bytes = 0;
  for (int i = 0; i < files; ++i) {
    char batch[64];
    std::snprintf(batch, sizeof(batch), "data/ingest_run=%d/ingest_batch=%04d", run,
                  i / kFilesPerPartition);
    char name[32];
    std::snprintf(name, sizeof(name), "%08d.parquet", i);
    fs::create_directories(root / batch);
    const std::string& source = sources[static_cast<size_t>(i) % sources.size()];
    if (!WriteFile(root / batch / name, source)) {
      std::perror((root / batch / name).c_str());
      std::exit(1);
    }
    bytes += static_cast<double>(source.size());
    if (files_per_second > 0) {
      std::this_thread::sleep_until(start +
                                    std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>((i + 1) / files_per_second)));
    }
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return {.files_per_second = files / seconds, .mib_per_second = bytes / seconds / (1 << 20)};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s SOURCE ROOT [FILES] [FILES_PER_SECOND]\n", argv[0]);
    return 2;
  }
  const int files = argc > 3 ? std::atoi(argv[3]) : 400;
  const double pace = argc > 4 ? std::atof(argv[4]) : 0;
  const std::vector<std::string> sources = ReadSources(argv[1]);
  if (sources.empty() || files < 1) {
    std::fprintf(stderr, "nothing to do: %s has no *.parquet, or FILES is below 1\n", argv[1]);
    return 2;
  }
  fs::create_directories(argv[2]);

  const Rate alone = Ingest(argv[2], sources, 1, files, pace);

  std::string error;
  const auto compactor =
      lithify::Compactor::Open({.root = argv[2], .config_text = kConfig}, &error);
  if (!compactor) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return 1;
  }
  std::atomic<long> merged{0};
  std::atomic<long> into{0};
  lithify::Compactor::Events events;
  events.on_partition = [&](const lithify::Compactor::PartitionEvent& event) {
    if (event.outcome != "committed") return;
    merged += event.files_in;
    into += event.files_out;
  };
  events.on_error = [](const std::string& what) { std::fprintf(stderr, "%s\n", what.c_str()); };
  compactor->Start(std::chrono::milliseconds(200), events);
  const Rate beside = Ingest(argv[2], sources, 2, files, pace);
  compactor->Stop();
  const auto last = compactor->RunOnce(events);

  std::printf("writer alone:           %7.1f files/s  %7.1f MiB/s\n", alone.files_per_second,
              alone.mib_per_second);
  std::printf("writer and compactor:   %7.1f files/s  %7.1f MiB/s  (%.0f %% of alone)\n",
              beside.files_per_second, beside.mib_per_second,
              100 * beside.files_per_second / alone.files_per_second);
  std::printf("compacted meanwhile:    %ld files into %ld\n", merged.load(), into.load());
  for (const std::string& what : last.errors) std::fprintf(stderr, "%s\n", what.c_str());
  return last.ok() ? 0 : 1;
}
