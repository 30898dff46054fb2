// Runs a target on the files below the paths that are given, each once: inputs that once broke
// something, and small good ones. Part of the ordinary tests, without the fuzzer's library.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz_input.h"

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    const size_t before = files.size();
    if (fs::is_regular_file(argv[i])) files.emplace_back(argv[i]);
    if (fs::is_directory(argv[i])) {
      for (const auto& entry : fs::recursive_directory_iterator(argv[i])) {
        if (entry.is_regular_file()) files.push_back(entry.path());
      }
    }
    if (files.size() == before) {
      std::fprintf(stderr, "no input at %s\n", argv[i]);
      return 1;
    }
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    // Before the run: the last line names the input that ends the process.
    std::printf("%s\n", file.c_str());
    std::fflush(stdout);
    std::ifstream in(file, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(in), {});
    if (in.bad() || !in.is_open()) {
      std::fprintf(stderr, "cannot read %s\n", file.c_str());
      return 1;
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
  std::printf("%zu inputs\n", files.size());
  return files.empty() ? 1 : 0;
}
