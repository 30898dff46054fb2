// Messages of Flight SQL from strangers: commands, tickets, bodies of actions. What is taken comes
// back from its own bytes.
#include "flightsql/messages.h"
#include "fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace flightsql = lithify::flightsql;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto command = flightsql::ParseCommand(bytes)) {
    const std::string packed = flightsql::PackCommand(*command);
    const auto again = lithify::fuzz::Must(flightsql::ParseCommand(packed), "a command of ours");
    lithify::fuzz::Require(again.index() == command->index(), "the same command");
    lithify::fuzz::Require(flightsql::PackCommand(again) == packed, "the same bytes");
  }
  (void)flightsql::ParseCreatePrepared(bytes).has_value();
  (void)flightsql::ParseClosePrepared(bytes).has_value();
  (void)flightsql::ParseCancelQuery(bytes).has_value();
  (void)flightsql::ParsePrepared(bytes).has_value();
  (void)flightsql::ParseUpdateCount(bytes).has_value();
  return 0;
}
