// TLS is always verified: a certificate made here, trusted only where its file is named.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include "net/http.h"

namespace lithify::net {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A socket that listens on loopback, on a free port that is put into `port`.
int ListenOnLoopback(int& port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  bind(listener, reinterpret_cast<sockaddr*>(&address), size);
  listen(listener, 8);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  port = ntohs(address.sin_port);
  return listener;
}

// Answers every request with "hello", over TLS, with a self-signed certificate for `host`.
class TlsServer {
 public:
  explicit TlsServer(const std::string& host) {
    std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to a client that has hung up.
    key_ = EVP_EC_gen("P-256");
    certificate_ = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(certificate_), 1);
    X509_set_version(certificate_, X509_VERSION_3);
    X509_gmtime_adj(X509_getm_notBefore(certificate_), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate_), 3600);
    X509_set_pubkey(certificate_, key_);
    X509_NAME* name = X509_get_subject_name(certificate_);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
    X509_set_issuer_name(certificate_, name);
    X509_EXTENSION* names =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, host.c_str());
    X509_add_ext(certificate_, names, -1);
    X509_EXTENSION_free(names);
    X509_sign(certificate_, key_, EVP_sha256());

    context_ = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate(context_, certificate_);
    SSL_CTX_use_PrivateKey(context_, key_);
    listener_ = ListenOnLoopback(port_);
    thread_ = std::thread([this] { Run(); });
  }
  ~TlsServer() {
    stop_ = true;
    thread_.join();
    close(listener_);
    SSL_CTX_free(context_);
    X509_free(certificate_);
    EVP_PKEY_free(key_);
  }

  std::string Url(const std::string& host) const {
    return "https://" + host + ":" + std::to_string(port_) + "/";
  }
  int port() const { return port_; }
  int requests() const { return requests_; }
  std::string WriteCertificate() const {
    const std::string path =
        (std::filesystem::temp_directory_path() /
         ("lithify-ca-" + std::to_string(getpid()) + "-" + std::to_string(port_) + ".pem"))
            .string();
    std::FILE* file = std::fopen(path.c_str(), "wb");
    PEM_write_X509(file, certificate_);
    std::fclose(file);
    return path;
  }

 private:
  void Run() {
    while (!stop_) {
      pollfd waiting{listener_, POLLIN, 0};
      if (poll(&waiting, 1, 20) <= 0) continue;
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      SSL* tls = SSL_new(context_);
      SSL_set_fd(tls, fd);
      char request[4096];
      if (SSL_accept(tls) == 1 && SSL_read(tls, request, sizeof(request)) > 0) {
        ++requests_;
        const std::string answer =
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
        SSL_write(tls, answer.data(), static_cast<int>(answer.size()));
        SSL_shutdown(tls);
      }
      SSL_free(tls);
      close(fd);
    }
  }

  EVP_PKEY* key_ = nullptr;
  X509* certificate_ = nullptr;
  SSL_CTX* context_ = nullptr;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<int> requests_{0};
  std::thread thread_;
};

// Hands bytes on between one client and whomever it asks for (CONNECT), once.
class TunnelProxy {
 public:
  // Everybody is sent to this port of this machine.
  explicit TunnelProxy(int port) : target_(port) {
    listener_ = ListenOnLoopback(port_);
    thread_ = std::thread([this] { Run(); });
  }
  ~TunnelProxy() {
    stop_ = true;
    thread_.join();
    close(listener_);
  }
  std::string Url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::string asked() const { return asked_; }

