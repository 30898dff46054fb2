#include "base/iceberg.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/result.h"

namespace lithify::iceberg {
namespace {

template <typename T>
int CompareFloating(T a, T b) {
  const bool a_nan = std::isnan(a);
  const bool b_nan = std::isnan(b);
  if (a_nan || b_nan) return static_cast<int>(a_nan) - static_cast<int>(b_nan);
  if (a < b) return -1;
  if (a > b) return 1;
  return static_cast<int>(std::signbit(b)) - static_cast<int>(std::signbit(a));
}

template <typename T>
int CompareSame(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, std::monostate>) {
    return 0;
  } else if constexpr (std::is_floating_point_v<T>) {
    return CompareFloating(a, b);
  } else if constexpr (std::is_same_v<T, Decimal>) {
    return a.unscaled < b.unscaled ? -1 : a.unscaled > b.unscaled ? 1 : 0;
  } else if constexpr (std::is_same_v<T, std::string>) {
    const int order = a.compare(b);  // char_traits<char> orders as unsigned bytes.
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  } else {
    return a < b ? -1 : a > b ? 1 : 0;
  }
}

const Field* FindById(const std::vector<Field>& fields, int id) {
  for (const Field& field : fields) {
    if (field.id == id) return &field;
    if (const Field* inner = FindById(field.type.fields, id)) return inner;
  }
  return nullptr;
}

// Names may hold dots themselves, so each prefix that is a name is tried.
const Field* FindByName(const std::vector<Field>& fields, std::string_view name) {
  for (const Field& field : fields) {
    if (!name.starts_with(field.name)) continue;
    const std::string_view rest = name.substr(field.name.size());
    if (rest.empty()) return &field;
    if (rest.front() != '.') continue;
    if (const Field* inner = FindByName(field.type.fields, rest.substr(1))) return inner;
  }
  return nullptr;
}

template <typename T, typename Id>
const T* FindIn(const std::vector<T>& items, Id T::* id, Id wanted) {
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const T& item) { return item.*id == wanted; });
  return found == items.end() ? nullptr : &*found;
}

}  // namespace

bool Type::operator==(const Type& other) const {
  return kind == other.kind && precision == other.precision && scale == other.scale &&
         length == other.length && parameters == other.parameters && fields == other.fields;
}

int CompareValues(const Value& a, const Value& b) {
  // Null first, as in partition tuples; otherwise only values of one type meet here.
  if (a.index() != b.index()) return a.index() < b.index() ? -1 : 1;
  return std::visit(
      [&](const auto& left) {
        return CompareSame(left, std::get<std::decay_t<decltype(left)>>(b));
      },
      a);
}

const Field* FindField(const Schema& schema, int field_id) {
  return FindById(schema.fields, field_id);
}

const Field* FindField(const Schema& schema, std::string_view dotted_name) {
  return FindByName(schema.fields, dotted_name);
}

bool operator<(const PartitionKey& a, const PartitionKey& b) {
  if (a.spec_id != b.spec_id) return a.spec_id < b.spec_id;
  const size_t shared = std::min(a.values.size(), b.values.size());
  for (size_t i = 0; i < shared; ++i) {
    const int order = CompareValues(a.values[i], b.values[i]);
    if (order != 0) return order < 0;
  }
  return a.values.size() < b.values.size();
}

const Schema& TableMetadata::schema() const {
  const Schema* current = FindSchema(current_schema_id);
  LITHIFY_CHECK(current != nullptr, "table metadata without its current schema");
  return *current;
}

const Schema* TableMetadata::FindSchema(int schema_id) const {
  return FindIn(schemas, &Schema::schema_id, schema_id);
}

const PartitionSpec* TableMetadata::FindSpec(int spec_id) const {
  return FindIn(partition_specs, &PartitionSpec::spec_id, spec_id);
}

const Snapshot* TableMetadata::FindSnapshot(int64_t snapshot_id) const {
  return FindIn(snapshots, &Snapshot::snapshot_id, snapshot_id);
}

const SortOrder* TableMetadata::FindSortOrder(int order_id) const {
  return FindIn(sort_orders, &SortOrder::order_id, order_id);
}

const Snapshot* TableMetadata::RefSnapshot(std::string_view ref) const {
  const auto found = refs.find(std::string(ref));
  return found == refs.end() ? nullptr : FindSnapshot(found->second.snapshot_id);
}

std::string TableMetadata::Property(const std::string& key, std::string_view otherwise) const {
  const auto found = properties.find(key);
  return found == properties.end() ? std::string(otherwise) : found->second;
}

}  // namespace lithify::iceberg
