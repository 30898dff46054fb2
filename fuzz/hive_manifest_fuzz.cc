// manifest.json and paths of hive partitions, and locations: read or refused, and what was accepted
// has one spelling.
#include <memory>
#include <vector>

#include "base/clock.h"
#include "fuzz_input.h"
#include "storage/locations.h"
#include "storage/memory_store.h"
#include "table/hive_layout.h"
#include "table/hive_manifest.h"

namespace lithify::fuzz {
namespace {

void Manifest(std::string_view text) {
  const auto manifest = table::ParseManifest(text);
  if (!Gave(manifest)) return;
  for (const std::string& name : manifest->files) {
    Require(IsLiveFileName(name), "files lie in their partition");
  }
  const auto written = Must(table::SerializeManifest(*manifest), "an accepted manifest");
  Require(Must(table::ParseManifest(written), "a manifest of ours") == *manifest,
          "a manifest survives being written");
}

std::vector<SeriesLayout> Layouts() {
  std::vector<SeriesLayout> layouts = table::OuriosLayout();
  SeriesLayout dates;
  dates.name = "dates";
  dates.columns = {{"date", ColumnRole::kDate}, {"region", ColumnRole::kOther}};
  layouts.push_back(dates);
  return layouts;
}

void Path(std::string_view text) {
  static const std::vector<SeriesLayout> layouts = Layouts();
  const auto decoded = table::DecodeHiveValue(text);
  if (Gave(decoded)) {
    Require(table::EncodeHiveValue(*decoded) == text, "one spelling of a value");
  }
  const std::string encoded = table::EncodeHiveValue(text);
  if (IsUtf8(text)) {
    Require(Must(table::DecodeHiveValue(encoded), "an encoded value") == text, "any text survives");
  }
  for (const SeriesLayout& layout : layouts) {
    const auto partition = table::ParsePartition(layout, text);
    if (!Gave(partition)) continue;
    Require(partition->key_prefix == text, "one spelling of a partition");
    std::vector<std::string> values;
    for (const auto& [name, value] : partition->values) values.push_back(value);
    Require(Must(table::MakePartition(layout, values), "values of a partition") == *partition,
            "a path is what its values make");
  }
}

void Location(std::string_view text) {
  static const SystemClock clock;
  static const auto locations =
      storage::MakeStoreLocations(std::make_shared<storage::MemoryStore>(clock), "s3", "bucket");
  const auto canonical = locations->Canonical(text);
  if (!Gave(canonical)) return;
  Require(Must(locations->Canonical(*canonical), "a canonical location") == *canonical,
          "one spelling of a location");
  const auto place = locations->Resolve(text);
  const auto again = locations->Resolve(*canonical);
  Require(Gave(place) == again.has_value(), "both spellings resolve, or none");
  if (place) Require(place->key == again->key, "one object");
  if (place) Require(storage::CheckKey(place->key).has_value(), "a well-formed key");
}

}  // namespace
}  // namespace lithify::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = lithify::fuzz::Text(data, size);
  lithify::fuzz::Manifest(text);
  lithify::fuzz::Path(text);
  lithify::fuzz::Location(text);
  return 0;
}
