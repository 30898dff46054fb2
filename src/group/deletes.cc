#include "group/deletes.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "rewrite/delete_scan.h"
#include "table/puffin.h"

namespace lithify::group {
namespace {

using iceberg::FileContent;
using iceberg::LiveDeleteFile;

class Resolver {
 public:
  Resolver(const DeleteScope& scope, const std::vector<int32_t>& data_files,
           const std::vector<rewrite::InputFile>& inputs)
      : scope_(scope), data_files_(data_files), inputs_(inputs), rows_(data_files.size()) {}

  Result<GroupDeletes> Run() {
    LITHIFY_TRY(Sort());
    LITHIFY_TRY(ReadVectors());
    LITHIFY_TRY(ReadPositions());
    GroupDeletes out;
    out.files.resize(data_files_.size());
    for (size_t i = 0; i < rows_.size(); ++i) out.files[i].by_position = rows_[i].size();
    LITHIFY_TRY(FindEqual());
    for (size_t i = 0; i < rows_.size(); ++i) {
      out.files[i].by_equality = rows_[i].size() - out.files[i].by_position;
      if (!rows_[i].empty()) {
        out.files[i].rows = std::make_shared<const PositionSet>(std::move(rows_[i]));
      }
    }
    out.named_paths = std::move(named_paths_);
    return out;
  }

 private:
  const LiveDeleteFile& Delete(int32_t index) const {
    return scope_.live.delete_files[static_cast<size_t>(index)];
  }

  // Which deletes apply to which inputs, by kind.
  Status Sort() {
    for (size_t i = 0; i < data_files_.size(); ++i) {
      for (const int32_t index : scope_.index.AppliesTo(data_files_[i])) {
        const LiveDeleteFile& file = Delete(index);
        if (!file.unsupported.empty()) {
          return Fail(Code::kUnsupported,
                      "a delete file applies that is not read: " + std::string(file.unsupported),
                      file.path);
        }
        if (file.deletion_vector) {
          vectors_.emplace_back(i, index);
        } else if (file.content == FileContent::kPositionDeletes) {
          positions_[index].push_back(i);
        } else {
          equality_[index].push_back(i);
        }
      }
    }
    return {};
  }

  Status ReadVectors() {
    for (const auto& [input, index] : vectors_) {
      LITHIFY_TRY(scope_.cancel.Check());
      const LiveDeleteFile& file = Delete(index);
      LITHIFY_TRY_ASSIGN(const auto place, scope_.locations.Resolve(file.path));
      auto read = table::ReadDeletionVector(*place.store, place.key, file.content_offset,
                                            file.content_size, file.records);
      if (!read) return Fail(InTable(std::move(read.error()), place.key, file.path));
      rows_[input].Unite(*read);
    }
    return {};
  }

  Status ReadPositions() {
    for (const auto& [index, inputs] : positions_) {
      LITHIFY_TRY(scope_.cancel.Check());
      const LiveDeleteFile& file = Delete(index);
      std::unordered_map<std::string_view, size_t> by_path;
      for (const size_t i : inputs) by_path.emplace(Path(i), i);
      std::set<std::string, std::less<>> named;
      const auto wanted = [&](std::string_view path) {
        if (!named.contains(path)) named.emplace(path);
        return by_path.contains(path) ? std::string(path) : std::string();
      };
      LITHIFY_TRY_ASSIGN(const auto place, scope_.locations.Resolve(file.path));
      auto read =
          rewrite::ReadPositionDeletes(*place.store, place.key, file.records, wanted, Bounds());
      if (!read) return Fail(InTable(std::move(read.error()), place.key, file.path));
      for (const auto& [path, set] : *read) rows_[by_path.at(path)].Unite(set);
      named_paths_[index].assign(named.begin(), named.end());
    }
    return {};
  }

  Status FindEqual() {
    if (equality_.empty()) return {};
    std::vector<rewrite::EqualityDeleteFile> deletes;
    std::vector<std::vector<int>> of_input(inputs_.size());
    std::shared_ptr<storage::Store> store;
    for (const auto& [index, inputs] : equality_) {
      const LiveDeleteFile& file = Delete(index);
      LITHIFY_TRY_ASSIGN(auto place, scope_.locations.Resolve(file.path));
      LITHIFY_TRY(OneStore(store, std::move(place.store), file.path));
      for (const size_t i : inputs) of_input[i].push_back(static_cast<int>(deletes.size()));
      deletes.push_back({.key = std::move(place.key),
                         .records = file.records,
                         .sequence_number = file.sequence_number,
                         .equality_ids = file.equality_ids});
    }
    std::vector<rewrite::EqualityTarget> targets;
    std::vector<size_t> input_of;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (of_input[i].empty()) continue;
      LITHIFY_TRY_ASSIGN(auto place, scope_.locations.Resolve(Path(i)));
      LITHIFY_TRY(OneStore(store, std::move(place.store), std::string(Path(i))));
      targets.push_back({.file = inputs_[i], .deletes = std::move(of_input[i])});
      input_of.push_back(i);
    }
    auto found = rewrite::FindEqualityDeleted(*store, scope_.target, deletes, targets, Bounds());
    if (!found) {
      Error error = std::move(found.error());
      size_t at = 0;
      for (const auto& [index, inputs] : equality_) {
        error = storage::NameByLocation(std::move(error), deletes[at++].key, Delete(index).path);
      }
      return Fail(std::move(error));
    }
    LITHIFY_CHECK(found->size() == targets.size(), "one set per target");
    for (size_t t = 0; t < found->size(); ++t) rows_[input_of[t]].Unite((*found)[t]);
    return {};
  }

  static Error InTable(Error error, const std::string& key, const std::string& path) {
    return storage::NameByLocation(std::move(error), key, path).In(path);
  }

  static Status OneStore(std::shared_ptr<storage::Store>& store,
                         std::shared_ptr<storage::Store> other, const std::string& path) {
    if (!store)
      store = std::move(other);
    else if (other && other != store) {
      return Fail(Code::kUnsupported, "the files of one group are in several stores", path);
    }
    return {};
  }

  std::string_view Path(size_t input) const {
    return scope_.live.data_files[static_cast<size_t>(data_files_[input])].path;
  }
  rewrite::ScanBounds Bounds() const {
    return {.memory_bytes = scope_.memory_bytes, .cancel = &scope_.cancel};
  }

  const DeleteScope& scope_;
  const std::vector<int32_t>& data_files_;
  const std::vector<rewrite::InputFile>& inputs_;
  std::vector<PositionSet> rows_;  // By input.
  std::vector<std::pair<size_t, int32_t>> vectors_;
  std::map<int32_t, std::vector<size_t>> positions_;  // Delete file -> inputs.
  std::map<int32_t, std::vector<size_t>> equality_;
  std::map<int32_t, std::vector<std::string>> named_paths_;
};

}  // namespace

Result<GroupDeletes> ResolveDeletes(const DeleteScope& scope,
                                    const std::vector<int32_t>& data_files,
                                    const std::vector<rewrite::InputFile>& inputs) {
  LITHIFY_CHECK(data_files.size() == inputs.size(), "one input per data file");
  return Resolver(scope, data_files, inputs).Run();
}

}  // namespace lithify::group
