#include "http/listener.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <thread>

#include "net/address.h"
#include "net/http.h"

namespace lithify::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// One connection of a client that may do as it likes.
class Client {
 public:
  explicit Client(const Listener& listener, const char* from = "127.0.0.1")
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in own = Address(from, 0);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&own), sizeof(own)), 0);
    sockaddr_in server = Address("127.0.0.1", net::ParseAddress(listener.address())->port);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&server), sizeof(server)), 0);
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool Send(std::string_view bytes) const {
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // What came, until `enough` of it is there, the server closes or ten seconds are over.
  std::string Receive(const std::function<bool(const std::string&)>& enough) {
    std::string got;
    const auto end = std::chrono::steady_clock::now() + seconds(10);
    while (!enough(got) && std::chrono::steady_clock::now() < end) {
      pollfd waiting{fd_, POLLIN, 0};
      if (poll(&waiting, 1, 50) <= 0) continue;
      char bytes[4096];
      const ssize_t count = recv(fd_, bytes, sizeof(bytes), 0);
      closed_ = count <= 0;
      if (closed_) break;
      got.append(bytes, static_cast<size_t>(count));
    }
    return got;
  }
  std::string ReceiveAll() {
    return Receive([](const std::string&) { return false; });
  }
  bool closed() const { return closed_; }

 private:
  static sockaddr_in Address(const char* host, int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, host, &address.sin_addr);
    return address;
  }
  const int fd_;
  bool closed_ = false;
};

std::unique_ptr<Listener> Start(ListenerOptions options = {}) {
  if (options.listen.empty()) options.listen = "127.0.0.1:0";
  auto listener = Listener::Start(
      options, {{"/hello", [](const Request&) { return Response{.body = "hello\n"}; }},
                {"/who",
                 [](const Request& request) {
                   return Response{.status = 401,
                                   .body = std::string(request.Header("AUTHORIZATION")),
                                   .headers = {{"WWW-Authenticate", "Bearer"}}};
                 }},
                {"/broken", [](const Request&) -> Response { throw std::runtime_error("x"); }}});
  EXPECT_TRUE(listener) << listener.error().ToString();
  return std::move(*listener);
}

// The whole answer to what is sent on a connection of its own.
std::string Ask(const Listener& listener, std::string_view request) {
  Client client(listener);
  client.Send(request);
  return client.ReceiveAll();
}

std::string Get(const std::string& path, const std::string& more = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + more + "\r\n";
}

TEST(Listener, AnswersItsPathsAndNoOthers) {
  const auto listener = Start();
  EXPECT_THAT(Ask(*listener, Get("/hello")),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("\r\nContent-Length: 6\r\n"),
                    HasSubstr("\r\nContent-Type: text/plain; charset=utf-8\r\n"),
                    HasSubstr("\r\nCache-Control: no-store\r\n"),
                    HasSubstr("\r\nX-Content-Type-Options: nosniff\r\n"),
                    testing::EndsWith("\r\n\r\nhello\n")));
  EXPECT_THAT(Ask(*listener, Get("/hello?a=b")), testing::EndsWith("\r\n\r\nhello\n"));
  EXPECT_THAT(Ask(*listener, Get("/hell%6f")), testing::EndsWith("\r\n\r\nhello\n"));
  EXPECT_THAT(Ask(*listener, "HEAD" + Get("/hello").substr(3)),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("\r\nContent-Length: 6\r\n"),
                    testing::EndsWith("\r\n\r\n")));
  for (const char* path : {"/", "/hello/", "/hello/../hello", "//hello", "/HELLO"}) {
    EXPECT_THAT(Ask(*listener, Get(path)), StartsWith("HTTP/1.1 404 ")) << path;
  }
  EXPECT_THAT(Ask(*listener, Get("/who", "authorization: Bearer abc\r\n")),
              AllOf(StartsWith("HTTP/1.1 401 "), HasSubstr("\r\nWWW-Authenticate: Bearer\r\n"),
                    testing::EndsWith("\r\n\r\nBearer abc")));
  EXPECT_THAT(Ask(*listener, Get("/broken")), StartsWith("HTTP/1.1 500 "));
}

TEST(Listener, ParametersAndWhoAsks) {
  Request seen;
  const auto listener =
      Listener::Start({.listen = "127.0.0.1:0"}, {{"/", [&](const Request& asked) {
                                                     seen = asked;
                                                     return Response{};
                                                   }}});
  ASSERT_TRUE(listener) << listener.error().ToString();
  Ask(**listener, Get("/?n=a%2Eb%26&n=&m&n=%F0%9F%98%80+x"));
  EXPECT_THAT(seen.Values("n"), testing::ElementsAre("a.b&", "", "\xF0\x9F\x98\x80 x"));
  EXPECT_THAT(seen.Values("m"), testing::ElementsAre(""));
  EXPECT_THAT(seen.Values("o"), testing::IsEmpty());
  EXPECT_THAT(seen.client, StartsWith("127.0.0.1:"));
}

