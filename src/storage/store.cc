#include "storage/store.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"

namespace lithify::storage {

Status CheckKey(std::string_view key) {
  const auto bad = [&](std::string_view why) {
    return Fail(Code::kInvalid, "not a well-formed key: " + std::string(why), std::string(key));
  };
  if (key.empty()) return bad("it is empty");
  if (key.find('\0') != std::string_view::npos) return bad("it has a zero byte");
  for (std::string_view rest = key;;) {
    const size_t slash = rest.find('/');
    const std::string_view segment = rest.substr(0, slash);
    if (segment.empty()) return bad("it has an empty segment, or a slash at an end");
    if (segment == "." || segment == "..") {
      return bad("it has a segment '" + std::string(segment) + "'");
    }
    if (slash == std::string_view::npos) return {};
    rest.remove_prefix(slash + 1);
  }
}

Status CheckPrefix(std::string_view prefix) {
  if (prefix.empty()) return {};
  if (!prefix.ends_with('/')) {
    return Fail(Code::kInvalid, "a prefix must end in '/'", std::string(prefix));
  }
  prefix.remove_suffix(1);
  return CheckKey(prefix);
}

Status CheckClock(const Store& store) {
  const Duration skew = store.clock_skew();
  if (std::chrono::abs(skew) <= kClockSkewMax) return {};
  return Fail(Code::kInvalid,
              "the store's clock is " + FormatDuration(std::chrono::abs(skew)) +
                  (skew > Duration::zero() ? " ahead of" : " behind") + " this machine's",
              store.Describe(), "nothing is removed by its age before the clock is set right");
}

Status CheckSize(const ObjectInfo& known, int64_t size) {
  if (size == known.size) return {};
  return Fail(Code::kCorrupt,
              "it has " + std::to_string(size) + " bytes, and not the " +
                  std::to_string(known.size) + " that its listing or the table's metadata states",
              known.key, "find out who writes to it; files of a table are never changed in place");
}

Result<std::unique_ptr<Reader>> Store::OpenKnown(const ObjectInfo& known) {
  LITHIFY_TRY_ASSIGN(auto reader, Open(known.key));
  LITHIFY_TRY(CheckSize(known, reader->size()));
  return reader;
}

Result<std::vector<ObjectInfo>> Store::List(const std::string& prefix) {
  std::vector<ObjectInfo> listed;
  LITHIFY_TRY(ListPages(prefix, ListDepth::kChildren, [&](std::vector<ObjectInfo> page) -> Status {
    std::ranges::move(page, std::back_inserter(listed));
    return {};
  }));
  std::ranges::sort(listed, {}, &ObjectInfo::key);
  return listed;
}

Result<std::vector<ObjectInfo>> Store::AbortStaleUploads(
    const std::string&, Time, const std::function<bool(const std::string& key)>&, bool) {
  return std::vector<ObjectInfo>{};
}

std::vector<Status> Store::RemoveMany(std::span<const std::string> keys) {
  std::vector<Status> removed;
  removed.reserve(keys.size());
  for (const std::string& key : keys) removed.push_back(Remove(key));
  return removed;
}

}  // namespace lithify::storage
