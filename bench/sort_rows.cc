// Rows per second of src/sort/row_sorter.h for keys of several shapes, in memory and beyond it,
// beside what bounds them: copying the keys, and std::stable_sort of (prefix, row) or of row
// numbers by whole keys. Rounds of all are interleaved, so that whatever else the machine does hits
// all alike; medians are printed.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "sort/row_sorter.h"

namespace lithify::sort {
namespace {

constexpr size_t kBatch = 1 << 16;

// Batches of keys, and which of them begin an input.
struct Keys {
  std::vector<KeyRows> batches;
  std::vector<bool> begins;
  size_t rows = 0;
  int64_t bytes = 0;
};

void Finish(Keys& keys) {
  for (const KeyRows& batch : keys.batches) {
    keys.rows += batch.size();
    keys.bytes += static_cast<int64_t>(batch.size() * sizeof(uint64_t) + batch.bytes.size());
  }
}

// `inputs` equal inputs, whose prefixes come from next(input, i of it).
template <typename F>
Keys Make(size_t rows, size_t inputs, const F& next) {
  Keys out;
  for (size_t input = 0; input < inputs; ++input) {
    const size_t count = rows / inputs;
    for (size_t i = 0; i < count; ++i) {
      if (i % kBatch == 0) {
        out.batches.emplace_back();
        out.begins.push_back(i == 0);
      }
      next(input, i, count, out.batches.back());
    }
  }
  Finish(out);
  return out;
}

std::map<std::string, Keys> MakeShapes(size_t rows) {
  SeededRandom random(1);
  std::map<std::string, Keys> out;
  const auto prefix = [](uint64_t value, KeyRows& keys) { keys.prefixes.push_back(value); };
  out["random"] =
      Make(rows, 1, [&](size_t, size_t, size_t, KeyRows& keys) { prefix(random.Next(), keys); });
  out["nearly sorted"] = Make(rows, 1, [&](size_t, size_t i, size_t, KeyRows& keys) {
    prefix((i << 20) + (random.Next() % 100 == 0 ? random.Next() >> 12 : 0), keys);
  });
  out["few distinct"] = Make(rows, 1, [&](size_t, size_t, size_t, KeyRows& keys) {
    prefix(random.Next() % 100 << 48, keys);
  });
  out["in order"] =
      Make(rows, 1, [&](size_t, size_t i, size_t, KeyRows& keys) { prefix(i << 20, keys); });
  out["16 in order, disjoint"] = Make(rows, 16, [&](size_t n, size_t i, size_t of, KeyRows& keys) {
    prefix(((n * 7 % 16) * of + i) << 20, keys);
  });
  out["8 in order, overlapping"] = Make(rows, 8, [&](size_t n, size_t i, size_t, KeyRows& keys) {
    prefix((i << 20) + (random.Next() >> 45) + n, keys);
  });
  out["long, common beginnings"] = Make(rows, 1, [&](size_t, size_t, size_t, KeyRows& keys) {
    prefix(uint64_t{0x68747470733a2f2f}, keys);
    keys.bytes += "example.com/shop/";
    for (uint64_t bits = random.Next(), i = 0; i < 12; ++i, bits >>= 4) {
      keys.bytes += static_cast<char>('a' + bits % 16);
    }
    keys.ends.push_back(keys.bytes.size());
  });
  return out;
}

bool by_processor_time = false;  // On a machine that others use: of all threads together.

double Now() {
  timespec now{};
  clock_gettime(by_processor_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

double Seconds(const std::function<void()>& work) {
  const double begin = Now();
  work();
  return Now() - begin;
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double Copy(const Keys& keys) {
  std::vector<KeyRows> to(keys.batches.size());
  return Seconds([&] {
    for (size_t i = 0; i < to.size(); ++i) to[i] = keys.batches[i];
  });
}

double Library(const Keys& keys) {
  if (!keys.batches[0].has_rests()) {
    std::vector<std::pair<uint64_t, uint32_t>> all;
    for (const KeyRows& batch : keys.batches) {
      for (const uint64_t prefix : batch.prefixes) {
        all.emplace_back(prefix, static_cast<uint32_t>(all.size()));
      }
    }
    return Seconds([&] {
      std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.first < b.first; });
    });
  }
  std::vector<std::string_view> rests;
  for (const KeyRows& batch : keys.batches) {
    for (size_t i = 0; i < batch.size(); ++i) rests.push_back(batch.rest(i));
  }
  std::vector<uint32_t> all(keys.rows);
  std::iota(all.begin(), all.end(), 0U);
  return Seconds([&] {
    std::ranges::stable_sort(all, [&](uint32_t a, uint32_t b) { return rests[a] < rests[b]; });
  });
}

struct Spilled {
  int64_t runs = 0;
  int64_t bytes = 0;
};

double Sorted(const Keys& keys, int64_t memory, int threads, const std::string& directory,
              Spilled& spilled) {
  const auto spill = SpillDirectory::Open(directory, 0);
  LITHIFY_CHECK(spill.has_value(), "no directory to spill to");
  const auto sorter =
      MakeRowSorter({.memory_bytes = memory, .threads = threads, .spill = spill->get()});
  KeyRows batch;
  double filling = 0;  // Filling the batch is not the sorter's work.
  const double all = Seconds([&] {
    for (size_t i = 0; i < keys.batches.size(); ++i) {
      filling += Seconds([&] { batch = keys.batches[i]; });
      LITHIFY_CHECK(sorter->Add(batch, keys.begins[i]).has_value(), "Add() failed");
    }
    const auto sorted = sorter->Finish();
    LITHIFY_CHECK(sorted.has_value() && sorted->rows.size() == keys.rows, "Finish() failed");
    spilled = {sorted->runs_spilled, (*spill)->bytes_most()};
  });
  return all - filling;
}

int Run(size_t rows, int rounds, int64_t memory_bytes, int threads, const std::string& only,
        const std::string& directory) {
  std::printf("%zu rows, %d threads, %d rounds; millions of rows/s: medians\n", rows, threads,
              rounds);
  std::printf("%-26s %8s %8s %9s %9s %9s  %s\n", "shape", "copy", "std", "1 thread", "threads",
              "spilled", "spilled: runs, bytes a row of keys");
  std::map<std::string, Keys> shapes = MakeShapes(rows);
  for (auto& [name, keys] : shapes) {
    if (!only.empty() && name.find(only) == std::string::npos) continue;
    std::vector<std::vector<double>> seconds(5);
    Spilled spilled;
    Spilled none;
    const int64_t ample = int64_t{1} << 40;
    const int64_t little = memory_bytes > 0 ? memory_bytes : keys.bytes / 8;
    for (int round = 0; round < rounds; ++round) {
      seconds[0].push_back(Copy(keys));
      seconds[1].push_back(Library(keys));
      seconds[2].push_back(Sorted(keys, ample, 1, directory, none));
      seconds[3].push_back(Sorted(keys, ample, threads, directory, none));
      seconds[4].push_back(Sorted(keys, little, threads, directory, spilled));
    }
    std::printf("%-26s", name.c_str());
    for (size_t i = 0; i < seconds.size(); ++i) {
      std::printf(" %*.1f", i < 2 ? 8 : 9,
                  static_cast<double>(keys.rows) / Median(seconds[i]) / 1e6);
    }
    std::printf("  %lld, %.2f of %.2f with %s\n", static_cast<long long>(spilled.runs),
                static_cast<double>(spilled.bytes) / static_cast<double>(keys.rows),
                static_cast<double>(keys.bytes) / static_cast<double>(keys.rows),
                FormatBytes(little).c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace lithify::sort

int main(int argc, char** argv) {
  CLI::App app("rows per second of sorting keys");
  size_t rows = 10'000'000;
  int rounds = 5;
  int threads = 2;
  int64_t memory_bytes = 0;
  std::string directory = "/var/tmp/lithify-sort-bench";
  std::string only;
  app.add_option("--rows", rows, "rows of each shape");
  app.add_option("--rounds", rounds, "rounds, of which the medians are printed");
  app.add_option("--threads", threads, "threads");
  app.add_option("--memory", memory_bytes,
                 "bytes of memory where it spills; 0: an eighth of the keys");
  app.add_option("--directory", directory, "where it spills to");
  app.add_option("--only", only, "shapes whose name has this");
  app.add_flag("--processor-time", lithify::sort::by_processor_time,
               "seconds of processors instead of those of a clock");
  CLI11_PARSE(app, argc, argv);
  return lithify::sort::Run(rows, rounds, memory_bytes, threads, only, directory);
}
