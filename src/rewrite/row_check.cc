#include "rewrite/row_check.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/text.h"

namespace lithify::rewrite {
namespace {

using parquet::Type;

__extension__ using Wide = __int128;  // Nanoseconds of any year that a path can name.

constexpr const char* kMisplacedHint =
    "nothing was changed; move the rows to their own partition, then run again";

const SchemaNode* TopLevel(const SchemaNode& output, const std::string& name) {
  for (const auto& child : output.children) {
    if (child->name == name) return child.get();
  }
  return nullptr;
}

bool IsText(const SchemaNode& node) { return node.physical == Type::BYTE_ARRAY; }
bool IsInteger(const SchemaNode& node) {
  return (node.physical == Type::INT32 || node.physical == Type::INT64) &&
         (node.logical->is_none() || node.logical->is_int());
}

Result<ColumnRule> EqualityRule(const SchemaNode& node, const std::string& value) {
  ColumnRule rule;
  rule.leaf = node.leaf_index;
  rule.name = node.name;
  if (node.kind == SchemaNode::Kind::kLeaf && IsText(node)) {
    rule.equals_text = value;
    return rule;
  }
  if (node.kind == SchemaNode::Kind::kLeaf && IsInteger(node)) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc() && end == value.data() + value.size()) {
      rule.equals_number = number;
      rule.is_unsigned = node.logical->is_int() &&
                         !static_cast<const parquet::IntLogicalType&>(*node.logical).is_signed();
      return rule;
    }
  }
  return Fail(Code::kUnsupported,
              "its type cannot be compared with the path's value " + JsonQuote(value),
              "column " + node.name);
}

Result<ColumnRule> TimeRule(const SchemaNode& node) {
  ColumnRule rule;
  rule.leaf = node.leaf_index;
  rule.name = node.name;
  if (node.kind == SchemaNode::Kind::kLeaf) {
    if (node.physical == Type::INT32 && node.logical->is_date()) {
      rule.is_days = true;
      return rule;
    }
    if (node.physical == Type::INT64 && node.logical->is_timestamp()) {
      const auto& type = static_cast<const parquet::TimestampLogicalType&>(*node.logical);
      switch (type.time_unit()) {
        case parquet::LogicalType::TimeUnit::MILLIS: rule.units_per_second = 1'000; return rule;
        case parquet::LogicalType::TimeUnit::MICROS: rule.units_per_second = 1'000'000; return rule;
        case parquet::LogicalType::TimeUnit::NANOS:
          rule.units_per_second = 1'000'000'000;
          return rule;
        default: break;
      }
    }
    if (node.physical == Type::INT64 && IsInteger(node)) {
      rule.units_per_second = 1'000'000'000;  // time_unix_nano.
      return rule;
    }
  }
  return Fail(Code::kUnsupported, "its type is no time that can be checked", "column " + node.name);
}

Error Misplaced(const ColumnRule& rule, const std::string& found, const std::string& expected,
                int64_t row) {
  return Error{Code::kCorrupt,
               "row " + std::to_string(row) + " has " + rule.name + " = " + found +
                   ", but its path says " + expected,
               "", kMisplacedHint};
}

}  // namespace

Result<RowChecker> RowChecker::Make(const RowRule& rule, const SchemaNode& output) {
  RowChecker checker;
  checker.rule_ = &rule;
  const auto required = [&](const std::string& name) -> Result<const SchemaNode*> {
    if (const SchemaNode* node = TopLevel(output, name)) return node;
    return Fail(Code::kUnsupported, "the files lack it, so rows cannot be checked against the path",
                "column " + name,
                "name the right column in the series' configuration, or leave it out");
  };
  if (!rule.tenant_column.empty()) {
    LITHIFY_TRY_ASSIGN(const SchemaNode* node, required(rule.tenant_column));
    LITHIFY_TRY_ASSIGN(ColumnRule made, EqualityRule(*node, rule.tenant));
    checker.rules_.push_back(std::move(made));
  }
  for (const auto& [name, value] : rule.path_values) {
    const SchemaNode* node = TopLevel(output, name);
    if (node == nullptr || checker.For(node->leaf_index) != nullptr) continue;
    LITHIFY_TRY_ASSIGN(ColumnRule made, EqualityRule(*node, value));
    // A file may lack the column, since the path has it; Hive's name for null stands for itself.
    made.null_passes = true;
    checker.rules_.push_back(std::move(made));
  }
  if (rule.start && rule.end && !rule.time_columns.empty()) {
    int found = 0;
    for (const std::string& name : rule.time_columns) {
      const SchemaNode* node = TopLevel(output, name);
      if (node == nullptr) continue;
      LITHIFY_TRY_ASSIGN(ColumnRule made, TimeRule(*node));
      made.time_rank = found++;
      checker.rules_.push_back(std::move(made));
    }
    if (found == 0) {
      LITHIFY_TRY_ASSIGN(const SchemaNode* none, required(rule.time_columns.front()));
      (void)none;
    }
    checker.time_columns_ = static_cast<size_t>(found);
  }
  return checker;
}

