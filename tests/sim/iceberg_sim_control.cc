// Negative control: built with one guard of the Iceberg commit broken, this program succeeds only
// if the simulation sees it, within the given number of seeds.

#include <charconv>
#include <cstdint>
#include <iostream>
#include <string_view>

#include "iceberg_world.h"

int main(int argc, char** argv) {
  uint64_t seeds = 0;
  const std::string_view text = argc == 2 ? argv[1] : "";
  if (std::from_chars(text.data(), text.data() + text.size(), seeds).ec != std::errc()) {
    std::cerr << "usage: iceberg_sim_control SEEDS\n";
    return 2;
  }
  lithify::sim::IcebergReport total;
  const auto seed = lithify::sim::RunIcebergSeeds(1, seeds, total);
  if (!seed) {
    std::cerr << "the broken guard was not noticed in " << seeds << " seeds\n";
    return 1;
  }
  std::cout << "noticed at seed " << *seed << ": " << *total.violation << "\n";
  return 0;
}
