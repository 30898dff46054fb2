// Equality and position deletes over random tables, against a reference that compares row by row.
#include <rapidcheck.h>

#include <map>
#include <optional>
#include <random>
#include <set>

#include "rewrite/delete_scan.h"
#include "rewrite/table_fixture.h"

namespace lithify::rewrite {
namespace {

using iceberg::TypeKind;
using iceberg::Value;

// A value as the reference compares it, by its text; nullopt is null.
using Cell = std::optional<std::string>;
using Row = std::map<int, Cell>;  // By field id; all fields of the table.

constexpr int kFields = 6;  // Ids 1 to 6; 7 is the struct of 6.

class World {
 public:
  explicit World(uint64_t seed) : random_(seed), letters_(Chance(50) ? 1 : 1 + Pick(900)) {}

  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool Chance(int percent) { return Pick(100) < percent; }

  std::string Letters() const { return std::string(static_cast<size_t>(letters_), 'b'); }

  TableTarget Table() {
    TableTarget table;
    table.schema.fields = {Column(1, "i", TypeKind::kLong),
                           Column(2, "s", TypeKind::kString),
                           Column(3, "d", TypeKind::kDouble),
                           Column(4, "m", DecimalType(20, 2)),
                           Column(5, "t", TypeKind::kTimestamp),
                           Column(7, "o", StructType({Column(6, "n", TypeKind::kLong)}))};
    for (auto& field : table.schema.fields) {
      if (field.id == 1 && Chance(50)) field.initial_default = Value(int64_t{1});
      if (field.id == 2 && Chance(50)) field.initial_default = Value(Letters());
    }
    return table;
  }

  // Few distinct values, so that rows match.
  Cell AnyCell(int id) {
    if (Chance(25)) return std::nullopt;
    const int n = Pick(3);
    switch (id) {
      case 2: return std::string(static_cast<size_t>(n * letters_), 'b');
      case 3: return n == 0 ? "NaN" : n == 1 ? "0.5" : "-2.0";
      case 4: return n == 0 ? "-1.50" : n == 1 ? "0.00" : "99.25";
      default: return std::to_string(n - 1);
    }
  }

  // The type in one file: the table's, or one that it was promoted from.
  std::shared_ptr<arrow::DataType> TypeIn(int id) {
    switch (id) {
      case 1:
      case 6: return Chance(50) ? arrow::int32() : arrow::int64();
      case 2: return arrow::utf8();
      case 3: return Chance(50) ? arrow::float32() : arrow::float64();
      case 4: return arrow::decimal128(Chance(50) ? 7 : Chance(50) ? 15 : 20, 2);
      default: return arrow::timestamp(arrow::TimeUnit::MICRO);
    }
  }

  static std::string Json(int id, const Cell& cell) {
    if (!cell) return "null";
    return id == 2 || id == 4 ? "\"" + *cell + "\"" : *cell;
  }

  // Parquet bytes with the columns `ids` of the rows.
  std::string Write(const std::vector<Row>& rows, const std::set<int>& ids) {
    arrow::FieldVector fields;
    std::vector<std::string> json;
    for (const int id : ids) {
      std::string column;
      for (const Row& row : rows) {
        const Cell& cell = row.at(id);
        // A null field of 6 may be that of a null struct.
        const std::string text = Json(id, cell);
        const bool nested = id == 6 && (cell || Chance(50));
        column += (column.empty() ? "" : ",") + (nested ? "[" + text + "]" : text);
      }
      json.push_back("[" + column + "]");
      auto field = IdField(id, "c" + std::to_string(id), TypeIn(id));
      fields.push_back(id == 6 ? IdField(7, "o", arrow::struct_({field})) : field);
    }
    parquet::WriterProperties::Builder properties;
    properties.data_pagesize(1 + Pick(400))->write_batch_size(1 + Pick(20));
    if (Chance(50)) properties.disable_dictionary();
    if (Chance(50)) properties.data_page_version(parquet::ParquetDataPageVersion::V2);
    return WriteParquet(*MakeTable(arrow::schema(fields), json), 1 + Pick(100), properties.build());
  }

  std::set<int> SomeIds(int at_least) {
    std::set<int> ids;
    while (static_cast<int>(ids.size()) < at_least) ids.insert(1 + Pick(kFields));
    while (Chance(40)) ids.insert(1 + Pick(kFields));
    return ids;
  }

  std::vector<Row> SomeRows(int n) {
    std::vector<Row> rows(static_cast<size_t>(n));
    for (Row& row : rows) {
      for (int id = 1; id <= kFields; ++id) row[id] = AnyCell(id);
    }
    return rows;
  }

