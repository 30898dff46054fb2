#include "reread_schedule.h"

#include "job_world.h"
#include "storage/faulty_store.h"

namespace lithify::sim {

std::optional<std::string> RunRereadSchedule() {
  JobWorld world;
  const std::string prefix = JobWorld::Hour("10");
  const std::string manifest_key = prefix + std::string(table::kManifestName);
  world.WriteFive(prefix);
  if (!world.Sweep()) return "the first sweep failed";
  const HiveManifest compacted = world.Manifest(prefix);
  if (compacted.retired.size() != 5) return "the first sweep did not compact";
  world.clock.Advance(std::chrono::minutes(61));

  // Loading ends with the manifest, of which the listing told the time; the roll-back comes right
  // after it.
  bool rolled_back = false;
  storage::FaultyStore seen(
      world.store, [&](std::string_view op, const std::string& key, bool before) -> Status {
        if (rolled_back || before || op != "Get" || key != manifest_key) return {};
        rolled_back = true;
        const auto current = table::ReadManifest(world.store, prefix);
        HiveManifest next = compacted;
        next.generation = compacted.generation + 1;
        next.files = {"f1.parquet", "f2.parquet", "f3.parquet", "f4.parquet", "f5.parquet"};
        next.retired.clear();
        LITHIFY_TRY_ASSIGN(const std::string text, table::SerializeManifest(next));
        return world.store.PutIf(manifest_key, text, (*current)->version);
      });
  auto job = world.Job(seen);
  if (const auto report = job.Collect({}, false, CancelFlag()); !report) {
    return report.error().ToString();
  }
  if (!rolled_back) return "the schedule did not take place";
  const std::set<std::string> names = world.Names(prefix);
  for (const std::string& name : world.Manifest(prefix).files) {
    if (!names.contains(name)) return "live file " + name + " was removed";
  }
  return std::nullopt;
}

}  // namespace lithify::sim
