#include "table/hive_manifest.h"

#include <exception>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/text.h"

namespace lithify::table {
namespace {

using nlohmann::json;

// Bounds on hostile input. A manifest that fills its 64 MiB with names has about a million values.
constexpr size_t kDepthMax = 64;
constexpr size_t kValuesMax = size_t{1} << 22;

constexpr int64_t kLineageVersion = 1;

std::unexpected<Error> Bad(std::string message) { return Fail(Code::kCorrupt, std::move(message)); }

// Names in messages are quoted and cut: they may be hostile.
std::string Quote(std::string_view text) {
  constexpr size_t kShown = 120;
  if (text.size() <= kShown) return JsonQuote(text);
  return JsonQuote(text.substr(0, kShown)) + " (" + std::to_string(text.size()) + " bytes)";
}

// Splits the top-level object into its members' texts, in compact form and otherwise as written
// (numbers keep their digits), without building values: no recursion, bounded depth, and it sees
// the duplicate keys that a tree of values would hide.
class MemberSplitter final : public nlohmann::json_sax<json> {
 public:
  const std::string& problem() const { return problem_; }
  std::vector<std::pair<std::string, std::string>>& members() { return members_; }

  bool null() override { return Scalar("null"); }
  bool boolean(bool value) override { return Scalar(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return Scalar(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Scalar(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& digits) override { return Scalar(digits); }
  bool string(string_t& value) override { return Scalar(JsonQuote(value)); }
  bool binary(binary_t&) override { return Stop("a binary value"); }
  bool start_object(std::size_t) override { return Open('{'); }
  bool end_object() override { return Close('}'); }
  bool start_array(std::size_t) override { return Open('['); }
  bool end_array() override { return Close(']'); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    if (!level.keys.insert(name).second) return Stop("key " + Quote(name) + " occurs twice");
    if (levels_.size() == 1) {
      members_.emplace_back(name, std::string());
      return true;
    }
    std::string& text = members_.back().second;
    if (level.values++ > 0) text += ',';
    text += JsonQuote(name);
    text += ':';
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    return Stop("not JSON at byte " + std::to_string(position) + ": " + error.what());
  }

 private:
  struct Level {
    bool is_object = false;
    size_t values = 0;
    std::set<std::string> keys;
  };

  bool Stop(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return false;
  }

  // Text before a value: a comma between the elements of an array.
  bool BeforeValue() {
    if (++values_ > kValuesMax) return Stop("more than " + std::to_string(kValuesMax) + " values");
    Level& level = levels_.back();
    if (!level.is_object && level.values++ > 0) members_.back().second += ',';
    return true;
  }

  bool Scalar(std::string_view text) {
    if (levels_.empty()) return Stop("not a JSON object");
    if (!BeforeValue()) return false;
    members_.back().second += text;
    return true;
  }

  bool Open(char bracket) {
    if (levels_.empty()) {
      if (bracket != '{') return Stop("not a JSON object");
    } else {
      if (!BeforeValue()) return false;
      members_.back().second += bracket;
    }
    if (levels_.size() >= kDepthMax) {
      return Stop("nested deeper than " + std::to_string(kDepthMax) + " levels");
    }
    levels_.push_back(Level{bracket == '{', 0, {}});
    return true;
  }

  bool Close(char bracket) {
    levels_.pop_back();
    if (!levels_.empty()) members_.back().second += bracket;
    return true;
  }

  std::vector<Level> levels_;
  size_t values_ = 0;
  std::vector<std::pair<std::string, std::string>> members_;
  std::string problem_;
};

using Members = std::map<std::string, std::string, std::less<>>;

// The contract's members by name, and the others as the text of one object.
struct SplitText {
  Members contract;
  std::string extra = "{}";
};

Result<SplitText> Split(std::string_view text) {
  // The parser would skip the first and stop at the second.
  if (text.starts_with("\xEF\xBB\xBF")) return Bad("it starts with a byte order mark");
  if (text.find('\0') != std::string_view::npos) return Bad("it has a NUL byte");
  MemberSplitter splitter;
  if (!json::sax_parse(text.begin(), text.end(), &splitter)) return Bad(splitter.problem());
  SplitText split;
  for (auto& [name, value] : splitter.members()) {
    if (name == "generation" || name == "files" || name == "lithify") {
      split.contract.emplace(name, std::move(value));
      continue;
    }
    if (split.extra.size() > 2) split.extra.insert(split.extra.size() - 1, ",");
    split.extra.insert(split.extra.size() - 1, JsonQuote(name) + ":" + value);
  }
  return split;
}

Result<json> Value(const Members& members, std::string_view name) {
  const auto found = members.find(name);
  if (found == members.end()) return Bad("there is no " + Quote(name));
  return json::parse(found->second, nullptr, false);
}

Result<uint64_t> ReadGeneration(const Members& members) {
  LITHIFY_TRY_ASSIGN(const json value, Value(members, "generation"));
  if (!value.is_number_unsigned() || value.get<uint64_t>() == 0) {
    return Bad("generation is not an integer from 1 to 2^64-1");
  }
  return value.get<uint64_t>();
}

Result<std::string> ReadName(const json& value, std::string_view where) {
  if (!value.is_string()) return Bad(std::string(where) + " is not a string");
  const auto& name = value.get_ref<const std::string&>();
  if (!IsLiveFileName(name)) {
    return Bad(std::string(where) + " is " + Quote(name) +
               ", which is not the bare name of a .parquet file in this partition");
  }
  return name;
}

Status ReadFiles(const Members& members, HiveManifest& manifest) {
  LITHIFY_TRY_ASSIGN(const json value, Value(members, "files"));
  if (!value.is_array()) return Bad("files is not an array");
  manifest.files.reserve(value.size());
  for (const json& element : value) {
    const std::string where = "files[" + std::to_string(manifest.files.size()) + "]";
    LITHIFY_TRY_ASSIGN(std::string name, ReadName(element, where));
    manifest.files.push_back(std::move(name));
  }
  return {};
}

Result<std::string> ReadText(const json& object, const char* name, const std::string& where) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) {
    return Bad(where + name + " is not a string");
  }
  return found->get<std::string>();
}

Result<RetiredFile::Reason> ReadReason(const std::string& text, const std::string& where) {
  if (text == "superseded") return RetiredFile::Reason::kSuperseded;
  if (text == "fenced") return RetiredFile::Reason::kFenced;
  if (text == "foreign") return RetiredFile::Reason::kForeign;
  return Bad(where + "reason is " + Quote(text) + ", not superseded, fenced or foreign");
}

std::string_view ReasonName(RetiredFile::Reason reason) {
  switch (reason) {
    case RetiredFile::Reason::kSuperseded: return "superseded";
    case RetiredFile::Reason::kFenced: return "fenced";
    case RetiredFile::Reason::kForeign: return "foreign";
  }
  return "foreign";
}

// Members that this version does not know could not be carried over: hands off.
Status CheckMembers(const json& object, const std::set<std::string_view>& known,
                    const std::string& where) {
  for (const auto& [name, value] : object.items()) {
    if (!known.contains(name)) {
      return Fail(Code::kUnsupported, "unknown member " + Quote(where + name), {},
                  "a newer lithify wrote it: use that version here");
    }
  }
  return {};
}

Result<RetiredFile> ReadRetired(const json& value, const std::string& item) {
  if (!value.is_object()) return Bad(item + " is not an object");
  const std::string where = item + ".";
  LITHIFY_TRY(CheckMembers(value, {"file", "at", "reason", "job_id"}, where));
  RetiredFile retired;
  const auto file = value.find("file");
  if (file == value.end()) return Bad("there is no " + where + "file");
  LITHIFY_TRY_ASSIGN(retired.name, ReadName(*file, where + "file"));
  LITHIFY_TRY_ASSIGN(const std::string at, ReadText(value, "at", where));
  const Result<Time> time = ParseTime(at);
  if (!time) return Bad(where + "at is " + Quote(at) + ", not a time");
  retired.at = *time;
  LITHIFY_TRY_ASSIGN(const std::string reason, ReadText(value, "reason", where));
  LITHIFY_TRY_ASSIGN(retired.reason, ReadReason(reason, where));
  LITHIFY_TRY_ASSIGN(retired.job_id, ReadText(value, "job_id", where));
  return retired;
}

Status ReadLineage(const Members& members, HiveManifest& manifest) {
  if (!members.contains("lithify")) return {};
  LITHIFY_TRY_ASSIGN(const json value, Value(members, "lithify"));
  if (!value.is_object()) return Bad("lithify is not an object");
  const auto version = value.find("version");
  if (version == value.end() || !version->is_number_unsigned() || version->get<uint64_t>() == 0) {
    return Bad("lithify.version is not a positive integer");
  }
  if (version->get<uint64_t>() > kLineageVersion) {
    return Fail(Code::kUnsupported,
                "written by a newer lithify: version " + std::to_string(version->get<uint64_t>()) +
                    ", this one knows " + std::to_string(kLineageVersion),
                {}, "use the newer version here");
  }
  LITHIFY_TRY(CheckMembers(value, {"version", "job_id", "retired"}, "lithify."));
  manifest.has_lineage = true;
  LITHIFY_TRY_ASSIGN(manifest.job_id, ReadText(value, "job_id", "lithify."));
  const auto retired = value.find("retired");
  if (retired == value.end() || !retired->is_array()) return Bad("lithify.retired is not an array");
  manifest.retired.reserve(retired->size());
  for (const json& element : *retired) {
    const std::string item = "lithify.retired[" + std::to_string(manifest.retired.size()) + "]";
    LITHIFY_TRY_ASSIGN(RetiredFile file, ReadRetired(element, item));
    manifest.retired.push_back(std::move(file));
  }
  return {};
}

// A name has one role: live once, or retired once.
Status CheckDistinct(const HiveManifest& manifest) {
  std::unordered_set<std::string_view> live;
  for (const std::string& name : manifest.files) {
    if (!live.insert(name).second) return Bad("files names " + Quote(name) + " twice");
  }
  std::unordered_set<std::string_view> retired;
  for (const RetiredFile& file : manifest.retired) {
    if (live.contains(file.name)) return Bad(Quote(file.name) + " is both live and retired");
    if (!retired.insert(file.name).second) {
      return Bad("lithify.retired names " + Quote(file.name) + " twice");
    }
  }
  return {};
}

Result<HiveManifest> ParseUncaught(std::string_view text) {
  LITHIFY_TRY_ASSIGN(SplitText split, Split(text));
  HiveManifest manifest;
  LITHIFY_TRY_ASSIGN(manifest.generation, ReadGeneration(split.contract));
  LITHIFY_TRY(ReadFiles(split.contract, manifest));
  LITHIFY_TRY(ReadLineage(split.contract, manifest));
  LITHIFY_TRY(CheckDistinct(manifest));
  manifest.extra_json = std::move(split.extra);
  return manifest;
}

std::string Write(const HiveManifest& manifest, std::string_view extra) {
  std::string out = "{\"generation\":" + std::to_string(manifest.generation) + ",\"files\":[";
  const char* comma = "";
  for (const std::string& name : manifest.files) {
    out += comma + JsonQuote(name);
    comma = ",";
  }
  out += ']';
  if (manifest.has_lineage) {
    out += ",\"lithify\":{\"version\":" + std::to_string(kLineageVersion) +
           ",\"job_id\":" + JsonQuote(manifest.job_id) + ",\"retired\":[";
    comma = "";
    for (const RetiredFile& file : manifest.retired) {
      out += comma;
      out += "{\"file\":" + JsonQuote(file.name) + ",\"at\":" + JsonQuote(FormatTime(file.at)) +
             ",\"reason\":" + JsonQuote(ReasonName(file.reason)) +
             ",\"job_id\":" + JsonQuote(file.job_id) + "}";
      comma = ",";
    }
    out += "]}";
  }
  if (extra.size() > 2) {
    out += ',';
    out += extra.substr(1, extra.size() - 2);
  }
  out += '}';
  return out;
}

// `f`, with what third-party code throws as errors.
template <typename F>
auto Caught(F f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return Fail(Code::kLimit, "out of memory for this manifest");
  } catch (const std::exception& e) {
    return Bad(std::string("not readable as JSON: ") + e.what());
  }
}

}  // namespace

Result<HiveManifest> ParseManifest(std::string_view text) {
  return Caught([&] { return ParseUncaught(text); });
}

Result<std::string> SerializeManifest(const HiveManifest& manifest) {
  // The result is read back as any reader would, so that nothing wrong can be published.
  Result<std::string> written = Caught([&]() -> Result<std::string> {
    LITHIFY_TRY_ASSIGN(const SplitText extra, Split(manifest.extra_json));
    if (!extra.contract.empty()) return Bad("an extra member is called like one of the contract");
    std::string text = Write(manifest, extra.extra);
    LITHIFY_TRY_ASSIGN(HiveManifest back, ParseUncaught(text));
    back.extra_json = manifest.extra_json;
    if (back != manifest) return Bad("it would read back as something else");
    return text;
  });
  if (!written) {
    if (written.error().code == Code::kLimit) return written;
    return Fail(Code::kInternal, "refused to write an invalid manifest: " + written.error().message,
                std::move(written.error().context));
  }
  if (static_cast<int64_t>(written->size()) > kManifestBytesMax) {
    return Fail(Code::kLimit, "the manifest would have " +
                                  FormatBytes(static_cast<int64_t>(written->size())) +
                                  ", more than " + FormatBytes(kManifestBytesMax));
  }
  return written;
}

Result<std::optional<ManifestSnapshot>> ReadManifest(storage::Store& store,
                                                     const std::string& key_prefix) {
  const std::string key = key_prefix + std::string(kManifestName);
  Result<storage::Blob> blob = store.Get(key, kManifestBytesMax);
  if (!blob) {
    if (blob.error().code == Code::kNotFound) return std::optional<ManifestSnapshot>();
    return Fail(std::move(blob.error()).In(key));
  }
  Result<HiveManifest> manifest = ParseManifest(blob->bytes);
  if (!manifest) {
    Error error = std::move(manifest.error()).In(key);
    if (error.hint.empty()) {
      error.hint = "nothing in this partition is touched until its manifest.json is restored";
    }
    return Fail(std::move(error));
  }
  return std::optional<ManifestSnapshot>(
      ManifestSnapshot{std::move(*manifest), std::move(blob->version)});
}

}  // namespace lithify::table
