// Negative control: built with one guard of the Iceberg commit broken, this program succeeds only
// if the simulation sees it, within the given number of seeds, from FIRST on; with "workers", who
// rewrite.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <iostream>
#include <string_view>

#include "iceberg_world.h"

int main(int argc, char** argv) {
  std::array<uint64_t, 2> numbers = {0, 1};  // SEEDS and FIRST.
  const bool workers = argc == 4 && std::string_view(argv[3]) == "workers";
  bool usage = argc < 2 || (argc > 3 && !workers);
  for (int i = 1; i < std::min(argc, 3) && !usage; ++i) {
    const std::string_view text = argv[i];
    uint64_t& number = numbers[static_cast<size_t>(i) - 1];
    usage = std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc();
  }
  if (usage) {
    std::cerr << "usage: iceberg_sim_control SEEDS [FIRST [workers]]\n";
    return 2;
  }
  const auto [seeds, first] = numbers;
  lithify::sim::IcebergReport total;
  using lithify::sim::Who;
  const auto seed =
      lithify::sim::RunIcebergSeeds(first, seeds, total, workers ? Who::kWorkers : Who::kJob);
  if (!seed) {
    std::cerr << "the broken guard was not noticed in " << seeds << " seeds\n";
    return 1;
  }
  std::cout << "noticed at seed " << *seed << ": " << *total.violation << "\n";
  return 0;
}
