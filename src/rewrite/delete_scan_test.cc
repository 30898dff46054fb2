// Position and equality deletes as positions: directed cases. Numbers (I…, T…, R…) are those of the
// field cases and requirements that a test restates.
#include "rewrite/delete_scan.h"

#include <malloc.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <map>
#include <new>
#include <set>

#include "rewrite/table_fixture.h"
#include "storage/forwarding_store.h"

namespace {

// Every allocation of the process that is not Arrow's, and the most there were at a time.
std::atomic<int64_t> heap_bytes{0};
std::atomic<int64_t> heap_peak{0};

}  // namespace

void* operator new(size_t size) {
  void* p = std::malloc(size);
  if (p == nullptr) throw std::bad_alloc();
  const int64_t now = heap_bytes += static_cast<int64_t>(malloc_usable_size(p));
  int64_t peak = heap_peak;
  while (now > peak && !heap_peak.compare_exchange_weak(peak, now)) {
  }
  return p;
}

void operator delete(void* p) noexcept {
  if (p != nullptr) heap_bytes -= static_cast<int64_t>(malloc_usable_size(p));
  std::free(p);
}

void operator delete(void* p, size_t) noexcept { operator delete(p); }

namespace lithify::rewrite {
namespace {

using iceberg::TypeKind;
using iceberg::Value;
using Positions = std::vector<int64_t>;

// Counts how often each object is opened.
class CountingStore final : public storage::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<std::unique_ptr<storage::Reader>> Open(const std::string& key) override {
    ++opens[key];
    return store_.Open(key);
  }
  Result<std::unique_ptr<storage::Reader>> OpenKnown(const storage::ObjectInfo& known) override {
    ++opens[known.key];
    return store_.OpenKnown(known);
  }

  std::map<std::string, int> opens;
};

Positions Members(const PositionSet& set) {
  Positions members;
  set.ForEachRange(0, std::numeric_limits<int64_t>::max(), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) members.push_back(p);
  });
  return members;
}

class DeleteScanTest : public testing::Test {
 protected:
  int64_t Put(const std::string& key, const std::string& bytes) {
    EXPECT_TRUE(store_.PutNew(key, bytes)) << key;
    return static_cast<int64_t>(bytes.size());
  }
  template <typename T>
  void ExpectError(const Result<T>& result, Code code, const std::string& part) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, code) << result.error().ToString();
    EXPECT_NE(result.error().ToString().find(part), std::string::npos) << result.error().ToString();
  }

  SystemClock clock_;
  storage::MemoryStore memory_{clock_};
  CountingStore store_{memory_};
  ScanBounds bounds_;
};

// ---------------------------------------------------------------------------------- positions

class PositionDeleteTest : public DeleteScanTest {
 protected:
  static arrow::FieldVector Fields() {
    return {IdField(iceberg::kFilePathFieldId, "file_path", arrow::utf8(), false),
            IdField(iceberg::kPosFieldId, "pos", arrow::int64(), false)};
  }
  void PutDeletes(const arrow::FieldVector& fields, const std::vector<std::string>& json,
                  int64_t row_group_rows = 1 << 20) {
    Put("d.parquet", WriteParquet(*MakeTable(arrow::schema(fields), json), row_group_rows));
  }
  Result<std::map<std::string, PositionSet>> Read(int64_t records = -1) {
    return ReadPositionDeletes(
        store_, "d.parquet", records, [](std::string_view path) { return std::string(path); },
        bounds_);
  }
  std::map<std::string, Positions> ReadAll(int64_t records = -1) {
    const auto found = Read(records);
    EXPECT_TRUE(found) << found.error().ToString();
    std::map<std::string, Positions> all;
    if (found) {
      for (const auto& [path, set] : *found) all[path] = Members(set);
    }
    return all;
  }
};

using All = std::map<std::string, Positions>;

TEST_F(PositionDeleteTest, T13_DuplicatesCountOnce) {
  PutDeletes(Fields(), {R"(["a", "a", "a", "b", "b"])", "[5, 5, 1, 5, 5]"});
  EXPECT_EQ(ReadAll(5), (All{{"a", {1, 5}}, {"b", {5}}}));
}

TEST_F(PositionDeleteTest, UnsortedPathsAndRowGroups) {
  PutDeletes(Fields(), {R"(["b", "a", "b", "a", "b"])", "[3, 9, 1, 0, 4294967299]"}, 2);
  EXPECT_EQ(ReadAll(), (All{{"a", {0, 9}}, {"b", {1, 3, 4294967299}}}));
}

