#include "table/hive_layout.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace lithify::table {
namespace {

using storage::ObjectInfo;

std::unexpected<Error> Bad(std::string message, std::string context = {}) {
  return Fail(Code::kInvalid, std::move(message), std::move(context));
}

bool IsUnreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.' || c == '~';
}

// Upper-case hexadecimal only; -1 otherwise.
int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Exactly `width` digits.
std::optional<int> FixedNumber(std::string_view text, size_t width) {
  if (text.size() != width) return std::nullopt;
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

// The time columns read so far; the finest one present is the granularity.
struct Bucket {
  std::optional<int> year;
  std::optional<int> month;
  std::optional<int> day;
  std::optional<int> hour;

  std::chrono::year_month_day date() const {
    return {std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(month.value_or(1))),
            std::chrono::day(static_cast<unsigned>(day.value_or(1)))};
  }
  std::optional<Time> start() const {
    if (!year) return std::nullopt;
    return Time(std::chrono::sys_days(date())) + std::chrono::hours(hour.value_or(0));
  }
  std::optional<Time> end() const {
    if (!year) return std::nullopt;
    if (hour) return *start() + std::chrono::hours(1);
    if (day) return *start() + std::chrono::days(1);
    const auto next = month ? date() + std::chrono::months(1) : date() + std::chrono::years(1);
    return Time(std::chrono::sys_days(next));
  }
};

// A number of a fixed width in a range, as R199 asks.
Result<int> ReadPart(std::string_view name, std::string_view value, size_t width, int low,
                     int high) {
  const auto number = FixedNumber(value, width);
  if (!number) {
    return Bad(std::string(name) + " is '" + std::string(value) + "', not " +
               std::to_string(width) + " digits");
  }
  if (*number < low || *number > high) {
    return Bad(std::string(name) + " is " + std::string(value) + ", not from " +
               std::to_string(low) + " to " + std::to_string(high));
  }
  return *number;
}

Status CheckDate(const Bucket& bucket) {
  if (bucket.date().ok()) return {};
  return Bad("there is no day " + std::to_string(*bucket.day) + " in that month");
}

// Takes one more column's decoded value in.
Status AddTimePart(const PartitionColumn& column, const std::string& value, Bucket& bucket) {
  switch (column.role) {
    case ColumnRole::kTenant:
    case ColumnRole::kOther: return {};
    case ColumnRole::kYear: {
      LITHIFY_TRY_ASSIGN(bucket.year, ReadPart(column.name, value, 4, 1, 9999));
      return {};
    }
    case ColumnRole::kMonth: {
      LITHIFY_TRY_ASSIGN(bucket.month, ReadPart(column.name, value, 2, 1, 12));
      return {};
    }
    case ColumnRole::kDay: {
      LITHIFY_TRY_ASSIGN(bucket.day, ReadPart(column.name, value, 2, 1, 31));
      return CheckDate(bucket);
    }
    case ColumnRole::kHour: {
      LITHIFY_TRY_ASSIGN(bucket.hour, ReadPart(column.name, value, 2, 0, 23));
      return {};
    }
    case ColumnRole::kDate: {
      if (value.size() != 10 || value[4] != '-' || value[7] != '-') {
        return Bad(column.name + " is '" + value + "', not YYYY-MM-DD");
      }
      const std::string_view text = value;
      LITHIFY_TRY_ASSIGN(bucket.year, ReadPart(column.name, text.substr(0, 4), 4, 1, 9999));
      LITHIFY_TRY_ASSIGN(bucket.month, ReadPart(column.name, text.substr(5, 2), 2, 1, 12));
      LITHIFY_TRY_ASSIGN(bucket.day, ReadPart(column.name, text.substr(8, 2), 2, 1, 31));
      return CheckDate(bucket);
    }
  }
  return {};
}

// A partition, or the upper part of one, as far as its columns are read.
struct Path {
  PartitionId id;
  Bucket bucket;
};

std::string SeriesPrefix(const SeriesLayout& layout) {
  return layout.prefix.empty() ? "" : layout.prefix + "/";
}

Path RootPath(const SeriesLayout& layout) {
  Path path;
  path.id.series = layout.name;
  path.id.key_prefix = SeriesPrefix(layout);
  return path;
}

