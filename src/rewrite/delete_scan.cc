#include "rewrite/delete_scan.h"

#include <arrow/io/interfaces.h>
#include <parquet/schema.h>

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "rewrite/arrow_io.h"
#include "rewrite/leaf_scan.h"
#include "rewrite/raw_pages.h"

namespace lithify::rewrite {
namespace {

using iceberg::Type;
using iceberg::TypeKind;

constexpr size_t kOpenFilesMax = 4;
constexpr int64_t kRowsPerCheck = 1 << 20;

// Roughly what a distinct path takes besides its text, of which there are two.
constexpr int64_t kPathBytes = 96;

Type PrimitiveType(TypeKind kind) {
  Type type;
  type.kind = kind;
  return type;
}

// The column by its reserved field id, or by name where no column has that id.
Result<int> ReservedColumn(const parquet::SchemaDescriptor& schema, int field_id,
                           const std::string& name) {
  const auto* root = schema.group_node();
  int by_name = -1;
  for (int i = 0; i < root->field_count(); ++i) {
    const auto& node = *root->field(i);
    if (!node.is_primitive() || node.is_repeated()) continue;
    if (node.field_id() == field_id) return schema.ColumnIndex(node);
    if (node.name() == name && node.field_id() < 0) by_name = schema.ColumnIndex(node);
  }
  if (by_name >= 0) return by_name;
  return Fail(
      Code::kCorrupt,
      "the position delete file has no column with the field id " + std::to_string(field_id),
      "column " + name);
}

struct PathHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

class PositionScan {
 public:
  // Called once per distinct path; the set that its positions go to, or null.
  using Find = std::function<PositionSet*(std::string_view)>;

  PositionScan(storage::Store& store, const ScanBounds& bounds)
      : bounds_(bounds), cache_(store, kOpenFilesMax), pool_(bounds.memory_bytes / 2) {}

  // `memory` tells what the sets take by now.
  Status Run(const std::string& key, int64_t records, const Find& find,
             const std::function<int64_t()>& memory) {
    LITHIFY_TRY_ASSIGN(const ScanFile file,
                       OpenScanFile(cache_, key, -1, records, pool_, bounds_.cancel));
    return GuardParquet(key, [&] { return Scan(file, true, find, memory); });
  }

  // The paths alone, and few other bytes.
  Status RunPaths(const std::string& key, int64_t size, const Find& find) {
    LITHIFY_TRY_ASSIGN(ScanFile file, OpenScanFile(cache_, key, size, -1, pool_, bounds_.cancel,
                                                   ScanReading::kFewBytes));
    return GuardParquet(key, [&] {
      JoinReads(file);
      return Scan(file, false, find, [] { return int64_t{0}; });
    });
  }

 private:
  // Where row groups are small, their columns come in fewer requests than there are of them: what
  // lies between two is read along if a request would cost as much.
  void JoinReads(ScanFile& file) {
    constexpr int64_t kGapBytes = 8 * kKiB;
    const Footer& footer = *file.footer;
    if (cache_.store().small_reads_are_cheap() || file.file->supports_zero_copy()) return;
    const auto column = ReservedColumn(footer.schema(), iceberg::kFilePathFieldId, "file_path");
    if (!column) return;  // The scan tells.
    std::vector<ByteRange> ranges;
    for (int g = 0; g < footer.num_row_groups(); ++g) {
      if (footer.row_group(g).num_rows == 0) continue;
      const StoredChunk chunk = footer.Chunk(g, *column);
      const int64_t begin = ChunkStart(chunk.data_page_offset, chunk.dictionary_page_offset);
      ranges.push_back({begin, begin + chunk.total_compressed_size});
    }
    file.file = JoinedReads(std::move(file.file), ranges, kGapBytes, file.read_bytes, pool_.hard());
  }

  Status Scan(const ScanFile& file, bool positions, const Find& find,
              const std::function<int64_t()>& memory) {
    LITHIFY_TRY_ASSIGN(
        const int path_column,
        ReservedColumn(file.footer->schema(), iceberg::kFilePathFieldId, "file_path"));
    LITHIFY_TRY_ASSIGN(auto path,
                       MakeLeafCursor(file, path_column, PrimitiveType(TypeKind::kString)));
    std::unique_ptr<LeafCursor> pos;
    if (positions) {
      LITHIFY_TRY_ASSIGN(const int pos_column,
                         ReservedColumn(file.footer->schema(), iceberg::kPosFieldId, "pos"));
      LITHIFY_TRY_ASSIGN(pos, MakeLeafCursor(file, pos_column, PrimitiveType(TypeKind::kLong)));
    }
    int64_t unchecked = 0;
    for (int g = 0; g < file.footer->num_row_groups(); ++g) {
      LITHIFY_TRY(path->OpenGroup(g));
      if (pos) LITHIFY_TRY(pos->OpenGroup(g));
      int64_t left = file.footer->row_group(g).num_rows;
      while (left > 0) {
        if (bounds_.cancel != nullptr) LITHIFY_TRY(bounds_.cancel->Check());
        LITHIFY_TRY(path->Fill());
        if (pos) LITHIFY_TRY(pos->Fill());
        const size_t n = pos ? std::min(path->available(), pos->available()) : path->available();
        LITHIFY_TRY(Take(*path, pos.get(), n, find));
        left -= static_cast<int64_t>(n);
        unchecked += static_cast<int64_t>(n);
        if (unchecked >= kRowsPerCheck) LITHIFY_TRY(CheckMemory(memory()));
        if (unchecked >= kRowsPerCheck) unchecked = 0;
      }
      LITHIFY_TRY(path->CloseGroup());
      if (pos) LITHIFY_TRY(pos->CloseGroup());
    }
    return CheckMemory(memory());
  }

