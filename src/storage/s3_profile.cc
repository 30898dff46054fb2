#include "storage/s3_profile.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace lithify::storage {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

std::string LowerCase(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

bool IsTrue(const std::string& value) { return LowerCase(value) == "true"; }

// Up to a comment, which begins with "#" or ";" after a space.
std::string_view WithoutComment(std::string_view value) {
  for (size_t at = 1; at < value.size(); ++at) {
    if ((value[at] == '#' || value[at] == ';') && kSpace.contains(value[at - 1])) {
      return Trimmed(value.substr(0, at));
    }
  }
  return Trimmed(value);
}

struct Heading {
  std::string kind;  // The word before the name, if there are two.
  std::string name;
};

// "[name]", "[kind name]", "[kind \"name\"]", and a comment.
std::optional<Heading> ParseHeading(std::string_view line) {
  const size_t end = line.find(']');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view rest = Trimmed(line.substr(end + 1));
  if (!rest.empty() && rest.front() != '#' && rest.front() != ';') return std::nullopt;
  const std::string_view inside = Trimmed(line.substr(1, end - 1));
  const size_t space = inside.find_first_of(" \t");
  Heading heading;
  std::string_view name = inside;
  if (space != std::string_view::npos) {
    heading.kind = inside.substr(0, space);
    name = Trimmed(inside.substr(space));
  }
  const bool quoted = name.size() >= 2 && (name.front() == '"' || name.front() == '\'') &&
                      name.back() == name.front();
  heading.name = quoted ? name.substr(1, name.size() - 2) : name;
  return heading;
}

struct ParsedSection {
  Heading heading;
  S3Section section;
};

// Takes a file apart line by line.
class Lines {
 public:
  // False: no such line belongs there.
  bool Take(std::string_view line) {
    const std::string_view text = Trimmed(line);
    if (text.empty() || text.front() == '#' || text.front() == ';') return true;
    const size_t indent = line.find_first_not_of(" \t");
    const bool nested = !key_.empty() && indent > indent_;
    if (text.front() == '[' && !nested) {
      auto heading = ParseHeading(text);
      if (!heading) return false;
      sections_.push_back({*std::move(heading), {}});
      key_.clear();
      return true;
    }
    if (sections_.empty()) return false;
    auto& values = sections_.back().section.values;
    const size_t equals = text.find('=');
    const std::string key = LowerCase(Trimmed(text.substr(0, equals)));
    if (nested) {
      // The next line of a longer value has no meaning to anyone here.
      if (equals != std::string_view::npos && !key.empty()) {
        values.insert_or_assign(key_ + "." + key, Trimmed(text.substr(equals + 1)));
      }
      return true;
    }
    if (equals == std::string_view::npos || key.empty()) return false;
    values.insert_or_assign(key, WithoutComment(text.substr(equals + 1)));
    key_ = key;
    indent_ = indent;
    return true;
  }
  std::vector<ParsedSection> sections() && { return std::move(sections_); }

 private:
  std::vector<ParsedSection> sections_;
  std::string key_;  // The last one; empty: none since the heading.
  size_t indent_ = 0;
};

// The line may hold a secret: it is told by its number.
Result<std::vector<ParsedSection>> ParseFile(std::string_view file, const std::string& path) {
  Lines lines;
  int number = 0;
  for (size_t at = 0; at < file.size();) {
    const size_t end = std::min(file.find('\n', at), file.size());
    ++number;
    if (!lines.Take(file.substr(at, end - at))) {
      return Fail(
          Code::kInvalid,
          "line " + std::to_string(number) + " is neither \"[profile name]\" nor \"key = value\"",
          path);
    }
    at = end + 1;
  }
  return std::move(lines).sections();
}

constexpr std::array kKeys = {"aws_access_key_id", "aws_secret_access_key", "aws_session_token"};

// `over` counts. Keys are one thing: those of one file do not go with the token of another.
void Merge(const S3Section& over, S3Section& under) {
  const bool has_keys =
      std::ranges::any_of(kKeys, [&](const char* key) { return over.values.contains(key); });
  if (has_keys) {
    for (const char* key : kKeys) under.values.erase(key);
  }
  for (const auto& [key, value] : over.values) under.values.insert_or_assign(key, value);
}

const S3Section* Found(const std::map<std::string, S3Section>& all, const std::string& name) {
  const auto found = all.find(name);
  return found == all.end() ? nullptr : &found->second;
}

}  // namespace