const ColumnRule* RowChecker::For(int leaf) const {
  if (leaf < 0) return nullptr;
  const auto found = std::ranges::find(rules_, leaf, &ColumnRule::leaf);
  return found == rules_.end() ? nullptr : &*found;
}

Status RowChecker::CheckEquals(const ColumnRule& rule, std::span<const parquet::ByteArray> values,
                               int64_t nulls, int64_t row) {
  const std::string& expected = *rule.equals_text;
  if (nulls > 0 && !rule.null_passes) {
    return Fail(Misplaced(rule, "null", JsonQuote(expected), row));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string_view value(reinterpret_cast<const char*>(values[i].ptr), values[i].len);
    if (value != expected) {
      return Fail(Misplaced(rule, JsonQuote(value.substr(0, 200)), JsonQuote(expected),
                            row + static_cast<int64_t>(i)));
    }
  }
  return {};
}

Status RowChecker::CheckEquals(const ColumnRule& rule, std::span<const int64_t> values,
                               int64_t nulls, int64_t row) {
  const int64_t expected = *rule.equals_number;
  if (nulls > 0 && !rule.null_passes) {
    return Fail(Misplaced(rule, "null", std::to_string(expected), row));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != expected) {
      return Fail(Misplaced(rule, std::to_string(values[i]), std::to_string(expected),
                            row + static_cast<int64_t>(i)));
    }
  }
  return {};
}

Status RowChecker::CheckTimes(const std::vector<std::vector<int64_t>>& times,
                              const RowPlace& place) const {
  if (time_columns_ == 0) return {};
  struct Range {
    const ColumnRule* rule;
    int64_t start;
    int64_t end;
  };
  std::vector<Range> ranges(time_columns_);
  const Wide start_us = rule_->start->time_since_epoch().count();
  const Wide end_us = rule_->end->time_since_epoch().count();
  for (const ColumnRule& rule : rules_) {
    if (rule.time_rank < 0) continue;
    // A day belongs to every bucket that it overlaps, so its end is rounded up.
    constexpr Wide kDayUs = 86'400LL * 1'000'000;
    const auto floor_day = [](Wide us) { return (us - (us % kDayUs + kDayUs) % kDayUs) / kDayUs; };
    const auto scale = [&](Wide us) {
      return us * static_cast<Wide>(rule.units_per_second) / 1'000'000;
    };
    // Beyond what the column can hold, its last value stands for all.
    const auto narrow = [](Wide v) {
      constexpr Wide kMin = std::numeric_limits<int64_t>::min();
      constexpr Wide kMax = std::numeric_limits<int64_t>::max();
      return static_cast<int64_t>(std::clamp(v, kMin, kMax));
    };
    ranges[static_cast<size_t>(rule.time_rank)] =
        rule.is_days
            ? Range{&rule, narrow(floor_day(start_us)), narrow(floor_day(end_us + kDayUs - 1))}
            : Range{&rule, narrow(scale(start_us)), narrow(scale(end_us))};
  }
  const size_t rows = times.front().size();
  const bool epoch_belongs = start_us <= 0 && 0 < end_us;
  for (size_t i = 0; i < rows; ++i) {
    bool belongs = epoch_belongs;
    const ColumnRule* decided = ranges.front().rule;
    int64_t value = 0;
    for (size_t rank = 0; rank < time_columns_; ++rank) {
      value = times[rank][i];
      if (value == 0) continue;
      decided = ranges[rank].rule;
      belongs = ranges[rank].start <= value && value < ranges[rank].end;
      break;
    }
    if (!belongs) {
      const auto [key, row] = place(static_cast<int64_t>(i));
      return Fail(Misplaced(*decided, std::to_string(value),
                            "[" + FormatTime(*rule_->start) + ", " + FormatTime(*rule_->end) + ")",
                            row)
                      .In("column " + decided->name)
                      .In(key));
    }
  }
  return {};
}

}  // namespace lithify::rewrite
