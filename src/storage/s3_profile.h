// The files that Amazon's own tools keep settings and credentials in: ~/.aws/config and
// ~/.aws/credentials, or those that AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name.
//
// Profiles are "[default]" and "[profile name]" in the former, "[name]" in the latter; the former
// also has "[sso-session name]" and "[services name]". What both say of a profile counts as the
// latter says it. Lines that are indented deeper than the key before them belong to that key.
#ifndef LITHIFY_STORAGE_S3_PROFILE_H_
#define LITHIFY_STORAGE_S3_PROFILE_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lithify::storage {

// What lies around the program, as functions.
struct S3Surroundings {
  // A variable of the environment; nullopt: unset.
  std::function<std::optional<std::string>(const std::string& name)> environment;
  // A whole file; kNotFound if there is none.
  std::function<Result<std::string>(const std::string& path)> read_file;

  // Empty: unset.
  std::string Variable(const std::string& name) const { return environment(name).value_or(""); }
};

// Settings by lower-case key; "s3.endpoint_url" is the key endpoint_url that belongs to the key s3.
class S3Section {
 public:
  std::string Value(const std::string& key) const;  // Empty: not set.
  std::map<std::string, std::string> values;
};

class S3Profiles {
 public:
  // Files that are not there are empty, but for those that a variable names. kInvalid or kNotFound
  // for these; kInvalid, naming file and line, for a line that is none of such a file.
  static Result<S3Profiles> Read(const S3Surroundings& around);

  // AWS_PROFILE, else AWS_DEFAULT_PROFILE, else "default".
  const std::string& chosen() const { return chosen_; }
  bool is_default() const { return !asked_; }  // No variable names it.
  // Null: there is none of that name.
  const S3Section* Find(const std::string& profile) const;
  const S3Section* FindSsoSession(const std::string& name) const;
  // A setting of the chosen profile.
  std::string Value(const std::string& key) const;

  // What is set as the endpoint of a service ("s3", "sts", "sso"): AWS_ENDPOINT_URL_STS,
  // AWS_ENDPOINT_URL, that of the services that the chosen profile names, the profile's. Empty:
  // nothing, or it is to be ignored (AWS_IGNORE_CONFIGURED_ENDPOINT_URLS).
  std::string Endpoint(const S3Surroundings& around, std::string_view service) const;

 private:
  Status ReadFile(const S3Surroundings& around, const char* variable, const char* usual,
                  bool is_config);

  std::string chosen_;
  bool asked_ = false;
  std::map<std::string, S3Section> profiles_;
  std::map<std::string, S3Section> sso_sessions_;
  std::map<std::string, S3Section> services_;
};

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_S3_PROFILE_H_