TEST(Listener, NamesOfOthersLeadNowhere) {
  const auto listener = Start({.known_hosts_only = true, .hosts = {"status.example"}});
  const auto ask = [&](const std::string& host) {
    return Ask(*listener, "GET /hello HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n");
  };
  for (const char* host : {"127.0.0.1", "127.0.0.1:8080", "[::1]:8080", "localhost", "LOCALHOST:1",
                           "status.example:443", "Status.Example"}) {
    EXPECT_THAT(ask(host), StartsWith("HTTP/1.1 200 ")) << host;
  }
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8080",
                           "status.example.evil", "[::1", "", "1.2.3"}) {
    EXPECT_THAT(ask(host), Not(StartsWith("HTTP/1.1 200 "))) << host;
  }
  EXPECT_THAT(ask("evil.example"), StartsWith("HTTP/1.1 421 "));
}

TEST(Listener, HandlersThatWaitHoldUpNobodyAndSeeThatTheClientHasLeft) {
  std::atomic<bool> left = false;
  const auto listener =
      Listener::Start({.listen = "127.0.0.1:0", .waits = true},
                      {{"/slow",
                        [&](const Request& request) {
                          for (int i = 0; i < 2000 && !request.gone(); ++i) {
                            std::this_thread::sleep_for(milliseconds(5));
                          }
                          left = request.gone();
                          return Response{};
                        }},
                       {"/quick", [](const Request& request) {
                          return Response{.body = request.gone() ? "gone" : "here"};
                        }}});
  ASSERT_TRUE(listener) << listener.error().ToString();
  {
    Client slow(**listener);
    slow.Send(Get("/slow"));
    EXPECT_THAT(Ask(**listener, Get("/quick")), testing::EndsWith("\r\n\r\nhere"));
    EXPECT_FALSE(left);
  }
  for (int i = 0; i < 2000 && !left; ++i) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_TRUE(left);
}

TEST(Listener, TakesNoOtherMethodsAndNoBodies) {
  const auto listener = Start();
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE"}) {
    EXPECT_THAT(Ask(*listener, method + Get("/hello").substr(3)),
                AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("\r\nAllow: GET, HEAD\r\n")))
        << method;
  }
  for (const char* body : {"Content-Length: 5\r\n", "Content-Length: 999999999999\r\n",
                           "Transfer-Encoding: chunked\r\n"}) {
    EXPECT_THAT(Ask(*listener, Get("/hello", body) + "5\r\nhello\r\n0\r\n\r\n"),
                StartsWith("HTTP/1.1 413 "))
        << body;
  }
  // Nothing of a body is taken for a request.
  EXPECT_THAT(Ask(*listener,
                  "POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 40\r\n\r\n" + Get("/hello")),
              Not(HasSubstr("200 OK")));
}

