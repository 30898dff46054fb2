#include "table/iceberg_json.h"

#define ZLIB_CONST
#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <limits>
#include <utility>

#include "base/text.h"

namespace lithify::table::iceberg_json {
namespace {

// Bounds on hostile input. A snapshot takes about 40 values and 1 kB.
constexpr size_t kBytesMax = size_t{512} << 20;
constexpr size_t kDepthMax = 200;
constexpr size_t kValuesMax = size_t{1} << 25;

// Names in messages are quoted and cut: they may be hostile.
std::string Quote(std::string_view text) {
  constexpr size_t kShown = 120;
  if (text.size() <= kShown) return JsonQuote(text);
  return JsonQuote(text.substr(0, kShown)) + " (" + std::to_string(text.size()) + " bytes)";
}

class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(Json& root) : root_(root) {}
  const Error& error() const { return error_; }

  bool null() override { return Add(nullptr) != nullptr; }
  bool boolean(bool value) override { return Add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return Add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return Add(value) != nullptr; }
  bool number_float(number_float_t, const string_t& digits) override {
    return Add(RawNumber(digits)) != nullptr;
  }
  bool string(string_t& value) override { return Add(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return Stop(Code::kCorrupt, "a binary value"); }
  bool start_object(std::size_t) override { return Open(Json::object()); }
  bool end_object() override {
    // Known by sorting, since an object of a hostile text may have a million members.
    const auto& members = open_.back()->get_ref<const Json::object_t&>();
    std::vector<std::string_view> keys;
    keys.reserve(members.size());
    for (const auto& [key, value] : members) keys.emplace_back(key);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) return Stop(Code::kCorrupt, "key " + Quote(*twice) + " occurs twice");
    return Close();
  }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    return Stop(Code::kCorrupt,
                "not JSON at byte " + std::to_string(position) + ": " + error.what());
  }

 private:
  bool Stop(Code code, std::string problem) {
    if (error_.message.empty()) error_ = Error{code, std::move(problem), {}, {}};
    return false;
  }

  // Null after Stop(). What is open is the last element of all that is around it, so that pointers
  // to it stay good.
  Json* Add(Json value) {
    if (++values_ > kValuesMax) {
      Stop(Code::kLimit, "it has more than " + std::to_string(kValuesMax) + " values");
      return nullptr;
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    auto& members = parent.get_ref<Json::object_t&>();
    members.Json::object_t::Container::emplace_back(std::move(key_), std::move(value));
    return &members.back().second;
  }

  bool Open(Json value) {
    if (open_.size() >= kDepthMax) {
      return Stop(Code::kCorrupt, "nested deeper than " + std::to_string(kDepthMax) + " levels");
    }
    Json* added = Add(std::move(value));
    if (added == nullptr) return false;
    open_.push_back(added);
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  Json& root_;
  std::vector<Json*> open_;
  std::string key_;
  size_t values_ = 0;
  Error error_;
};

Result<std::string> Gunzip(std::string_view packed, std::string_view where) {
  z_stream stream = {};
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) {
    return Fail(Code::kInternal, "cannot start zlib", std::string(where));
  }
  stream.next_in = reinterpret_cast<const Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text;
  int rc = Z_OK;
  while (rc == Z_OK && text.size() <= kBytesMax) {
    const size_t done = text.size();
    text.resize(std::max<size_t>(size_t{64} << 10, done * 2));
    stream.next_out = reinterpret_cast<Bytef*>(text.data() + done);
    stream.avail_out = static_cast<uInt>(text.size() - done);
    rc = inflate(&stream, Z_NO_FLUSH);
    text.resize(text.size() - stream.avail_out);
  }
  const bool whole = rc == Z_STREAM_END && stream.avail_in == 0;
  inflateEnd(&stream);
  if (text.size() > kBytesMax) {
    return Fail(Code::kLimit, "it unpacks to more than " + FormatBytes(kBytesMax),
                std::string(where));
  }
  if (!whole) return Fail(Code::kCorrupt, "not a whole gzip stream", std::string(where));
  return text;
}

void Append(const Json& json, std::string& out) {
  switch (json.type()) {
    case Json::value_t::object: {
      char separator = '{';
      for (const auto& [key, value] : json.get_ref<const Json::object_t&>()) {
        out += separator;
        out += JsonQuote(key);
        out += ':';
        Append(value, out);
        separator = ',';
      }
      out += separator == '{' ? "{}" : "}";
      return;
    }
    case Json::value_t::array: {
      char separator = '[';
      for (const Json& value : json) {
        out += separator;
        Append(value, out);
        separator = ',';
      }
      out += separator == '[' ? "[]" : "]";
      return;
    }
    case Json::value_t::string: out += JsonQuote(json.get_ref<const std::string&>()); return;
    case Json::value_t::binary: {
      const auto& digits = json.get_binary();
      out.append(digits.begin(), digits.end());
      return;
    }
    default: out += json.dump(); return;
  }
}

}  // namespace

Json RawNumber(std::string_view digits) {
  return Json::binary(std::vector<uint8_t>(digits.begin(), digits.end()));
}