Status AddValue(const PartitionColumn& column, std::string value, Path& path) {
  if (value.empty()) return Bad(column.name + " has an empty value");
  LITHIFY_TRY(AddTimePart(column, value, path.bucket));
  path.id.key_prefix += column.name + "=" + EncodeHiveValue(value) + "/";
  if (column.role == ColumnRole::kTenant) path.id.tenant = value;
  path.id.start = path.bucket.start();
  path.id.end = path.bucket.end();
  path.id.values.emplace_back(column.name, std::move(value));
  return {};
}

// "month=07" as the next column.
Status AddSegment(const PartitionColumn& column, std::string_view segment, Path& path) {
  if (!segment.starts_with(column.name + "=")) {
    return Bad("'" + std::string(segment) + "' is not " + column.name + "=…");
  }
  const std::string_view text = segment.substr(column.name.size() + 1);
  Result<std::string> value = DecodeHiveValue(text);
  if (!value) return Fail(std::move(value.error()).In(column.name));
  return AddValue(column, std::move(*value), path);
}

// Columns that `role` needs before it, and those that it cannot stand beside.
Status CheckTimeRole(const PartitionColumn& column, const std::set<ColumnRole>& before) {
  const auto has = [&](ColumnRole role) { return before.contains(role); };
  switch (column.role) {
    case ColumnRole::kTenant:
    case ColumnRole::kOther: return {};
    case ColumnRole::kYear:
      if (has(ColumnRole::kDate)) return Bad("a year beside a date", column.name);
      return {};
    case ColumnRole::kMonth:
      if (!has(ColumnRole::kYear)) return Bad("a month without a year before it", column.name);
      return {};
    case ColumnRole::kDay:
      if (!has(ColumnRole::kMonth)) return Bad("a day without a month before it", column.name);
      return {};
    case ColumnRole::kHour:
      if (has(ColumnRole::kDay) || has(ColumnRole::kDate)) return {};
      return Bad("an hour without a day or date before it", column.name);
    case ColumnRole::kDate:
      if (has(ColumnRole::kYear)) return Bad("a date beside a year", column.name);
      return {};
  }
  return {};
}

Status CheckPrefix(const std::string& prefix) {
  if (prefix.empty()) return {};
  std::string_view rest = prefix;
  while (true) {
    const size_t slash = rest.find('/');
    const std::string_view segment = rest.substr(0, slash);
    if (segment.empty() || segment == "." || segment == "..") {
      return Bad("the prefix '" + prefix + "' has an empty, '.' or '..' segment");
    }
    if (slash == std::string_view::npos) return {};
    rest.remove_prefix(slash + 1);
  }
}

// Two series that share keys would have their partitions found, and rewritten, twice.
Status CheckSeries(const std::vector<SeriesLayout>& series) {
  std::set<std::string> names;
  std::set<std::string> prefixes;
  for (const SeriesLayout& layout : series) {
    LITHIFY_TRY(CheckLayout(layout));
    if (!names.insert(layout.name).second) return Bad("two series of this name", layout.name);
    if (!prefixes.insert(layout.prefix).second) {
      return Bad("another series has the prefix '" + layout.prefix + "' too", layout.name);
    }
  }
  return {};
}

// The walk over one series' tree. Where each listing is a round trip, one listing of all objects
// comes first if it is not more than a listing per directory would be: it goes where the walk
// would.
class Walk {
 public:
  Walk(storage::Store& store, const std::vector<SeriesLayout>& all, const SeriesLayout& layout,
       const PartitionFilter& filter, const CancelFlag& cancel, FoundPartitions& found)
      : store_(store),
        all_(all),
        layout_(layout),
        filter_(filter),
        cancel_(cancel),
        found_(found),
        root_(RootPath(layout)),
        wanted_(filter.partition) {
    if (!wanted_.empty() && !wanted_.ends_with('/')) wanted_ += '/';
  }

  Status Run() {
    LITHIFY_TRY(cancel_.Check());
    if (!store_.small_reads_are_cheap()) {
      LITHIFY_TRY_ASSIGN(const bool listed, ListAll());
      if (listed) return Visit(root_, TakenChildren(root_));
    }
    auto children = store_.List(root_.id.key_prefix);
    if (!children) return Fail(std::move(children.error()).In("series " + layout_.name));
    if (!children->empty()) ++found_.series_found;
    return Visit(root_, *children);
  }