  // Rows in runs of one path. Within a batch, equal places in memory are equal paths: those of a
  // dictionary's entries.
  Status Take(LeafCursor& path, LeafCursor* pos, size_t n, const Find& find) {
    const std::string_view* paths = path.bytes() + path.at();
    const uint8_t* paths_valid = path.valids() + path.at();
    for (size_t begin = 0; begin < n;) {
      if (paths_valid[begin] == 0) return Fail(Code::kCorrupt, "a null path", "column file_path");
      const std::string_view first = paths[begin];
      size_t end = begin + 1;
      while (end < n && paths_valid[end] != 0 &&
             ((paths[end].data() == first.data() && paths[end].size() == first.size()) ||
              paths[end] == first)) {
        ++end;
      }
      LITHIFY_TRY_ASSIGN(PositionSet * set, SetOf(first, find));
      if (pos != nullptr) LITHIFY_TRY(TakePositions(*pos, begin, end, set));
      begin = end;
    }
    path.Advance(n);
    if (pos != nullptr) pos->Advance(n);
    return {};
  }

  Status TakePositions(const LeafCursor& pos, size_t begin, size_t end, PositionSet* set) {
    const int64_t* words = pos.words() + pos.at();
    const uint8_t* valid = pos.valids() + pos.at();
    for (size_t i = begin; i < end; ++i) {
      if (valid[i] == 0) return Fail(Code::kCorrupt, "a null position", "column pos");
      if (words[i] < 0) {
        return Fail(Code::kCorrupt, "a negative position, " + std::to_string(words[i]),
                    "column pos");
      }
    }
    if (set != nullptr) set->AddMany(std::span(words + begin, end - begin));
    return {};
  }

  Result<PositionSet*> SetOf(std::string_view path, const Find& find) {
    const auto known = sets_.find(path);
    if (known != sets_.end()) return known->second;
    path_bytes_ += kPathBytes + 2 * static_cast<int64_t>(path.size());
    LITHIFY_TRY(CheckMemory(0));
    PositionSet* set = find(path);
    sets_.emplace(path, set);
    return set;
  }

  Status CheckMemory(int64_t sets) const {
    if (path_bytes_ + sets <= bounds_.memory_bytes / 2) return {};
    return Fail(Code::kLimit, "what the position delete file names does not fit the memory bound",
                "", "raise --memory");
  }

  const ScanBounds& bounds_;
  ReaderCache cache_;
  BoundedPool pool_;
  std::unordered_map<std::string, PositionSet*, PathHash, std::equal_to<>> sets_;
  int64_t path_bytes_ = 0;
};

}  // namespace

Result<std::map<std::string, PositionSet>> ReadPositionDeletes(
    storage::Store& store, const std::string& key, int64_t records,
    const std::function<std::string(std::string_view)>& wanted, const ScanBounds& bounds) {
  std::map<std::string, PositionSet> found;
  const auto find = [&](std::string_view path) -> PositionSet* {
    const std::string name = wanted(path);
    return name.empty() ? nullptr : &found[name];
  };
  const auto memory = [&] {
    int64_t bytes = 0;
    for (const auto& [name, set] : found) bytes += set.memory_bytes();
    return bytes;
  };
  LITHIFY_TRY(PositionScan(store, bounds).Run(key, records, find, memory));
  return found;
}

Result<std::vector<std::string>> ReadPositionDeletePaths(storage::Store& store,
                                                         const std::string& key, int64_t size,
                                                         const ScanBounds& bounds) {
  std::vector<std::string> paths;
  const auto find = [&](std::string_view path) -> PositionSet* {
    paths.emplace_back(path);
    return nullptr;
  };
  Status read = PositionScan(store, bounds).RunPaths(key, size, find);
  // The file decides where its footer is, not what somebody wrote of its size.
  if (!read && read.error().code == Code::kCorrupt && size >= 0) {
    paths.clear();
    read = PositionScan(store, bounds).RunPaths(key, -1, find);
  }
  if (!read) return Fail(std::move(read.error()));
  std::ranges::sort(paths);
  return paths;
}

}  // namespace lithify::rewrite