Result<Json> Parse(std::string_view text, std::string_view where) {
  std::string unpacked;
  if (text.size() > kBytesMax) {
    return Fail(Code::kLimit, "it is larger than " + FormatBytes(kBytesMax), std::string(where));
  }
  if (text.starts_with("\x1f\x8b")) {
    LITHIFY_TRY_ASSIGN(unpacked, Gunzip(text, where));
    text = unpacked;
  }
  // The parser would skip the first and stop at the second.
  if (text.starts_with("\xEF\xBB\xBF")) {
    return Fail(Code::kCorrupt, "it starts with a byte order mark", std::string(where));
  }
  if (text.find('\0') != std::string_view::npos) {
    return Fail(Code::kCorrupt, "it has a NUL byte", std::string(where));
  }
  try {
    Json root;
    Builder builder(root);
    if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
      Error error = builder.error();
      error.context = where;
      return Fail(std::move(error));
    }
    return root;
  } catch (const std::bad_alloc&) {
    return Fail(Code::kLimit, "not enough memory for its values", std::string(where));
  } catch (const std::exception& error) {
    return Fail(Code::kCorrupt, error.what(), std::string(where));
  }
}

std::string Write(const Json& json) {
  std::string out;
  Append(json, out);
  return out;
}

std::string Node::Path() const {
  if (parent_ == nullptr) return {};
  std::string path = parent_->Path();
  if (key_.data() == nullptr) return path + "[" + std::to_string(index_) + "]";
  if (!path.empty()) path += '.';
  return path.append(key_.substr(0, 120));
}

std::unexpected<Error> Node::Fault(Code code, std::string_view problem) const {
  std::string path = Path();
  if (!path.empty()) path += ' ';
  return Fail(code, path.append(problem));
}

std::unexpected<Error> Node::Bad(std::string_view problem) const {
  return Fault(Code::kCorrupt, problem);
}

std::optional<Node> Node::Find(std::string_view key) const {
  if (!json_->is_object()) return std::nullopt;
  for (const auto& [name, value] : json_->get_ref<const Json::object_t&>()) {
    if (name != key) continue;
    if (value.is_null()) return std::nullopt;
    return Node(value, *this, key);
  }
  return std::nullopt;
}

Result<Node> Node::Member(std::string_view key) const {
  LITHIFY_TRY(IsObject());
  if (std::optional<Node> found = Find(key)) return *found;
  return Node(*json_, *this, key).Bad("is missing");
}

Status Node::IsObject() const {
  if (!json_->is_object()) return Bad("is not an object");
  return {};
}

Result<size_t> Node::ArraySize() const {
  if (!json_->is_array()) return Bad("is not an array");
  return json_->size();
}

Result<bool> Node::Bool() const {
  if (!json_->is_boolean()) return Bad("is neither true nor false");
  return json_->get<bool>();
}

Result<int64_t> Node::Int64() const {
  const bool fits = json_->is_number_unsigned()
                        ? json_->get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()}
                        : json_->is_number_integer();
  if (!fits) return Bad("is not a 64-bit integer");
  return json_->get<int64_t>();
}

Result<int> Node::Int32() const {
  const Result<int64_t> value = Int64();
  if (!value || *value < std::numeric_limits<int>::min() ||
      *value > std::numeric_limits<int>::max()) {
    return Bad("is not a 32-bit integer");
  }
  return static_cast<int>(*value);
}

Result<double> Node::Double() const {
  if (json_->is_number_integer()) return json_->get<double>();
  if (!json_->is_binary()) return Bad("is not a number");
  const auto& digits = json_->get_binary();
  const char* begin = reinterpret_cast<const char*>(digits.data());
  double value = 0;
  const auto read = std::from_chars(begin, begin + digits.size(), value);
  if (read.ec != std::errc() || read.ptr != begin + digits.size()) {
    return Bad("is not a number that a double holds");
  }
  return value;
}

Result<std::string> Node::Text() const {
  if (!json_->is_string()) return Bad("is not a string");
  return json_->get<std::string>();
}

Result<std::map<std::string, std::string>> Node::TextMap() const {
  LITHIFY_TRY(IsObject());
  std::map<std::string, std::string> map;
  for (const auto& [key, value] : json_->get_ref<const Json::object_t&>()) {
    if (value.is_null()) continue;
    LITHIFY_TRY_ASSIGN(std::string text, Node(value, *this, key).Text());
    map.emplace(key, std::move(text));
  }
  return map;
}

Result<int64_t> Node::Int64(std::string_view key) const {
  LITHIFY_TRY_ASSIGN(const Node member, Member(key));
  return member.Int64();
}

Result<int> Node::Int32(std::string_view key) const {
  LITHIFY_TRY_ASSIGN(const Node member, Member(key));
  return member.Int32();
}

Result<std::string> Node::Text(std::string_view key) const {
  LITHIFY_TRY_ASSIGN(const Node member, Member(key));
  return member.Text();
}

Result<std::optional<int64_t>> Node::OptionalInt64(std::string_view key) const {
  const std::optional<Node> member = Find(key);
  if (!member) return std::nullopt;
  return member->Int64();
}

Result<std::optional<int>> Node::OptionalInt32(std::string_view key) const {
  const std::optional<Node> member = Find(key);
  if (!member) return std::nullopt;
  return member->Int32();
}

Result<std::optional<std::string>> Node::OptionalText(std::string_view key) const {
  const std::optional<Node> member = Find(key);
  if (!member) return std::nullopt;
  return member->Text();
}

}  // namespace lithify::table::iceberg_json