 private:
  // Pages of a listing of all objects that may bring nothing, before it is given up for the walk.
  static constexpr size_t kPagesInVain = 16;

  // Where the filter lets a listing of all objects begin: at the directory that it names, no deeper
  // than a partition, or than where the walk would end.
  std::string ListFrom() const {
    const std::string& root = root_.id.key_prefix;
    if (wanted_.size() > root.size() && wanted_.starts_with(root) &&
        storage::CheckPrefix(wanted_)) {
      size_t end = root.size();
      do {
        end = wanted_.find('/', end) + 1;
      } while (end < wanted_.size() && IsEntered(wanted_.substr(0, end)));
      return wanted_.substr(0, end);
    }
    const PartitionColumn& first = layout_.columns.front();
    if (first.role != ColumnRole::kTenant || filter_.tenant.empty()) return root;
    return root + first.name + "=" + EncodeHiveValue(filter_.tenant) + "/";
  }

  // Fills taken_ and counts the series. False: the walk has to list the directories, because the
  // listing failed (it may be of one of them only), or brings too little.
  Result<bool> ListAll() {
    const std::string from = ListFrom();
    size_t pages = 0;
    if (OnTheWay(root_.id.key_prefix)) {
      const Status listed = store_.ListPages(
          from, storage::ListDepth::kAll, [&](const std::vector<ObjectInfo>& page) -> Status {
            LITHIFY_TRY(cancel_.Check());
            for (const ObjectInfo& object : page) Take(object.key);
            if (++pages <= kPagesInVain + entered_) return {};
            return Fail(Code::kLimit, "more pages than directories", from);
          });
      LITHIFY_TRY(cancel_.Check());
      if (!listed && listed.error().code == Code::kCancelled) return Fail(listed.error());
      if (!listed) {
        taken_.clear();
        return false;
      }
      if (from == root_.id.key_prefix || pages > 0) {
        if (pages > 0) ++found_.series_found;
        return true;
      }
    }
    LITHIFY_TRY_ASSIGN(const bool exists, IsThere());
    if (exists) ++found_.series_found;
    return true;
  }

  // Whether there is anything in the series.
  Result<bool> IsThere() {
    bool any = false;
    Status listed = store_.ListPages(root_.id.key_prefix, storage::ListDepth::kChildren,
                                     [&](const std::vector<ObjectInfo>&) -> Status {
                                       any = true;
                                       return Fail(Code::kLimit, "that is enough");
                                     });
    if (listed || any) return any;
    return Fail(std::move(listed.error()).In("series " + layout_.name));
  }

  // The directories of a key, as far as the walk would see them.
  void Take(const std::string& key) {
    // Most keys lie in the directory of the one before.
    if (!last_.empty() && key.starts_with(last_)) return;
    size_t slash = root_.id.key_prefix.size();
    while (true) {
      slash = key.find('/', slash);
      if (slash == std::string::npos) return;
      std::string directory = key.substr(0, ++slash);
      auto found = taken_.find(directory);
      if (found == taken_.end()) {
        const bool enter = IsEntered(directory);
        if (enter) ++entered_;
        found = taken_.emplace(std::move(directory), enter).first;
      }
      if (found->second) continue;
      last_ = found->first;
      return;
    }
  }

  // Whether the walk would list this directory.
  bool IsEntered(const std::string& directory) const {
    Path path = root_;
    for (size_t at = root_.id.key_prefix.size(); at < directory.size();) {
      at = directory.find('/', at) + 1;
      auto next = Next(path, directory.substr(0, at));
      if (!next || !*next || (*next)->id.values.size() == layout_.columns.size()) return false;
      path = std::move(**next);
    }
    return true;
  }

  // As the store would list them, in that order.
  std::vector<ObjectInfo> TakenChildren(const Path& path) const {
    const std::string& prefix = path.id.key_prefix;
    std::vector<ObjectInfo> children;
    auto at = taken_.upper_bound(prefix);
    while (at != taken_.end() && at->first.starts_with(prefix)) {
      children.push_back({.key = at->first, .size = 0, .modified = {}});
      // Behind all that lies in it: '0' follows '/'.
      std::string behind = at->first;
      behind.back() = '0';
      at = taken_.lower_bound(behind);
    }
    return children;
  }