 private:
  std::mt19937_64 random_;
  const int letters_;
};

struct Deletes {
  std::vector<Row> rows;
  int64_t sequence_number;
  std::set<int> ids;
};

bool SameOn(const std::set<int>& ids, const Row& a, const Row& b) {
  return std::ranges::all_of(ids, [&](int id) { return a.at(id) == b.at(id); });
}

void CheckEquality(uint64_t seed) {
  World world(seed);
  SystemClock clock;
  storage::MemoryStore store(clock);
  const TableTarget table = world.Table();
  std::vector<Deletes> deletes;
  std::vector<EqualityDeleteFile> files;
  // Few sets of columns, so that delete files share their keys.
  const std::set<int> shared = world.SomeIds(1);
  for (int d = world.Pick(8); d >= 0; --d) {
    Deletes made{world.SomeRows(world.Pick(30)), 1 + world.Pick(6),
                 world.Chance(70) ? shared : world.SomeIds(1)};
    auto columns = made.ids;
    columns.merge(world.SomeIds(0));  // Columns that are not compared.
    const std::string key = "eq" + std::to_string(d);
    RC_ASSERT(store.PutNew(key, world.Write(made.rows, columns)).has_value());
    const auto records = static_cast<int64_t>(made.rows.size());
    files.push_back(EqualityDeleteFile{key,
                                       world.Chance(80) ? records : -1,
                                       made.sequence_number,
                                       {made.ids.begin(), made.ids.end()}});
    deletes.push_back(std::move(made));
  }
  std::vector<EqualityTarget> targets;
  std::vector<std::vector<int64_t>> expected;
  for (int t = world.Pick(5); t >= 0; --t) {
    auto rows = world.SomeRows(world.Pick(200));
    const auto columns = world.SomeIds(1);
    EqualityTarget target;
    target.file.key = "data" + std::to_string(t);
    const std::string bytes = world.Write(rows, columns);
    RC_ASSERT(store.PutNew(target.file.key, bytes).has_value());
    target.file.size = static_cast<int64_t>(bytes.size());
    target.file.data_sequence_number = world.Pick(6);
    if (world.Chance(30)) target.file.constants = {{1, Value(int64_t{-1})}};
    for (Row& row : rows) {
      for (int id = 1; id <= kFields; ++id) {
        if (columns.contains(id)) continue;
        row[id] = std::nullopt;
        const auto* field = iceberg::FindField(table.schema, id);
        if (field->initial_default) row[id] = id == 1 ? "1" : world.Letters();
        if (id == 1 && !target.file.constants.empty()) row[id] = "-1";
      }
    }
    for (size_t d = 0; d < files.size(); ++d) {
      if (world.Chance(80)) target.deletes.push_back(static_cast<int>(d));
    }
    expected.emplace_back();
    for (size_t r = 0; r < rows.size(); ++r) {
      const bool deleted = std::ranges::any_of(target.deletes, [&](int d) {
        const Deletes& made = deletes[static_cast<size_t>(d)];
        return target.file.data_sequence_number < made.sequence_number &&
               std::ranges::any_of(
                   made.rows, [&](const Row& row) { return SameOn(made.ids, row, rows[r]); });
      });
      if (deleted) expected.back().push_back(static_cast<int64_t>(r));
    }
    targets.push_back(std::move(target));
  }
  // The least memory that does, so that the deletes are taken in parts, or much.
  ScanBounds bounds;
  bounds.memory_bytes = world.Chance(80) ? (int64_t{8} << 10) : (int64_t{16} << 20);
  auto found = FindEqualityDeleted(store, table, files, targets, bounds);
  while (!found && found.error().code == Code::kLimit && bounds.memory_bytes < 16 << 20) {
    bounds.memory_bytes += bounds.memory_bytes / 4;
    found = FindEqualityDeleted(store, table, files, targets, bounds);
  }
  RC_ASSERT(found.has_value());
  RC_ASSERT(found->size() == targets.size());
  for (size_t t = 0; t < targets.size(); ++t) {
    std::vector<int64_t> members;
    (*found)[t].ForEachRange(0, 1 << 20, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) members.push_back(p);
    });
    RC_ASSERT(members == expected[t]);
  }
}

TEST(DeleteScanProperty, I23_EqualityDeletesMatchARowByRowReference) {
  EXPECT_TRUE(
      rc::check("equality deletes", [] { CheckEquality(*rc::gen::arbitrary<uint64_t>()); }));
}

TEST(DeleteScanProperty, T13_PositionDeletesMatchAReference) {
  EXPECT_TRUE(rc::check("position deletes", [] {
    World world(*rc::gen::arbitrary<uint64_t>());
    SystemClock clock;
    storage::MemoryStore store(clock);
    std::map<std::string, std::set<int64_t>> expected;
    arrow::StringBuilder paths;
    arrow::Int64Builder positions;
    const int rows = world.Pick(400);
    int file = 0;
    for (int i = 0; i < rows; ++i) {
      if (world.Chance(20)) file = world.Pick(6);
      const std::string path(static_cast<size_t>(1 + file), 'p');
      const int64_t position = world.Pick(1000) * (world.Chance(5) ? 10'000'000'000 : 1);
      RC_ASSERT(paths.Append(path).ok());
      RC_ASSERT(positions.Append(position).ok());
      if (file != 3) expected[path + "'"].insert(position);
    }
    const auto table = arrow::Table::Make(
        arrow::schema({IdField(iceberg::kFilePathFieldId, "file_path", arrow::utf8()),
                       IdField(iceberg::kPosFieldId, "pos", arrow::int64())}),
        arrow::ArrayVector{paths.Finish().ValueOrDie(), positions.Finish().ValueOrDie()});
    parquet::WriterProperties::Builder properties;
    properties.data_pagesize(1 + world.Pick(400))->write_batch_size(1 + world.Pick(20));
    if (world.Chance(50)) properties.disable_dictionary();
    if (world.Chance(30)) properties.encoding("pos", parquet::Encoding::DELTA_BINARY_PACKED);
    if (world.Chance(30)) properties.encoding("file_path", parquet::Encoding::DELTA_BYTE_ARRAY);
    RC_ASSERT(store.PutNew("d", WriteParquet(*table, 1 + world.Pick(100), properties.build()))
                  .has_value());
    const auto found = ReadPositionDeletes(
        store, "d", rows,
        [](std::string_view path) {
          return path == "pppp" ? std::string() : std::string(path) + "'";
        },
        ScanBounds());
    RC_ASSERT(found.has_value());
    std::map<std::string, std::set<int64_t>> read;
    for (const auto& [path, set] : *found) {
      set.ForEachRange(0, std::numeric_limits<int64_t>::max(), [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) read[path].insert(p);
      });
    }
    RC_ASSERT(read == expected);
  }));
}

}  // namespace
}  // namespace lithify::rewrite
