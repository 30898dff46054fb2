// Negative control: built with the guard of a claim broken, this program succeeds only if the
// simulation sees it within the given number of seeds.

#include <charconv>
#include <cstdint>
#include <iostream>
#include <string_view>

#include "lease_world.h"

int main(int argc, char** argv) {
  const std::string_view text = argc == 2 ? argv[1] : "";
  uint64_t seeds = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), seeds).ec != std::errc()) {
    std::cerr << "usage: lease_sim_control SEEDS\n";
    return 2;
  }
  lithify::sim::LeaseReport total;
  const auto seed = lithify::sim::RunLeaseSeeds(lithify::sim::LeaseKind::kCatalog, 1, seeds, total);
  if (!seed) {
    std::cerr << "the broken guard was not noticed in " << seeds << " seeds\n";
    return 1;
  }
  std::cout << "noticed at seed " << *seed << ": " << *total.violation << "\n";
  return 0;
}