std::string S3Section::Value(const std::string& key) const {
  const auto found = values.find(key);
  return found == values.end() ? std::string() : found->second;
}

Status S3Profiles::ReadFile(const S3Surroundings& around, const char* variable, const char* usual,
                            bool is_config) {
  const std::string home = around.Variable("HOME");
  std::string path = around.Variable(variable);
  const bool asked = !path.empty();
  if (!asked) {
    if (home.empty()) return {};
    path = home + "/.aws/" + usual;
  } else if (path.starts_with("~/") && !home.empty()) {
    path.replace(0, 1, home);
  }
  auto file = around.read_file(path);
  if (!file && file.error().code == Code::kNotFound && !asked) return {};
  if (!file) return Fail(std::move(file.error()).In(variable));
  LITHIFY_TRY_ASSIGN(const auto sections, ParseFile(*file, path));
  // "[profile default]" counts, and not "[default]", where a file has both.
  const bool named_default =
      is_config && std::ranges::any_of(sections, [](const ParsedSection& parsed) {
        return parsed.heading.kind == "profile" && parsed.heading.name == "default";
      });
  std::map<std::string, S3Section> here;
  const auto add = [](const S3Section& section, S3Section& to) {
    for (const auto& [key, value] : section.values) to.values.insert_or_assign(key, value);
  };
  for (const auto& [heading, section] : sections) {
    const bool bare = heading.kind.empty();
    if (is_config
            ? heading.kind == "profile" || (bare && heading.name == "default" && !named_default)
            : bare) {
      add(section, here[heading.name]);
    } else if (is_config && heading.kind == "sso-session") {
      add(section, sso_sessions_[heading.name]);
    } else if (is_config && heading.kind == "services") {
      add(section, services_[heading.name]);
    }
  }
  for (const auto& [name, section] : here) Merge(section, profiles_[name]);
  return {};
}

Result<S3Profiles> S3Profiles::Read(const S3Surroundings& around) {
  S3Profiles profiles;
  for (const char* variable : {"AWS_PROFILE", "AWS_DEFAULT_PROFILE"}) {
    if (profiles.chosen_.empty()) profiles.chosen_ = around.Variable(variable);
  }
  profiles.asked_ = !profiles.chosen_.empty();
  if (!profiles.asked_) profiles.chosen_ = "default";
  LITHIFY_TRY(profiles.ReadFile(around, "AWS_CONFIG_FILE", "config", true));
  LITHIFY_TRY(profiles.ReadFile(around, "AWS_SHARED_CREDENTIALS_FILE", "credentials", false));
  return profiles;
}

const S3Section* S3Profiles::Find(const std::string& profile) const {
  return Found(profiles_, profile);
}

const S3Section* S3Profiles::FindSsoSession(const std::string& name) const {
  return Found(sso_sessions_, name);
}

std::string S3Profiles::Value(const std::string& key) const {
  const S3Section* section = Find(chosen_);
  return section == nullptr ? std::string() : section->Value(key);
}

std::string S3Profiles::Endpoint(const S3Surroundings& around, std::string_view service) const {
  std::string ignored = around.Variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
  if (ignored.empty()) ignored = Value("ignore_configured_endpoint_urls");
  if (IsTrue(ignored)) return {};
  std::string variable = "AWS_ENDPOINT_URL_" + std::string(service);
  std::ranges::transform(variable, variable.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  for (const std::string& name : {variable, std::string("AWS_ENDPOINT_URL")}) {
    if (std::string url = around.Variable(name); !url.empty()) return url;
  }
  if (const S3Section* services = Found(services_, Value("services"))) {
    std::string url = services->Value(std::string(service) + ".endpoint_url");
    if (!url.empty()) return url;
  }
  return Value("endpoint_url");
}

}  // namespace lithify::storage