  Status Descend(const Path& path) {
    LITHIFY_TRY(cancel_.Check());
    if (!taken_.empty()) return Visit(path, TakenChildren(path));
    auto children = store_.List(path.id.key_prefix);
    if (!children) {
      if (children.error().code == Code::kCancelled) return Fail(std::move(children.error()));
      found_.errors.push_back(std::move(children.error()).In(path.id.key_prefix));
      return {};
    }
    return Visit(path, *children);
  }

  Status Visit(const Path& path, const std::vector<ObjectInfo>& children) {
    for (const ObjectInfo& child : children) {
      auto next = Next(path, child.key);
      if (!next) {
        const Error& error = next.error();
        found_.skipped.push_back({child.key, error.context.empty()
                                                 ? error.message
                                                 : error.context + ": " + error.message});
      } else if (!*next) {
        continue;
      } else if ((*next)->id.values.size() < layout_.columns.size()) {
        LITHIFY_TRY(Descend(**next));
      } else if (filter_.tenant.empty() || (*next)->id.tenant == filter_.tenant) {
        found_.partitions.push_back(std::move((*next)->id));
      }
    }
    return {};
  }

  // Where the walk comes with this child of `path`; nullopt: it is no directory of the series, or
  // the filter leaves it out; kInvalid: it is not canonical, and is skipped.
  Result<std::optional<Path>> Next(const Path& path, const std::string& key) const {
    if (!key.ends_with('/') || IsSomebodyElses(path, key) || !OnTheWay(key)) {
      return std::optional<Path>();
    }
    const PartitionColumn& column = layout_.columns[path.id.values.size()];
    std::string_view segment = key;
    segment.remove_prefix(path.id.key_prefix.size());
    segment.remove_suffix(1);
    if (column.role == ColumnRole::kTenant && !filter_.tenant.empty() &&
        segment != column.name + "=" + EncodeHiveValue(filter_.tenant)) {
      return std::optional<Path>();
    }
    Path next = path;
    LITHIFY_TRY(AddSegment(column, segment, next));
    const bool wanted = !filter_.since || !next.id.end || *next.id.end > *filter_.since;
    return wanted ? std::optional<Path>(std::move(next)) : std::nullopt;
  }

  // At the top of a series: hidden directories, and the prefixes of other series.
  bool IsSomebodyElses(const Path& path, const std::string& key) const {
    if (!path.id.values.empty()) return false;
    const char first = key[path.id.key_prefix.size()];
    if (first == '_' || first == '.') return true;
    return std::ranges::any_of(all_, [&](const SeriesLayout& other) {
      return &other != &layout_ && SeriesPrefix(other).starts_with(key);
    });
  }

  // Above the wanted partition, it, or below it.
  bool OnTheWay(const std::string& key) const {
    return key.starts_with(wanted_) || wanted_.starts_with(key);
  }

  storage::Store& store_;
  const std::vector<SeriesLayout>& all_;
  const SeriesLayout& layout_;
  const PartitionFilter& filter_;
  const CancelFlag& cancel_;
  FoundPartitions& found_;
  const Path root_;
  std::string wanted_;
  // What a listing of all objects has shown, and whether the walk goes in.
  std::map<std::string, bool> taken_;
  size_t entered_ = 0;
  std::string last_;  // One of them, where it does not.
};

}  // namespace

std::string EncodeHiveValue(std::string_view value) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : value) {
    if (IsUnreserved(c)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

Result<std::string> DecodeHiveValue(std::string_view text) {
  const auto bad = [&](const std::string& what, size_t at) {
    return Bad(what + " at byte " + std::to_string(at) + " of '" + std::string(text) + "'");
  };
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '%') {
      if (!IsUnreserved(text[at])) return bad("unescaped character", at);
      out += text[at++];
      continue;
    }
    if (text.size() - at < 3) return bad("cut escape", at);
    const int high = HexDigit(text[at + 1]);
    const int low = HexDigit(text[at + 2]);
    if (high < 0 || low < 0) return bad("escape that is not % and two upper-case digits", at);
    const char byte = static_cast<char>(high * 16 + low);
    if (IsUnreserved(byte)) return bad("needless escape", at);
    out += byte;
    at += 3;
  }
  if (!IsUtf8(out)) return Bad("'" + std::string(text) + "' is not UTF-8");
  return out;
}