TEST_F(PositionDeleteTest, OnlyWantedPathsUnderTheirNames) {
  PutDeletes(Fields(), {R"(["s3://x/a", "s3a://x/a", "other", "s3://x/a"])", "[1, 2, 3, 4]"});
  std::multiset<std::string> seen;
  const auto found = ReadPositionDeletes(
      store_, "d.parquet", 4,
      [&](std::string_view path) {
        seen.emplace(path);
        return path == "other" ? std::string() : std::string("a");
      },
      bounds_);
  ASSERT_TRUE(found) << found.error().ToString();
  ASSERT_EQ(found->size(), 1U);
  EXPECT_EQ(Members(found->at("a")), (Positions{1, 2, 4}));
  EXPECT_EQ(seen, (std::multiset<std::string>{"s3://x/a", "s3a://x/a", "other"}));
}

TEST_F(PositionDeleteTest, ByNameWithoutIdsAndTheRowIsIgnored) {
  PutDeletes({arrow::field("row", arrow::struct_({arrow::field("x", arrow::int32())})),
              arrow::field("pos", arrow::int64()), arrow::field("file_path", arrow::utf8())},
             {"[[1], [2]]", "[7, 8]", R"(["a", "a"])"});
  EXPECT_EQ(ReadAll(2), (All{{"a", {7, 8}}}));
}

TEST_F(PositionDeleteTest, ByIdWhateverTheName) {
  PutDeletes({IdField(iceberg::kFilePathFieldId, "pos", arrow::utf8()),
              IdField(iceberg::kPosFieldId, "file_path", arrow::int64()),
              IdField(iceberg::kDeletedRowFieldId, "row",
                      arrow::struct_({IdField(1, "x", arrow::int32())}))},
             {R"(["a"])", "[7]", "[[1]]"});
  EXPECT_EQ(ReadAll(1), (All{{"a", {7}}}));
}

TEST_F(PositionDeleteTest, DamageIsNamed) {
  const auto refused = [&](const arrow::FieldVector& fields, const std::vector<std::string>& json,
                           const std::string& part) {
    PutDeletes(fields, json);
    ExpectError(Read(), Code::kCorrupt, part);
    ExpectError(Read(), Code::kCorrupt, "d.parquet");
    ASSERT_TRUE(store_.Remove("d.parquet"));
  };
  const auto path = IdField(iceberg::kFilePathFieldId, "file_path", arrow::utf8());
  const auto pos = IdField(iceberg::kPosFieldId, "pos", arrow::int64());
  refused({path, pos}, {R"(["a", null])", "[1, 2]"}, "null path");
  refused({path, pos}, {R"(["a", "a"])", "[1, null]"}, "null position");
  refused({path, pos}, {R"(["a", "a"])", "[1, -1]"}, "negative position, -1");
  refused({path}, {R"(["a"])"}, "2147483545");
  refused({pos}, {"[1]"}, "file_path");
  PutDeletes(Fields(), {R"(["a"])", "[1]"});
  ExpectError(Read(2), Code::kCorrupt, "1 rows, the table's metadata says 2");
}

TEST_F(PositionDeleteTest, OtherFormatsAreUnsupportedAndGarbageIsCorrupt) {
  Put("d.parquet", std::string("Obj\1 an Avro file that goes on for a while", 43));
  ExpectError(Read(), Code::kUnsupported, "Avro");
  ASSERT_TRUE(store_.Remove("d.parquet"));
  Put("d.parquet", "no format that anybody knows");
  ExpectError(Read(), Code::kCorrupt, "d.parquet");
  ASSERT_TRUE(store_.Remove("d.parquet"));
  ExpectError(Read(), Code::kNotFound, "d.parquet");
}

TEST_F(PositionDeleteTest, AFileWithoutRowsNamesNothing) {
  PutDeletes(Fields(), {"[]", "[]"});
  EXPECT_TRUE(ReadAll(0).empty());
}

TEST_F(PositionDeleteTest, R102_PathsOfAFile) {
  PutDeletes(Fields(), {R"(["b", "b", "a", "b", "c"])", "[1, 2, 3, 4, 5]"}, 2);
  const auto paths = ReadPositionDeletePaths(store_, "d.parquet", -1, bounds_);
  ASSERT_TRUE(paths) << paths.error().ToString();
  EXPECT_EQ(*paths, (std::vector<std::string>{"a", "b", "c"}));
}

std::string PathNumber(int i) {
  return "s3://bucket/warehouse/table/data/part-" + std::to_string(i) + ".parquet";
}

TEST_F(PositionDeleteTest, ManyRowsInEveryEncoding) {
  for (const bool dictionary : {true, false}) {
    for (const bool sorted : {true, false}) {
      arrow::StringBuilder paths;
      arrow::Int64Builder positions;
      All expected;
      for (int i = 0; i < 60'000; ++i) {
        const int file = sorted ? i / 5'000 : i % 12;
        const int64_t position = (int64_t{i} * 7919) % 100'003;
        ASSERT_TRUE(paths.Append(PathNumber(file)).ok());
        ASSERT_TRUE(positions.Append(position).ok());
        expected[PathNumber(file)].push_back(position);
      }
      for (auto& [path, list] : expected) std::ranges::sort(list);
      const auto table = arrow::Table::Make(
          arrow::schema(Fields()),
          arrow::ArrayVector{paths.Finish().ValueOrDie(), positions.Finish().ValueOrDie()});
      parquet::WriterProperties::Builder properties;
      properties.data_pagesize(3'000)->compression(parquet::Compression::ZSTD);
      if (!dictionary) properties.disable_dictionary();
      Put("d.parquet", WriteParquet(*table, 25'000, properties.build()));
      EXPECT_EQ(ReadAll(60'000), expected);
      ASSERT_TRUE(store_.Remove("d.parquet"));
    }
  }
}

TEST_F(PositionDeleteTest, MemoryIsBounded) {
  arrow::StringBuilder paths;
  arrow::Int64Builder positions;
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_TRUE(paths.Append(PathNumber(i)).ok());
    ASSERT_TRUE(positions.Append(1).ok());
  }
  const auto table = arrow::Table::Make(
      arrow::schema(Fields()),
      arrow::ArrayVector{paths.Finish().ValueOrDie(), positions.Finish().ValueOrDie()});
  Put("d.parquet", WriteParquet(*table));
  bounds_.memory_bytes = int64_t{4} << 20;
  ExpectError(Read(), Code::kLimit, "--memory");
  ExpectError(ReadPositionDeletePaths(store_, "d.parquet", -1, bounds_), Code::kLimit, "--memory");
}

TEST_F(PositionDeleteTest, StopsOnRequest) {
  PutDeletes(Fields(), {R"(["a"])", "[1]"});
  CancelFlag cancel;
  cancel.Request();
  bounds_.cancel = &cancel;
  ExpectError(Read(), Code::kCancelled, "stopped");
}

// ----------------------------------------------------------------------------------- equality

class EqualityDeleteTest : public DeleteScanTest {
 protected:
  // One data file and one delete file unless a test adds more.
  int AddDeletes(const std::vector<int>& ids, int64_t sequence_number,
                 const arrow::FieldVector& fields, const std::vector<std::string>& json) {
    const auto table = MakeTable(arrow::schema(fields), json);
    const std::string key = "eq" + std::to_string(deletes_.size()) + ".parquet";
    Put(key, WriteParquet(*table));
    deletes_.push_back(EqualityDeleteFile{key, table->num_rows(), sequence_number, ids});
    return static_cast<int>(deletes_.size()) - 1;
  }
  // In scope of all delete files that there are when Find() is called.
  EqualityTarget& AddTarget(int64_t sequence_number, const arrow::FieldVector& fields,
                            const std::vector<std::string>& json, int64_t row_group_rows = 1000) {
    const auto table = MakeTable(arrow::schema(fields), json);
    const std::string key = "data" + std::to_string(targets_.size()) + ".parquet";
    EqualityTarget target;
    target.file.key = key;
    target.file.size = Put(key, WriteParquet(*table, row_group_rows));
    target.file.records = table->num_rows();
    target.file.data_sequence_number = sequence_number;
    targets_.push_back(std::move(target));
    all_.push_back(true);
    return targets_.back();
  }
  Result<std::vector<PositionSet>> Find() {
    for (size_t t = 0; t < targets_.size(); ++t) {
      if (!all_[t]) continue;
      targets_[t].deletes.clear();
      for (size_t d = 0; d < deletes_.size(); ++d) {
        targets_[t].deletes.push_back(static_cast<int>(d));
      }
    }
    return FindEqualityDeleted(store_, table_, deletes_, targets_, bounds_);
  }
  std::vector<Positions> Found() {
    const auto sets = Find();
    EXPECT_TRUE(sets) << sets.error().ToString();
    std::vector<Positions> found;
    if (sets) {
      for (const auto& set : *sets) found.push_back(Members(set));
    }
    return found;
  }
  // Deletes and data of one column with id 1.
  Positions OneColumn(const iceberg::Type& type, const std::shared_ptr<arrow::DataType>& deletes,
                      const std::string& delete_json, const std::shared_ptr<arrow::DataType>& data,
                      const std::string& data_json) {
    for (const auto& file : deletes_) EXPECT_TRUE(store_.Remove(file.key));
    for (const auto& target : targets_) EXPECT_TRUE(store_.Remove(target.file.key));
    deletes_.clear();
    targets_.clear();
    table_.schema.fields = {Column(1, "c", type)};
    AddDeletes({1}, 2, {IdField(1, "c", deletes)}, {delete_json});
    AddTarget(1, {IdField(1, "c", data)}, {data_json});
    const auto found = Found();
    return found.empty() ? Positions{-1} : found[0];
  }
  Positions OneColumn(TypeKind kind, const std::shared_ptr<arrow::DataType>& type,
                      const std::string& delete_json, const std::string& data_json) {
    return OneColumn(Primitive(kind), type, delete_json, type, data_json);
  }

  TableTarget table_;
  std::vector<EqualityDeleteFile> deletes_;
  std::vector<EqualityTarget> targets_;
  std::vector<bool> all_;
};

TEST_F(EqualityDeleteTest, OnlyOlderRowsAndTheGreatestSequenceNumber) {
  table_.schema.fields = {Column(1, "id", TypeKind::kLong)};
  const arrow::FieldVector id = {IdField(1, "id", arrow::int64())};
  AddDeletes({1}, 3, id, {"[10, 11]"});
  AddDeletes({1}, 5, id, {"[11, 12]"});
  AddDeletes({1}, 4, id, {"[11]"});
  for (const int64_t sequence_number : {2, 3, 4, 5}) {
    AddTarget(sequence_number, id, {"[10, 11, 12, 13]"}, 3);
  }
  EXPECT_EQ(Found(), (std::vector<Positions>{{0, 1, 2}, {1, 2}, {1, 2}, {}}));
}

TEST_F(EqualityDeleteTest, TheGreatestSequenceNumberOfATextToo) {
  table_.schema.fields = {Column(1, "id", TypeKind::kString)};
  const arrow::FieldVector id = {IdField(1, "id", arrow::utf8())};
  AddDeletes({1}, 3, id, {R"(["a", "b"])"});
  AddDeletes({1}, 5, id, {R"(["b", "c"])"});
  AddDeletes({1}, 4, id, {R"(["b"])"});
  for (const int64_t sequence_number : {2, 4, 5}) {
    AddTarget(sequence_number, id, {R"(["a", "b", "c", "d"])"});
  }
  EXPECT_EQ(Found(), (std::vector<Positions>{{0, 1, 2}, {1, 2}, {}}));
}

TEST_F(EqualityDeleteTest, I23_NullEqualsNull) {
  table_.schema.fields = {Column(1, "a", TypeKind::kInt), Column(2, "b", TypeKind::kString)};
  const arrow::FieldVector fields = {IdField(1, "a", arrow::int32()),
                                     IdField(2, "b", arrow::utf8())};
  AddDeletes({1, 2}, 2, fields, {"[1, null, 3, null]", R"([null, "x", "", null])"});
  AddTarget(1, fields,
            {"[1, 1, null, null, 3, 3, 0, null]", R"([null, "x", "x", null, "", null, null, ""])"});
  EXPECT_EQ(Found(), (std::vector<Positions>{{0, 2, 3, 4}}));
  // One column of 64 bits takes another way.
  EXPECT_EQ(OneColumn(TypeKind::kLong, arrow::int64(), "[null, 0]", "[1, null, 0, null]"),
            (Positions{1, 2, 3}));
  EXPECT_EQ(OneColumn(TypeKind::kLong, arrow::int64(), "[1]", "[1, null, 0]"), (Positions{0}));
}

TEST_F(EqualityDeleteTest, I23_AColumnThatTheDataFileLacks) {
  const auto run = [&](const std::optional<Value>& initial_default,
                       std::vector<std::pair<int, Value>> constants, const std::string& deletes) {
    auto added = Column(2, "b", TypeKind::kLong);
    added.initial_default = initial_default;
    table_.schema.fields = {Column(1, "a", TypeKind::kInt), added};
    const std::string name = std::to_string(deletes_.size());
    AddDeletes({2}, 2, {IdField(2, "b", arrow::int64())}, {deletes});
    AddTarget(1, {IdField(1, "a", arrow::int32())}, {"[1, 2, 3]"}, 2).file.constants =
        std::move(constants);
    const auto found = Found();
    for (const auto& file : deletes_) EXPECT_TRUE(store_.Remove(file.key));
    for (const auto& target : targets_) EXPECT_TRUE(store_.Remove(target.file.key));
    deletes_.clear();
    targets_.clear();
    all_.clear();
    return found;
  };
  using Sets = std::vector<Positions>;
  EXPECT_EQ(run(std::nullopt, {}, "[null]"), (Sets{{0, 1, 2}}));
  EXPECT_EQ(run(std::nullopt, {}, "[7]"), (Sets{{}}));
  EXPECT_EQ(run(Value(int64_t{7}), {}, "[7]"), (Sets{{0, 1, 2}}));
  EXPECT_EQ(run(Value(int64_t{7}), {}, "[null]"), (Sets{{}})) << "the default, not null";
  EXPECT_EQ(run(Value(int64_t{7}), {{2, Value(int64_t{8})}}, "[8]"), (Sets{{0, 1, 2}}));
  EXPECT_EQ(run(Value(int64_t{7}), {{2, Value(int64_t{8})}}, "[7]"), (Sets{{}}))
      << "the partition's value comes first";
  EXPECT_EQ(run(Value(int64_t{7}), {{2, Value()}}, "[null]"), (Sets{{0, 1, 2}}));
}

TEST_F(EqualityDeleteTest, I23_DifferentColumnsPerDeleteFile) {
  table_.schema.fields = {Column(1, "a", TypeKind::kInt), Column(2, "b", TypeKind::kString),
                          Column(3, "c", TypeKind::kDouble)};
  const arrow::FieldVector fields = {IdField(1, "a", arrow::int32()),
                                     IdField(2, "b", arrow::utf8()),
                                     IdField(3, "c", arrow::float64())};
  AddDeletes({1}, 2, fields, {"[1]", R"(["ignored"])", "[9.0]"});
  AddDeletes({2, 1}, 2, fields, {"[2]", R"(["y"])", "[9.0]"});
  AddDeletes({3}, 2, {fields[2]}, {"[0.5]"});
  AddDeletes({1, 2}, 2, {fields[1], fields[0]}, {R"(["z"])", "[2]"});
  AddTarget(1, fields,
            {"[1, 2, 2, 2, 3]", R"(["x", "x", "y", "z", null])", "[1.0, 1.0, 1.0, 1.0, 0.5]"}, 2);
  EXPECT_EQ(Found(), (std::vector<Positions>{{0, 2, 3, 4}}));
}

TEST_F(EqualityDeleteTest, ScopesAreRespected) {
  table_.schema.fields = {Column(1, "id", TypeKind::kLong)};
  const arrow::FieldVector id = {IdField(1, "id", arrow::int64())};
  const int first = AddDeletes({1}, 5, id, {"[1]"});
  const int second = AddDeletes({1}, 5, id, {"[2]"});
  const int old = AddDeletes({1}, 2, id, {"[3]"});
  AddTarget(1, id, {"[1, 2, 3]"}).deletes = {first};
  AddTarget(1, id, {"[1, 2, 3]"}).deletes = {second, old};
  AddTarget(3, id, {"[1, 2, 3]"}).deletes = {first, second, old};
  AddTarget(1, id, {"[1, 2, 3]"}).deletes = {};
  all_.assign(4, false);
  EXPECT_EQ(Found(), (std::vector<Positions>{{0}, {1, 2}, {0, 1}, {}}));
  EXPECT_EQ(store_.opens["data3.parquet"], 0) << "nothing is in its scope";
}

TEST_F(EqualityDeleteTest, DeleteFilesThatNoTargetIsOlderThanAreNotRead) {
  table_.schema.fields = {Column(1, "id", TypeKind::kLong)};
  const arrow::FieldVector id = {IdField(1, "id", arrow::int64())};
  AddDeletes({1}, 4, id, {"[1]"});
  AddTarget(4, id, {"[1]"});
  EXPECT_EQ(Found(), (std::vector<Positions>{{}}));
  EXPECT_TRUE(store_.opens.empty());
}

TEST_F(EqualityDeleteTest, EveryType) {
  EXPECT_EQ(OneColumn(TypeKind::kBoolean, arrow::boolean(), "[true]", "[true, false, null]"),
            (Positions{0}));
  EXPECT_EQ(OneColumn(TypeKind::kInt, arrow::int32(), "[-1]", "[1, -1]"), (Positions{1}));
  EXPECT_EQ(OneColumn(TypeKind::kDate, arrow::date32(), "[-1]", "[1, -1]"), (Positions{1}));
  EXPECT_EQ(OneColumn(TypeKind::kTime, arrow::time64(arrow::TimeUnit::MICRO), "[5]", "[4, 5]"),
            (Positions{1}));
  EXPECT_EQ(OneColumn(TypeKind::kTimestamptz, arrow::timestamp(arrow::TimeUnit::MICRO, "UTC"),
                      "[5]", "[4, 5]"),
            (Positions{1}));
  EXPECT_EQ(
      OneColumn(TypeKind::kTimestampNs, arrow::timestamp(arrow::TimeUnit::NANO), "[5]", "[4, 5]"),
      (Positions{1}));
  EXPECT_EQ(OneColumn(TypeKind::kString, arrow::utf8(), R"(["", "ab"])",
                      R"(["a", "ab", "abc", "", null])"),
            (Positions{1, 3}));
  EXPECT_EQ(OneColumn(TypeKind::kBinary, arrow::binary(), R"(["ab"])", R"(["a", "ab"])"),
            (Positions{1}));
  const auto uuid = arrow::fixed_size_binary(16);
  EXPECT_EQ(OneColumn(TypeKind::kUuid, uuid, R"(["0123456789abcdef"])",
                      R"(["0123456789abcdee", "0123456789abcdef"])"),
            (Positions{1}));
  const auto fixed = arrow::fixed_size_binary(3);
  EXPECT_EQ(
      OneColumn(Primitive(TypeKind::kFixed, 3), fixed, R"(["abc"])", fixed, R"(["abd", "abc"])"),
      (Positions{1}));
  EXPECT_EQ(OneColumn(DecimalType(38, 2), arrow::decimal128(38, 2), R"(["-0.01"])",
                      arrow::decimal128(38, 2), R"(["0.01", "-0.01"])"),
            (Positions{1}));
}

TEST_F(EqualityDeleteTest, FloatsCompareAsJavaReadersDo) {
  // The specification allows no float as a delete column; writers do it all the same.
  EXPECT_EQ(
      OneColumn(TypeKind::kDouble, arrow::float64(), "[NaN, 0.0]", "[-0.0, 0.0, NaN, 1.0, null]"),
      (Positions{1, 2}));
  EXPECT_EQ(OneColumn(TypeKind::kFloat, arrow::float32(), "[-0.0, 0.1]", "[-0.0, 0.0, 0.1]"),
            (Positions{0, 2}));
}

TEST_F(EqualityDeleteTest, I24_PromotedTypesCompareAsTheTypeNow) {
  EXPECT_EQ(OneColumn(Primitive(TypeKind::kLong), arrow::int64(), "[-7, 4294967289]",
                      arrow::int32(), "[7, -7]"),
            (Positions{1}));
  EXPECT_EQ(OneColumn(Primitive(TypeKind::kLong), arrow::int32(), "[-7]", arrow::int64(),
                      "[4294967289, -7]"),
            (Positions{1}));
  EXPECT_EQ(OneColumn(Primitive(TypeKind::kDouble), arrow::float32(), "[0.1]", arrow::float64(),
                      "[0.1, 0.10000000149011612]"),
            (Positions{1}));
  EXPECT_EQ(OneColumn(DecimalType(30, 2), arrow::decimal128(9, 2), R"(["-1.25"])",
                      arrow::decimal128(30, 2), R"(["1.25", "-1.25"])"),
            (Positions{1}));
  // v3: date to timestamp; and units of imported files.
  EXPECT_EQ(OneColumn(Primitive(TypeKind::kTimestamp), arrow::timestamp(arrow::TimeUnit::MICRO),
                      "[-86400000000]", arrow::date32(), "[1, -1]"),
            (Positions{1}));
  EXPECT_EQ(OneColumn(Primitive(TypeKind::kTimestamp), arrow::timestamp(arrow::TimeUnit::MICRO),
                      "[-1000]", arrow::timestamp(arrow::TimeUnit::MILLI), "[1, -1]"),
            (Positions{1}));
  EXPECT_EQ(OneColumn(Primitive(TypeKind::kTimestamp), arrow::timestamp(arrow::TimeUnit::MICRO),
                      "[-1]", arrow::timestamp(arrow::TimeUnit::NANO), "[0, -1, 1, -1001]"),
            (Positions{1}))
      << "rounded down";
}

TEST_F(EqualityDeleteTest, ColumnsInStructs) {
  table_.schema.fields = {Column(
      1, "s", StructType({Column(2, "x", TypeKind::kLong), Column(3, "y", TypeKind::kString)}))};
  const auto with = arrow::struct_({IdField(2, "x", arrow::int64())});
  AddDeletes({2}, 2, {IdField(1, "s", with)}, {"[[5], null]"});
  AddTarget(1, {IdField(1, "s", with)}, {"[[5], null, [6], [null]]"});
  AddTarget(1, {IdField(9, "gone", arrow::int32())}, {"[1, 2]"});
  EXPECT_EQ(Found(), (std::vector<Positions>{{0, 1, 3}, {0, 1}}))
      << "a field of a null struct is null";
}

TEST_F(EqualityDeleteTest, ADefaultInAStructThatMayBeNullIsRefused) {
  auto x = Column(2, "x", TypeKind::kLong);
  x.initial_default = Value(int64_t{5});
  table_.schema.fields = {Column(1, "s", StructType({x, Column(3, "y", TypeKind::kString)}))};
  AddDeletes({2}, 2, {IdField(1, "s", arrow::struct_({IdField(2, "x", arrow::int64())}))},
             {"[[5]]"});
  AddTarget(1, {IdField(1, "s", arrow::struct_({IdField(3, "y", arrow::utf8())}))},
            {R"([["a"], null])"});
  ExpectError(Find(), Code::kUnsupported, "column x");
}

TEST_F(EqualityDeleteTest, WhatCannotBeComparedIsRefused) {
  const arrow::FieldVector id = {IdField(1, "id", arrow::int64())};
  AddTarget(1, id, {"[1]"});
  AddDeletes({1}, 2, id, {"[1]"});
  const auto refused = [&](const iceberg::Field& field, const std::string& part) {
    table_.schema.fields = {field};
    ExpectError(Find(), Code::kUnsupported, part);
  };
  refused(Column(7, "other", TypeKind::kLong), "field id 1");
  refused(Column(7, "l", ListType(Column(1, "element", TypeKind::kLong))), "list or map");
  refused(Column(1, "v", TypeKind::kVariant), "not compared");
  refused(Column(1, "g", TypeKind::kGeometry), "not compared");
  refused(Column(1, "s", StructType({Column(2, "x", TypeKind::kLong)})), "not compared");
  refused(Column(1, "id", TypeKind::kString), "cannot be read as string");
}

TEST_F(EqualityDeleteTest, DamageIsNamed) {
  table_.schema.fields = {Column(1, "a", TypeKind::kLong), Column(2, "b", TypeKind::kLong)};
  AddTarget(1, {IdField(1, "a", arrow::int64())}, {"[1]"});
  AddDeletes({1, 2}, 2, {IdField(1, "a", arrow::int64())}, {"[1]"});
  ExpectError(Find(), Code::kCorrupt, "eq0.parquet: column b");
  deletes_[0].equality_ids = {1};
  EXPECT_EQ(Found(), (std::vector<Positions>{{0}}));
  deletes_[0].records = 2;
  ExpectError(Find(), Code::kCorrupt, "eq0.parquet: record_count");
  deletes_[0].records = 1;
  targets_[0].file.records = 9;
  ExpectError(Find(), Code::kCorrupt, "data0.parquet: record_count");
  targets_[0].file.records = 1;
  deletes_[0].equality_ids = {};
  ExpectError(Find(), Code::kCorrupt, "compares no column");
  deletes_[0].equality_ids = {1};
  targets_[0].file.constants = {{2, Value(std::string("text"))}};
  EXPECT_EQ(Found(), (std::vector<Positions>{{0}})) << "a constant that is not asked for";
  targets_[0].deletes = {3};
  all_[0] = false;
  ExpectError(Find(), Code::kInvalid, "no delete file 3");
}

TEST_F(EqualityDeleteTest, FilesWithoutIdsGoByTheNameMapping) {
  table_.schema.fields = {Column(1, "id", TypeKind::kLong),
                          Column(2, "s", StructType({Column(3, "x", TypeKind::kLong)}))};
  AddDeletes({1, 3}, 2,
             {IdField(1, "id", arrow::int64()),
              IdField(2, "s", arrow::struct_({IdField(3, "x", arrow::int64())}))},
             {"[1]", "[[5]]"});
  AddTarget(1,
            {arrow::field("old_id", arrow::int64()),
             arrow::field("s", arrow::struct_({arrow::field("xx", arrow::int64())}))},
            {"[1, 1]", "[[4], [5]]"});
  ExpectError(Find(), Code::kUnsupported, "schema.name-mapping.default");
  table_.name_mapping = {{{"id", "old_id"}, 1, {}}, {{"s"}, 2, {{{"xx"}, 3, {}}}}};
  EXPECT_EQ(Found(), (std::vector<Positions>{{1}}));
}

TEST_F(EqualityDeleteTest, I24_ARenamedColumnAndOneReaddedUnderItsName) {
  table_.schema.fields = {Column(1, "new_name", TypeKind::kLong),
                          Column(5, "old_name", TypeKind::kLong)};
  AddDeletes({5}, 2, {IdField(5, "old_name", arrow::int64())}, {"[3]"});
  AddDeletes({1}, 2, {IdField(1, "new_name", arrow::int64())}, {"[4]"});
  AddTarget(1, {IdField(1, "old_name", arrow::int64())}, {"[3, 4]"});
  EXPECT_EQ(Found(), (std::vector<Positions>{{1}}));
}

// 585 delete files of 500 rows against 60 data files of 2,000, all keys apart; every tenth row of
// the data is deleted.
class ManyDeletesTest : public EqualityDeleteTest {
 protected:
  static constexpr int kDeleteFiles = 585;
  static constexpr int kDeletesEach = 500;
  static constexpr int kDataFiles = 60;
  static constexpr int kRowsEach = 2'000;

  std::shared_ptr<arrow::Table> Keys(int64_t first, int64_t step, int n, bool text) {
    arrow::Int64Builder integers;
    arrow::StringBuilder strings;
    for (int i = 0; i < n; ++i) {
      const int64_t key = first + i * step;
      EXPECT_TRUE(integers.Append(key).ok());
      EXPECT_TRUE(strings.Append("key number " + std::to_string(key)).ok());
    }
    const auto schema =
        arrow::schema({IdField(1, "i", arrow::int64()), IdField(2, "s", arrow::utf8())});
    const auto table = arrow::Table::Make(
        schema, arrow::ArrayVector{integers.Finish().ValueOrDie(), strings.Finish().ValueOrDie()});
    return table->SelectColumns({text ? 1 : 0}).ValueOrDie();
  }

  void Fill(bool text) {
    table_.schema.fields = {Column(1, "i", TypeKind::kLong), Column(2, "s", TypeKind::kString)};
    for (int d = 0; d < kDeleteFiles; ++d) {
      const std::string key = "eq" + std::to_string(d);
      Put(key, WriteParquet(*Keys(int64_t{d} * kDeletesEach * 10, 10, kDeletesEach, text)));
      deletes_.push_back(EqualityDeleteFile{key, kDeletesEach, 10 + d, {text ? 2 : 1}});
    }
    for (int t = 0; t < kDataFiles; ++t) {
      EqualityTarget target;
      target.file.key = "data" + std::to_string(t);
      target.file.size =
          Put(target.file.key, WriteParquet(*Keys(int64_t{t} * kRowsEach, 1, kRowsEach, text)));
      target.file.records = kRowsEach;
      target.file.data_sequence_number = t < kDataFiles / 2 ? 1 : 12;
      targets_.push_back(std::move(target));
      all_.push_back(true);
    }
  }

  void ExpectEveryTenth() {
    const auto found = Find();
    ASSERT_TRUE(found) << found.error().ToString();
    for (size_t t = 0; t < found->size(); ++t) {
      const auto& set = (*found)[t];
      ASSERT_EQ(set.size(), kRowsEach / 10) << t;
      for (int64_t row = 0; row < kRowsEach; row += 10) ASSERT_TRUE(set.Contains(row));
    }
  }
};

TEST_F(ManyDeletesTest, I32_ManyDeleteFilesAreReadOnceInOnePart) {
  Fill(false);
  bounds_.memory_bytes = int64_t{64} << 20;
  ExpectEveryTenth();
  EXPECT_EQ(store_.opens["eq0"], 1);
  EXPECT_EQ(store_.opens["data0"], 1);
  EXPECT_EQ(store_.opens["data59"], 1);
}

TEST_F(ManyDeletesTest, I32_LittleMemoryTakesTheDeletesInParts) {
  for (const bool text : {false, true}) {
    for (auto& file : deletes_) ASSERT_TRUE(store_.Remove(file.key));
    for (auto& target : targets_) ASSERT_TRUE(store_.Remove(target.file.key));
    deletes_.clear();
    targets_.clear();
    all_.clear();
    Fill(text);
    store_.opens.clear();
    // All keys: 292,500 of at least 16 bytes.
    bounds_.memory_bytes = int64_t{2} << 20;
    ExpectEveryTenth();
    EXPECT_GE(store_.opens["data0"], 7);
    EXPECT_LE(store_.opens["data0"], 60);
    EXPECT_EQ(store_.opens["eq0"], 1);
  }
}

TEST_F(ManyDeletesTest, I32_MemoryStaysBelowTheBound) {
  Fill(true);
  bounds_.memory_bytes = int64_t{4} << 20;
  auto* pool = arrow::default_memory_pool();
  const int64_t pool_peak_before = pool->max_memory();
  const int64_t before = heap_bytes;
  heap_peak = before;
  ExpectEveryTenth();
  const int64_t heap = heap_peak - before;
  // Arrow's pool tells its peak since the process began: fixtures and other tests count too.
  const int64_t pages = pool->max_memory() > pool_peak_before ? pool->max_memory() : 0;
  EXPECT_GT(heap, int64_t{1} << 20) << "the keys are counted";
  EXPECT_LT(heap + pages, bounds_.memory_bytes) << heap << " and " << pages;
}

TEST_F(ManyDeletesTest, AKeyThatDoesNotFitIsALimit) {
  table_.schema.fields = {Column(1, "s", TypeKind::kString)};
  const arrow::FieldVector s = {IdField(1, "s", arrow::utf8())};
  AddDeletes({1}, 2, s, {"[\"" + std::string(300'000, 'x') + "\"]"});
  AddTarget(1, s, {R"(["x"])"});
  bounds_.memory_bytes = 512 << 10;
  ExpectError(Find(), Code::kLimit, "--memory");
  bounds_.memory_bytes = 8 << 20;
  EXPECT_EQ(Found(), (std::vector<Positions>{{}}));
}

TEST_F(EqualityDeleteTest, StopsOnRequest) {
  table_.schema.fields = {Column(1, "id", TypeKind::kLong)};
  const arrow::FieldVector id = {IdField(1, "id", arrow::int64())};
  AddDeletes({1}, 2, id, {"[1]"});
  AddTarget(1, id, {"[1]"});
  CancelFlag cancel;
  cancel.Request();
  bounds_.cancel = &cancel;
  ExpectError(Find(), Code::kCancelled, "stopped");
}

}  // namespace
}  // namespace lithify::rewrite