 private:
  bool Await(pollfd* waiting, nfds_t count) {
    while (!stop_) {
      if (poll(waiting, count, 20) > 0) return true;
    }
    return false;
  }
  // False at an end.
  static bool Pass(int from, int to) {
    char bytes[16 * 1024];
    const ssize_t got = recv(from, bytes, sizeof(bytes), 0);
    return got > 0 && send(to, bytes, static_cast<size_t>(got), MSG_NOSIGNAL) == got;
  }
  void Run() {
    pollfd waiting[2] = {{listener_, POLLIN, 0}, {}};
    if (!Await(waiting, 1)) return;
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    char request[4096];
    const ssize_t got = recv(client, request, sizeof(request), 0);
    const std::string text(request, static_cast<size_t>(std::max<ssize_t>(got, 0)));
    asked_ = text.substr(0, text.find("\r\n"));
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = Loopback(target_);
    if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      const std::string answer = "HTTP/1.1 200 Connection established\r\n\r\n";
      send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
      bool more = true;
      while (more) {
        waiting[0] = {client, POLLIN, 0};
        waiting[1] = {server, POLLIN, 0};
        if (!Await(waiting, 2)) break;
        if (waiting[0].revents != 0) more = Pass(client, server);
        if (more && waiting[1].revents != 0) more = Pass(server, client);
      }
    }
    close(server);
    close(client);
  }

  const int target_;
  int listener_ = -1;
  int port_ = 0;
  std::string asked_;  // Read after the exchange.
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

Result<HttpResponse> Get(const std::string& url, const std::string& ca_file,
                         const std::string& proxy = "") {
  HttpOptions options;
  options.ca_file = ca_file;
  options.proxy = proxy;
  LITHIFY_TRY_ASSIGN(auto client, OpenHttpClient(options));
  HttpRequest request;
  request.url = url;
  return client->Send(request,
                      HttpLimits(std::chrono::seconds(5), std::chrono::seconds(10), 1 << 20));
}

TEST(Tls, CaFileMakesItTrusted) {
  TlsServer server("IP:127.0.0.1");
  const std::string ca = server.WriteCertificate();
  const auto response = Get(server.Url("127.0.0.1"), ca);
  ASSERT_TRUE(response) << response.error().ToString();
  EXPECT_EQ(response->body, "hello");
  std::filesystem::remove(ca);
}

TEST(Tls, UnknownIssuerIsDeniedBeforeAnythingIsSent) {
  TlsServer server("IP:127.0.0.1");
  const auto response = Get(server.Url("127.0.0.1"), "");
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kDenied) << response.error().ToString();
  EXPECT_EQ(server.requests(), 0);
}

TEST(Tls, OtherHostsCertificateIsDenied) {
  TlsServer server("DNS:catalog.example");
  const std::string ca = server.WriteCertificate();
  const auto response = Get(server.Url("127.0.0.1"), ca);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kDenied) << response.error().ToString();
  EXPECT_EQ(server.requests(), 0);
  std::filesystem::remove(ca);
}

// The host that is meant proves who it is, not the proxy, and the proxy sees nothing of the
// request.
TEST(Tls, ATunnelThroughAProxyIsVerifiedEndToEnd) {
  TlsServer server("DNS:bucket.example");
  const std::string ca = server.WriteCertificate();
  {
    TunnelProxy proxy(server.port());
    const auto response = Get("https://bucket.example/key", ca, proxy.Url());
    ASSERT_TRUE(response) << response.error().ToString();
    EXPECT_EQ(response->body, "hello");
    EXPECT_EQ(proxy.asked(), "CONNECT bucket.example:443 HTTP/1.1");
  }
  TunnelProxy proxy(server.port());
  const auto response = Get("https://another.example/key", ca, proxy.Url());
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kDenied) << response.error().ToString();
  EXPECT_EQ(server.requests(), 1);
  std::filesystem::remove(ca);
}

TEST(Tls, CaFileOfGarbageIsInvalid) {
  TlsServer server("IP:127.0.0.1");
  const std::string path =
      (std::filesystem::temp_directory_path() / ("lithify-bad-ca-" + std::to_string(getpid())))
          .string();
  std::FILE* file = std::fopen(path.c_str(), "wb");
  std::fputs("no certificate", file);
  std::fclose(file);
  const auto response = Get(server.Url("127.0.0.1"), path);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kInvalid) << response.error().ToString();
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace lithify::net
