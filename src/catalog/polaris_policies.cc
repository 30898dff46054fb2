#include "catalog/polaris_policies.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace lithify::catalog {
namespace {

using Json = nlohmann::json;

constexpr const char* kType = "system.data-compaction";
constexpr std::string_view kVersion = "2025-02-03";
constexpr size_t kNameBytesMax = 256;  // Of what a message repeats.
constexpr size_t kPoliciesMax = 1000;

std::unexpected<Error> Broken(const std::string& what) {
  return Fail(Code::kCorrupt, "the answer is no list of applicable policies: " + what);
}

std::string Shown(std::string text) {
  if (text.size() > kNameBytesMax) text = text.substr(0, kNameBytesMax) + "…";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

// Parses without throwing; discarded if it is no JSON.
Json Parsed(std::string_view text) { return Json::parse(text, nullptr, false); }

class ContentReader {
 public:
  explicit ContentReader(AppliedPolicy& out) : out_(out), policy_(*out.policy) {}

  // The content is a JSON object, written as a string (so Polaris sends it).
  void Read(const Json& written) {
    const Json content =
        written.is_string() ? Parsed(written.get_ref<const std::string&>()) : written;
    if (!content.is_object()) return Off("its content is no JSON object");
    const auto enable = content.find("enable");
    if (enable == content.end() || !enable->is_boolean()) {
      return Off("\"enable\" is neither true nor false");
    }
    policy_.enable = enable->get<bool>();
    for (const auto& [key, value] : content.items()) ReadMember(key, value);
  }

 private:
  void ReadMember(const std::string& key, const Json& value) {
    if (key == "enable") return;
    if (key == "version") {
      if (!value.is_string() || value.get_ref<const std::string&>() != kVersion) {
        Warn("its version is not \"" + std::string(kVersion) +
             "\"; what this version of lithify knows of it holds");
      }
    } else if (key == "target_file_size_bytes") {
      if (value.is_number()) {
        policy_.target_file_size_bytes = value.get<double>();
      } else {
        Warn("target_file_size_bytes is no number and does not hold");
      }
    } else if (key == "config") {
      ReadConfig(value);
    }
    // Others are a later schema's.
  }

  void ReadConfig(const Json& config) {
    if (config.is_null()) return;
    if (!config.is_object()) return Warn("config is no object and does not hold");
    for (const auto& [key, value] : config.items()) {
      if (value.is_structured()) {
        Warn("config." + Shown(key) + " is no plain value and does not hold");
      } else if (!value.is_null()) {
        policy_.config[key] = value.is_string() ? value.get<std::string>() : value.dump();
      }
    }
  }

  void Off(const std::string& why) {
    policy_.enable = false;
    Warn(why + "; until it can be read, tables that it applies to are left alone");
  }
  void Warn(const std::string& what) {
    out_.warnings.push_back("policy " + Shown(policy_.name) + ": " + what);
  }

  AppliedPolicy& out_;
  CompactionPolicy& policy_;
};

}  // namespace

Result<PolicyPage> ParseApplicablePolicies(std::string_view body) {
  const Json answer = Parsed(body);
  if (!answer.is_object()) return Broken("it is no JSON object");
  PolicyPage page;
  if (const auto token = answer.find("next-page-token");
      token != answer.end() && !token->is_null()) {
    if (!token->is_string()) return Broken("next-page-token is no string");
    page.next_token = token->get<std::string>();
  }
  const auto list = answer.find("applicable-policies");
  if (list == answer.end() || !list->is_array()) return Broken("applicable-policies is no list");
  for (const Json& one : *list) {
    if (!one.is_object()) return Broken("a policy is no object");
    const auto text = [&one](const char* key) -> const std::string* {
      const auto at = one.find(key);
      if (at == one.end() || !at->is_string()) return nullptr;
      return &at->get_ref<const std::string&>();
    };
    const std::string* type = text("policy-type");
    const std::string* name = text("name");
    if (type == nullptr || name == nullptr) return Broken("a policy has no policy-type or no name");
    if (*type != kType) continue;
    AppliedPolicy applied;
    CompactionPolicy& policy = applied.policy.emplace();
    policy.name = *name;
    const auto inherited = one.find("inherited");
    if (inherited == one.end() || !inherited->is_boolean()) {
      return Broken("a policy does not say whether it is inherited");
    }
    policy.inherited = inherited->get<bool>();
    const auto content = one.find("content");
    ContentReader(applied).Read(content == one.end() ? Json() : *content);
    page.policies.push_back(std::move(applied));
  }
  return page;
}

AppliedPolicy ChoosePolicy(std::vector<AppliedPolicy> found) {
  std::erase_if(found, [](const AppliedPolicy& one) { return !one.policy; });
  if (found.empty()) return {};
  const bool own =
      std::ranges::any_of(found, [](const AppliedPolicy& one) { return !one.policy->inherited; });
  if (own) std::erase_if(found, [](const AppliedPolicy& one) { return one.policy->inherited; });
  auto chosen =
      std::ranges::find_if(found, [](const AppliedPolicy& one) { return !one.policy->enable; });
  if (chosen == found.end()) chosen = found.begin();
  AppliedPolicy out = std::move(*chosen);
  if (found.size() > 1) {
    out.warnings.push_back("policy " + Shown(out.policy->name) + ": " +
                           std::to_string(found.size()) + " policies of " + kType +
                           " apply on the same level; this one holds");
  }
  return out;
}

Result<AppliedPolicy> GetCompactionPolicy(RestCatalog& catalog, const TableIdent& ident) {
  LITHIFY_TRY_ASSIGN(std::string name_space, catalog.JoinNamespace(ident.namespace_parts));
  std::vector<AppliedPolicy> found;
  const auto take = [&found](const std::string& body) -> Result<std::string> {
    LITHIFY_TRY_ASSIGN(PolicyPage page, ParseApplicablePolicies(body));
    std::ranges::move(page.policies, std::back_inserter(found));
    if (found.size() > kPoliciesMax) {
      return Fail(Code::kLimit, "more than " + std::to_string(kPoliciesMax) + " policies apply");
    }
    return std::move(page.next_token);
  };
  const RestCatalog::Query query = {
      {"namespace", std::move(name_space)}, {"target-name", ident.name}, {"policyType", kType}};
  if (Status got = catalog.GetPages("polaris", "applicable-policies", query, take); !got) {
    return Fail(std::move(got.error()).In(ident.ToString()));
  }
  return ChoosePolicy(std::move(found));
}

}  // namespace lithify::catalog