TEST(Listener, WhatIsNoHttpIsRefused) {
  const auto listener = Start({.connection_life = seconds(1)});
  for (const std::string& bytes :
       {std::string("garbage\r\n\r\n"), std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n"),
        std::string("GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n"),  // No host.
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")}) {
    EXPECT_THAT(Ask(*listener, bytes), Not(HasSubstr("200 OK"))) << bytes;
  }
  EXPECT_THAT(Ask(*listener, Get("/hello")), HasSubstr("200 OK"));
}

TEST(Listener, SeveralRequestsOnOneConnection) {
  const auto listener = Start();
  const std::string kept = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
  Client client(*listener);
  client.Send(kept + "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n" + Get("/who"));
  const std::string answers = client.ReceiveAll();  // In the order of the requests.
  const size_t hello = answers.find("200 OK");
  const size_t nothing = answers.find("404 Not Found");
  const size_t who = answers.find("401 Unauthorized");
  EXPECT_LT(hello, nothing) << answers;
  EXPECT_LT(nothing, who) << answers;
  EXPECT_NE(who, std::string::npos) << answers;
}

TEST(Listener, HeadsHaveABound) {
  const auto listener = Start({.connection_bytes = 4096});
  const std::string name = "X-Long: ";
  EXPECT_THAT(Ask(*listener, Get("/hello", name + std::string(1000, 'x') + "\r\n")),
              HasSubstr("200 OK"));
  EXPECT_THAT(Ask(*listener, Get("/hello", name + std::string(8000, 'x') + "\r\n")),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(Ask(*listener, Get("/" + std::string(8000, 'x'))), StartsWith("HTTP/1.1 414 "));
  std::string many;
  for (int i = 0; i < 5000; ++i) many += "A: b\r\n";
  EXPECT_THAT(Ask(*listener, Get("/hello", many)), Not(HasSubstr("200 OK")));
  // A line that never ends, and never gets a line's end, either.
  Client client(*listener);
  client.Send("GET /" + std::string(100'000, 'x'));
  EXPECT_THAT(client.ReceiveAll(), Not(HasSubstr("200 OK")));
  EXPECT_TRUE(client.closed());
}

// Whoever sends a byte now and then is not silent, and does not last all the same.
TEST(Listener, SlowClientsEndAndKeepNobodyOut) {
  const auto listener = Start(
      {.connections_max = 8, .connections_per_address_max = 4, .connection_life = seconds(2)});
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 4; ++i) slow.push_back(std::make_unique<Client>(*listener));
  for (const auto& client : slow) EXPECT_TRUE(client->Send("GET /hello HTTP/1.1\r\nHost: x\r\nA"));
  const auto begin = std::chrono::steady_clock::now();
  // One more of this address is closed; another address is served as ever.
  Client more(*listener);
  more.Send(Get("/hello"));
  EXPECT_EQ(more.ReceiveAll(), "");
  EXPECT_TRUE(more.closed());
  Client other(*listener, "127.0.0.2");
  other.Send(Get("/hello"));
  EXPECT_THAT(other.ReceiveAll(), HasSubstr("200 OK"));
  while (std::chrono::steady_clock::now() < begin + seconds(8)) {
    bool any = false;
    for (const auto& client : slow) any = client->Send("a") || any;
    if (!any) break;
    std::this_thread::sleep_for(milliseconds(100));
  }
  EXPECT_LT(std::chrono::steady_clock::now(), begin + seconds(8));
  for (const auto& client : slow) {
    EXPECT_THAT(client->ReceiveAll(), Not(HasSubstr("200 OK")));
    EXPECT_TRUE(client->closed());
  }
  // Their places are free again.
  EXPECT_THAT(Ask(*listener, Get("/hello")), HasSubstr("200 OK"));
}

// Requests do not make a connection live longer, either.
TEST(Listener, BusyConnectionsEndToo) {
  const auto listener = Start({.connection_life = milliseconds(700)});
  Client client(*listener);
  int answered = 0;
  while (answered < 1'000'000 && client.Send("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")) {
    client.Receive([](const std::string& got) { return got.find("hello\n") != std::string::npos; });
    if (client.closed()) break;
    ++answered;
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_GT(answered, 0);
  EXPECT_LT(answered, 1'000);
}

TEST(Listener, ManyClientsAtOnceAndItsEndAmongThem) {
  auto listener = Start({.connections_max = 32, .connections_per_address_max = 32});
  std::atomic<int> answered = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 50; ++n) {
        if (Ask(*listener, Get("/hello")).ends_with("hello\n")) ++answered;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, 400);
  Client open(*listener);
  open.Send("GET /hello");
  listener.reset();
  open.ReceiveAll();
  EXPECT_TRUE(open.closed());
}

TEST(Listener, AddressesThatWillNotDo) {
  const auto listener = Start();
  const auto refused = [](const std::string& listen) {
    const auto started = Listener::Start({.listen = listen}, {});
    return started ? std::string("started") : started.error().ToString();
  };
  EXPECT_THAT(refused(listener->address()), HasSubstr("Address already in use"));
  EXPECT_THAT(refused("8081"), HasSubstr("must be host:port"));
  EXPECT_THAT(refused("192.0.2.1:0"), HasSubstr("cannot listen"));
  EXPECT_THAT(refused("no-such-host.invalid:0"), HasSubstr("no such host"));
}

// PEM of a certificate of its own for 127.0.0.1, and of its key.
std::pair<std::string, std::string> MakePair() {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_EXTENSION* names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
  X509_add_ext(certificate, names, -1);
  X509_EXTENSION_free(names);
  X509_sign(certificate, key, EVP_sha256());
  const auto text = [](const std::function<void(BIO*)>& write) {
    BIO* memory = BIO_new(BIO_s_mem());
    write(memory);
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(memory, &bytes);
    std::string pem(bytes, static_cast<size_t>(size));
    BIO_free(memory);
    return pem;
  };
  std::pair<std::string, std::string> pair = {
      text([&](BIO* to) { PEM_write_bio_X509(to, certificate); }), text([&](BIO* to) {
        PEM_write_bio_PrivateKey(to, key, nullptr, nullptr, 0, nullptr, nullptr);
      })};
  X509_free(certificate);
  EVP_PKEY_free(key);
  return pair;
}

TEST(Listener, SpeaksTls) {
  const auto [certificate, key] = MakePair();
  const auto listener = Start({.tls_cert = certificate, .tls_key = Secret(key)});
  const std::string ca_file = (std::filesystem::temp_directory_path() /
                               ("lithify-http-" + std::to_string(getpid()) + ".pem"))
                                  .string();
  std::ofstream(ca_file) << certificate;
  const auto client = net::OpenHttpClient({.ca_file = ca_file, .proxy = "", .stop = {}});
  ASSERT_TRUE(client);
  const net::HttpLimits limits(seconds(10), seconds(10), 4096);
  net::HttpRequest request;
  request.url = "https://" + listener->address() + "/hello";
  const auto answer = (*client)->Send(request, limits);
  std::filesystem::remove(ca_file);
  ASSERT_TRUE(answer) << answer.error().ToString();
  EXPECT_EQ(answer->body, "hello\n");
  EXPECT_THAT(Ask(*listener, Get("/hello")), Not(HasSubstr("200 OK")));  // Not in plaintext.
  const auto refused = Listener::Start(
      {.listen = "127.0.0.1:0", .tls_cert = certificate, .tls_key = Secret(MakePair().second)}, {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().ToString(), HasSubstr("are certificate and key a pair"));
}

}  // namespace
}  // namespace lithify::http
