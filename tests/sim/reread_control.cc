// Negative control: built without the second look at the manifest, this program succeeds only if
// the directed schedule shows the loss.

#include <iostream>

#include "reread_schedule.h"

int main() {
  const auto loss = lithify::sim::RunRereadSchedule();
  if (!loss || !loss->starts_with("live file")) {
    std::cerr << "the broken guard was not noticed: " << loss.value_or("no loss") << "\n";
    return 1;
  }
  std::cout << "noticed: " << *loss << "\n";
  return 0;
}