std::vector<SeriesLayout> OuriosLayout() {
  SeriesLayout data;
  data.name = "data";
  data.prefix = "data";
  data.columns = {{"tenant_id", ColumnRole::kTenant},
                  {"year", ColumnRole::kYear},
                  {"month", ColumnRole::kMonth},
                  {"day", ColumnRole::kDay},
                  {"hour", ColumnRole::kHour}};
  data.tenant_row_column = "tenant_id";
  data.time_row_columns = {"time_unix_nano", "observed_time_unix_nano"};
  SeriesLayout audit = data;
  audit.name = "audit";
  audit.prefix = "audit";
  audit.columns.pop_back();
  audit.time_row_columns = {"timestamp"};
  return {std::move(data), std::move(audit)};
}

Status CheckLayout(const SeriesLayout& layout) {
  const auto check = [&]() -> Status {
    if (layout.name.empty()) return Bad("a series needs a name");
    LITHIFY_TRY(CheckPrefix(layout.prefix));
    if (layout.columns.empty()) return Bad("a series needs a partition column");
    std::set<std::string> names;
    std::set<ColumnRole> roles;
    for (const PartitionColumn& column : layout.columns) {
      if (column.name.empty() || column.name.front() == '.' || column.name.front() == '_' ||
          !std::ranges::all_of(column.name, IsUnreserved)) {
        return Bad("a column name must be of A-Za-z0-9 - _ . ~ and not start with '_' or '.'",
                   "'" + column.name + "'");
      }
      if (!names.insert(column.name).second) return Bad("two columns of this name", column.name);
      LITHIFY_TRY(CheckTimeRole(column, roles));
      if (column.role != ColumnRole::kOther && !roles.insert(column.role).second) {
        return Bad("another column has the same role", column.name);
      }
    }
    return {};
  };
  Status status = check();
  if (!status) return Fail(std::move(status.error()).In("series '" + layout.name + "'"));
  return status;
}

Result<PartitionId> ParsePartition(const SeriesLayout& layout, std::string_view key_prefix) {
  const std::string series_prefix = SeriesPrefix(layout);
  std::string_view rest = key_prefix;
  if (!rest.starts_with(series_prefix)) {
    return Bad("not below '" + series_prefix + "'", std::string(key_prefix));
  }
  rest.remove_prefix(series_prefix.size());
  Path path = RootPath(layout);
  for (const PartitionColumn& column : layout.columns) {
    const size_t slash = rest.find('/');
    if (slash == std::string_view::npos) {
      return Bad("ends before " + column.name + "=…/", std::string(key_prefix));
    }
    Status added = AddSegment(column, rest.substr(0, slash), path);
    if (!added) return Fail(std::move(added.error()).In(key_prefix));
    rest.remove_prefix(slash + 1);
  }
  if (!rest.empty()) {
    return Bad("'" + std::string(rest) + "' is too deep for a partition", std::string(key_prefix));
  }
  return std::move(path.id);
}

Result<PartitionId> MakePartition(const SeriesLayout& layout,
                                  const std::vector<std::string>& values) {
  if (values.size() != layout.columns.size()) {
    return Bad("the series has " + std::to_string(layout.columns.size()) +
                   " partition columns, not " + std::to_string(values.size()),
               layout.name);
  }
  Path path = RootPath(layout);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!IsUtf8(values[i])) return Bad("the value is not UTF-8", layout.columns[i].name);
    LITHIFY_TRY(AddValue(layout.columns[i], values[i], path));
  }
  return std::move(path.id);
}

Result<FoundPartitions> FindPartitions(storage::Store& store,
                                       const std::vector<SeriesLayout>& series,
                                       const PartitionFilter& filter, const CancelFlag& cancel) {
  LITHIFY_TRY(CheckSeries(series));
  FoundPartitions found;
  for (const SeriesLayout& layout : series) {
    if (!filter.series.empty() && filter.series != layout.name) continue;
    LITHIFY_TRY(Walk(store, series, layout, filter, cancel, found).Run());
  }
  const auto rank = [](const PartitionId& id) {
    // Without a time bucket: after those that have one.
    return std::tuple(!id.start.has_value(), id.start.value_or(Time{}), id.key_prefix);
  };
  std::ranges::sort(found.partitions,
                    [&](const PartitionId& a, const PartitionId& b) { return rank(a) < rank(b); });
  return found;
}

}  // namespace lithify::table
