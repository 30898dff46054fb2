// A real S3 server for the tests of one binary, started and stopped by its script, and a store on
// it.
#ifndef LITHIFY_TESTS_SERVICES_S3_SERVICE_H_
#define LITHIFY_TESTS_SERVICES_S3_SERVICE_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/random.h"
#include "net/http.h"
#include "storage/s3_client.h"
#include "storage/s3_store.h"

namespace lithify::storage {

// Which server: LITHIFY_S3_SERVER, the name of a script beside this file.
inline std::string S3ServerName() {
  const char* name = std::getenv("LITHIFY_S3_SERVER");
  return name == nullptr ? "seaweedfs" : name;
}

// The server, for all tests of the binary.
class S3Server final : public testing::Environment {
 public:
  static inline std::string endpoint;

  // What a script beside this file prints, without the line's end.
  static std::string Script(const std::string& name, const std::string& arguments) {
    const std::string command = "bash '" LITHIFY_SERVICES "/" + name + "' " + arguments;
    std::FILE* pipe = popen(command.c_str(), "r");
    std::string out;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
    pclose(pipe);
    while (out.ends_with('\n')) out.pop_back();
    return out;
  }

  void SetUp() override {
    directory_ =
        std::filesystem::temp_directory_path() / ("lithify-s3-" + std::to_string(getpid()));
    endpoint = Run("start");
    ASSERT_TRUE(endpoint.starts_with("http://127.0.0.1:"))
        << "the service did not start: " << endpoint;
  }
  void TearDown() override {
    (void)Run("stop");
    std::filesystem::remove_all(directory_);
  }

 private:
  std::string Run(const std::string& verb) const {
    return Script(S3ServerName() + ".sh", verb + " '" + directory_.string() + "'");
  }

  std::filesystem::path directory_;
};

class FixedCredentials final : public S3Credentials {
 public:
  explicit FixedCredentials(std::string_view secret) : secret_(secret) {}
  Result<net::AwsCredentials> Get() override {
    return net::AwsCredentials{"lithify", secret_, Secret()};
  }
  Status Invalidate(const net::AwsCredentials&) override { return Fail(Code::kDenied, "fixed"); }

 private:
  const Secret secret_;
};

// A store of its own, below a prefix that nobody else has.
struct S3World {
  explicit S3World(const std::string& endpoint, std::string_view secret = "not a secret")
      : credentials(secret) {
    http = net::OpenHttpClient({.ca_file = {}, .proxy = ""}).value();
    S3Options options;
    options.bucket = "lake";
    options.endpoint = endpoint;
    options.path_style = true;
    client = std::make_unique<S3Client>(
        options, *http, credentials, clock, [this](Duration d) { clock.Sleep(d); }, random);
    prefix = MakeUuidV7(clock, random) + "/";
    s3 = std::make_unique<S3Store>(*client, prefix);
  }

  SystemClock clock;
  SystemRandom random;
  FixedCredentials credentials;
  std::unique_ptr<net::HttpClient> http;
  std::unique_ptr<S3Client> client;
  std::string prefix;
  std::unique_ptr<S3Store> s3;
};

}  // namespace lithify::storage

#endif  // LITHIFY_TESTS_SERVICES_S3_SERVICE_H_
