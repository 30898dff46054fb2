#include "net/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "net/scripted_server.h"

namespace lithify::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;
using Then = ScriptedAnswer::Then;

std::unique_ptr<HttpClient> Client() {
  HttpOptions options;
  options.proxy = "";
  return std::move(OpenHttpClient(options).value());
}

HttpLimits Limits(int64_t bytes = 1 << 20) { return HttpLimits(seconds(5), seconds(10), bytes); }
HttpLimits Hasty() { return HttpLimits(milliseconds(200), milliseconds(200), 1 << 20); }

HttpRequest Request(HttpMethod method, std::string url, std::string body = {}) {
  HttpRequest request;
  request.method = method;
  request.url = std::move(url);
  request.body = std::move(body);
  return request;
}

// Code of a Send; kInternal if it succeeded.
Code CodeOf(const Result<HttpResponse>& result) {
  return result ? Code::kInternal : result.error().code;
}

TEST(Secret, PrintsAsStars) {
  std::ostringstream out;
  out << Secret("hunter2");
  EXPECT_EQ(out.str(), "***");
  EXPECT_EQ(Secret("hunter2").HideIn("hunter2 is not hunter22"), "*** is not ***2");
  EXPECT_EQ(Secret().HideIn("x"), "x");
}

TEST(Secret, MovesLeaveNothing) {
  Secret a("short");
  Secret b(std::move(a));
  EXPECT_TRUE(a.empty());  // NOLINT(bugprone-use-after-move): that is the point.
  EXPECT_EQ(b.Reveal(), "short");
  std::string text(100, 'x');
  const char* bytes = text.data();
  Wipe(text);
  EXPECT_EQ(bytes[0], 0);
  EXPECT_EQ(bytes[99], 0);
  EXPECT_TRUE(text.empty());
}

TEST(Http, SendsWhatWasAskedAndReadsTheAnswer) {
  ScriptedServer server([](const ScriptedRequest&) {
    return Answer(201, "made", {{"ETag", "\"v1\""}, {"X-Empty", ""}});
  });
  auto client = Client();
  HttpRequest request = Request(HttpMethod::kPost, server.Url("/a%1Fb?c=d"), "{\"x\":1}");
  request.headers = {{"Content-Type", "application/json"}, {"X-One", "1"}, {"X-None", ""}};
  request.authorization = Secret("Bearer abc");
  const auto response = client->Send(request, Limits());
  ASSERT_TRUE(response) << response.error().ToString();
  EXPECT_EQ(response->status, 201);
  EXPECT_EQ(response->body, "made");
  EXPECT_EQ(response->Header("etag"), "\"v1\"");
  EXPECT_EQ(response->Header("ETAG"), "\"v1\"");
  EXPECT_EQ(response->Header("X-Empty"), "");
  EXPECT_EQ(response->Header("absent"), std::nullopt);

  const auto requests = server.Requests();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].method, "POST");
  EXPECT_EQ(requests[0].target, "/a%1Fb?c=d");
  EXPECT_EQ(requests[0].body, "{\"x\":1}");
  EXPECT_EQ(requests[0].headers.at("content-type"), "application/json");
  EXPECT_EQ(requests[0].headers.at("x-one"), "1");
  EXPECT_EQ(requests[0].headers.at("x-none"), "");
  EXPECT_EQ(requests[0].headers.at("authorization"), "Bearer abc");
  EXPECT_EQ(requests[0].headers.at("user-agent"), "lithify/" LITHIFY_VERSION);
  EXPECT_EQ(requests[0].headers.count("expect"), 0u);
}

TEST(Http, AllMethods) {
  ScriptedServer server([](const ScriptedRequest& r) {
    return r.method == "HEAD" ? ScriptedAnswer{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"}
                              : Answer(200, r.method + r.body);
  });
  auto client = Client();
  const auto send = [&](HttpMethod m, std::string body) {
    return client->Send(Request(m, server.Url("/"), std::move(body)), Limits()).value().body;
  };
  EXPECT_EQ(send(HttpMethod::kGet, ""), "GET");
  EXPECT_EQ(send(HttpMethod::kHead, ""), "");
  EXPECT_EQ(send(HttpMethod::kPost, "b"), "POSTb");
  EXPECT_EQ(send(HttpMethod::kPost, ""), "POST");
  EXPECT_EQ(send(HttpMethod::kPut, "b"), "PUTb");
  EXPECT_EQ(send(HttpMethod::kDelete, ""), "DELETE");
  EXPECT_EQ(server.Requests()[3].headers.count("content-type"), 0u);
}

// --- never sent: kTransient, kDenied, kInvalid ---------------------------------------------------

TEST(Http, NothingListensIsNotSent) {
  int port = 0;
  {
    port = ScriptedServer([](const ScriptedRequest&) { return Answer(200, ""); }).port();
  }
  const auto result = Client()->Send(
      Request(HttpMethod::kPost, "http://127.0.0.1:" + std::to_string(port) + "/p?secret=1", "b"),
      Limits());
  ASSERT_EQ(CodeOf(result), Code::kTransient);
  EXPECT_THAT(result.error().message, HasSubstr("not sent"));
  EXPECT_EQ(result.error().context, "POST http://127.0.0.1:" + std::to_string(port) + "/p");
}

TEST(Http, UnknownHostIsNotSent) {
  const auto result =
      Client()->Send(Request(HttpMethod::kPost, "http://no-such-host.invalid/", "b"), Limits());
  EXPECT_EQ(CodeOf(result), Code::kTransient);
}

TEST(Http, TlsHandshakeWithSomethingElseIsNotSent) {
  ScriptedServer server([](const ScriptedRequest&) { return Answer(200, ""); });
  server.OnAccept(Then::kClose);
  const auto result = Client()->Send(
      Request(HttpMethod::kPost, "https://127.0.0.1:" + std::to_string(server.port()) + "/", "b"),
      Limits());
  EXPECT_EQ(CodeOf(result), Code::kTransient);
}

TEST(Http, TlsHandshakeThatNeverEndsIsNotSent) {
  ScriptedServer server([](const ScriptedRequest&) { return Answer(200, ""); });
  server.OnAccept(Then::kHang);
  const auto result = Client()->Send(
      Request(HttpMethod::kPost, "https://127.0.0.1:" + std::to_string(server.port()) + "/", "b"),
      Hasty());
  EXPECT_EQ(CodeOf(result), Code::kTransient);
}

TEST(Http, BadRequestsAreNotSent) {
  ScriptedServer server([](const ScriptedRequest&) { return Answer(200, ""); });
  auto client = Client();
  const auto code = [&](const HttpRequest& request) {
    return CodeOf(client->Send(request, Limits()));
  };
  for (const char* url :
       {"", "127.0.0.1/", "file:///etc/passwd", "ftp://127.0.0.1/", "http://", "http:///x",
        "http://:80/", "http://u:p@127.0.0.1/", "http://127.0.0.1/a b", "http://127.0.0.1/\r\nX: y",
        "http://127.0.0.1/#f"}) {
    EXPECT_EQ(code(Request(HttpMethod::kGet, url)), Code::kInvalid) << url;
  }
  HttpRequest request = Request(HttpMethod::kGet, server.Url("/"));
  request.headers = {{"X-A", "b\r\nX-Evil: 1"}};
  EXPECT_EQ(code(request), Code::kInvalid);
  request.headers = {{"X A", "b"}};
  EXPECT_EQ(code(request), Code::kInvalid);
  request.headers = {};
  request.authorization = Secret("Bearer x\nX-Evil: 1");
  EXPECT_EQ(code(request), Code::kInvalid);
  EXPECT_EQ(code(Request(HttpMethod::kGet, server.Url("/"), "body")), Code::kInvalid);
  const HttpRequest good = Request(HttpMethod::kGet, server.Url("/"));
  for (const HttpLimits& limits :
       {HttpLimits(seconds(0), seconds(1), 1), HttpLimits(seconds(1), seconds(0), 1),
        HttpLimits(seconds(1), seconds(-1), 1), HttpLimits(seconds(1), seconds(1), 0)}) {
    EXPECT_EQ(CodeOf(client->Send(good, limits)), Code::kInvalid);
  }
  EXPECT_EQ(server.Requests().size(), 0u);
}

TEST(Http, CaFileMustBeReadable) {
  HttpOptions options;
  options.ca_file = "/no/such/ca.pem";
  const auto client = OpenHttpClient(options);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Code::kInvalid);
  EXPECT_EQ(client.error().context, "/no/such/ca.pem");
}

// --- sent, no whole answer: kUnknownOutcome (R115, I35) ------------------------------------------

TEST(Http, NoWholeAnswerIsAnUnknownOutcome) {
  const std::vector<std::pair<const char*, ScriptedAnswer>> cases{
      {"reset after the request", {"", Then::kReset}},
      {"closed after the request", {"", Then::kClose}},
      {"no answer in time", {"", Then::kHang}},
      {"half a status line", {"HTTP/1.", Then::kClose}},
      {"half a header", {"HTTP/1.1 200 OK\r\nContent-", Then::kReset}},
      {"half a body", {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", Then::kClose}},
      {"half a body, then nothing",
       {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", Then::kHang}},
      {"a chunk that breaks off",
       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nab", Then::kClose}},
      {"a chunk size that is none",
       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", Then::kClose}},
      {"not HTTP at all", {"SSH-2.0-OpenSSH_9.2\r\n", Then::kClose}},
      {"broken gzip",
       {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd",
        Then::kClose}},
      {"a header without end",
       {"HTTP/1.1 200 OK\r\n" +
            [] {
              std::string many;
              for (int i = 0; i < 5000; ++i)
                many += "X-" + std::to_string(i) + ": " + std::string(100, 'x') + "\r\n";
              return many;
            }(),
        Then::kClose}},
  };
  for (const auto& [name, answer] : cases) {
    ScriptedServer server([&](const ScriptedRequest&) { return answer; });
    const bool waits = answer.then == Then::kHang;
    HttpRequest request = Request(HttpMethod::kPost, server.Url("/commit?token=tttt"), "bodybody");
    request.authorization = Secret("Bearer hush");
    request.headers = {{"X-Key", "kkkk"}};
    const auto result = Client()->Send(request, waits ? Hasty() : Limits());
    ASSERT_EQ(CodeOf(result), Code::kUnknownOutcome) << name;
    const std::string text = result.error().ToString();
    EXPECT_THAT(text, HasSubstr("POST " + server.Url("/commit"))) << name;
    for (const char* secret : {"hush", "kkkk", "tttt", "bodybody"}) {
      EXPECT_THAT(text, Not(HasSubstr(secret))) << name;
    }
    EXPECT_EQ(server.Requests().size(), 1u) << name;
  }
}

// curl repeats a request on a kept connection that died. A commit that was carried out and is sent
// a second time would look like somebody else's change (R302).
TEST(Http, PostIsNeverSentTwice) {
  ScriptedServer server([](const ScriptedRequest& r) {
    return r.method == "GET" ? Answer(200, "ok") : ScriptedAnswer{"", Then::kClose};
  });
  auto client = Client();
  for (const HttpMethod method : {HttpMethod::kPost, HttpMethod::kPut, HttpMethod::kDelete}) {
    ASSERT_TRUE(client->Send(Request(HttpMethod::kGet, server.Url("/")), Limits()));
    const auto result = client->Send(Request(method, server.Url("/"), "b"), Limits());
    EXPECT_EQ(CodeOf(result), Code::kUnknownOutcome);
  }
  int changes = 0;
  for (const auto& request : server.Requests()) changes += request.method != "GET";
  EXPECT_EQ(changes, 3);
}

// What may be repeated goes over kept connections, and its sender gets to know that it was.
TEST(Http, WhatMayBeRepeatedGoesOverKeptConnections) {
  int count = 0;
  ScriptedServer server([&](const ScriptedRequest& r) {
    return ++count == 3 ? ScriptedAnswer{"", Then::kClose} : Answer(200, r.method + r.body);
  });
  auto client = Client();
  const auto send = [&](HttpMethod method, std::string body) {
    HttpRequest request = Request(method, server.Url("/"), std::move(body));
    request.may_repeat = true;
    return client->Send(request, Limits());
  };
  const auto first = send(HttpMethod::kPut, "a");
  const auto second = send(HttpMethod::kPost, "b");
  EXPECT_EQ(server.connections(), 1);
  const auto third = send(HttpMethod::kPut, "c");
  const auto fourth = send(HttpMethod::kDelete, "");
  ASSERT_TRUE(first && second && third && fourth);
  EXPECT_EQ(first->body + second->body + third->body + fourth->body, "PUTaPOSTbPUTcDELETE");
  EXPECT_FALSE(first->repeated);
  EXPECT_FALSE(second->repeated);
  EXPECT_TRUE(third->repeated);
  EXPECT_FALSE(fourth->repeated);
  EXPECT_EQ(server.connections(), 2);
  EXPECT_EQ(server.Requests().size(), 5u);
}

// The first one went out, whatever became of the second.
TEST(Http, ARepetitionThatFailsIsAnUnknownOutcome) {
  for (const Then then : {Then::kReset, Then::kClose}) {
    ScriptedServer* at = nullptr;
    ScriptedServer server([&](const ScriptedRequest& r) {
      if (r.method == "GET") return Answer(200, "ok");
      at->OnAccept(then);
      return ScriptedAnswer{"", Then::kClose};
    });
    at = &server;
    auto client = Client();
    ASSERT_TRUE(client->Send(Request(HttpMethod::kGet, server.Url("/")), Limits()));
    HttpRequest request = Request(HttpMethod::kPut, server.Url("/"), "b");
    request.may_repeat = true;
    EXPECT_EQ(CodeOf(client->Send(request, Limits())), Code::kUnknownOutcome);
  }
}

TEST(Http, PartsGoWhereTheyAreWanted) {
  ScriptedServer server([](const ScriptedRequest& r) {
    if (r.target == "/206") return Answer(206, "abcdef");
    return Answer(r.target == "/200" ? 200 : 404, "all of it");
  });
  auto client = Client();
  std::string place(8, '.');
  const auto get = [&](const std::string& target, size_t room) {
    HttpRequest request = Request(HttpMethod::kGet, server.Url(target));
    request.into = std::as_writable_bytes(std::span(place)).first(room);
    return client->Send(request, Limits());
  };
  const auto whole = get("/206", 6);
  ASSERT_TRUE(whole) << whole.error().ToString();
  EXPECT_EQ(whole->placed, 6);
  EXPECT_EQ(whole->body, "");
  EXPECT_EQ(place, "abcdef..");
  EXPECT_EQ(get("/206", 8)->placed, 6);
  EXPECT_EQ(CodeOf(get("/206", 5)), Code::kLimit);
  EXPECT_EQ(place.substr(6), "..");
  for (const char* target : {"/200", "/404"}) {
    const auto other = get(target, 8);
    ASSERT_TRUE(other);
    EXPECT_EQ(other->placed, 0);
    EXPECT_EQ(other->body, "all of it");
  }
}

TEST(Http, GetOnADeadKeptConnectionIsTriedAgain) {
  int count = 0;
  ScriptedServer server([&](const ScriptedRequest&) {
    return ++count == 2 ? ScriptedAnswer{"", Then::kClose} : Answer(200, std::to_string(count));
  });
  auto client = Client();
  EXPECT_EQ(client->Send(Request(HttpMethod::kGet, server.Url("/")), Limits())->body, "1");
  EXPECT_EQ(client->Send(Request(HttpMethod::kGet, server.Url("/")), Limits())->body, "3");
}

// --- proxies -------------------------------------------------------------------------------------

// A variable of the environment for as long as this lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (old_) {
      setenv(name_, old_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

std::unique_ptr<HttpClient> ClientVia(std::optional<std::string> proxy) {
  HttpOptions options;
  options.proxy = std::move(proxy);
  return std::move(OpenHttpClient(options).value());
}

TEST(HttpProxy, RequestsGoToTheOneThatIsNamed) {
  ScriptedServer proxy([](const ScriptedRequest&) { return Answer(200, "by proxy"); });
  const auto response =
      ClientVia(proxy.Url(""))
          ->Send(Request(HttpMethod::kGet, "http://bucket.invalid/a?b=c"), Limits());
  ASSERT_TRUE(response) << response.error().ToString();
  EXPECT_EQ(response->body, "by proxy");
  EXPECT_EQ(proxy.Requests()[0].target, "http://bucket.invalid/a?b=c");
  EXPECT_EQ(proxy.Requests()[0].headers.at("host"), "bucket.invalid");
}

TEST(HttpProxy, TheEnvironmentNamesOneAndWhoNeedsNone) {
  ScriptedServer proxy([](const ScriptedRequest&) { return Answer(200, "by proxy"); });
  ScriptedServer server([](const ScriptedRequest&) { return Answer(200, "direct"); });
  const auto get = [](HttpClient& client, const std::string& url) {
    return client.Send(Request(HttpMethod::kGet, url), Limits()).value().body;
  };
  const Variable named("http_proxy", proxy.Url(""));
  const Variable without("no_proxy", "");
  EXPECT_EQ(get(*ClientVia(std::nullopt), server.Url("/")), "by proxy");
  // None at all.
  EXPECT_EQ(get(*ClientVia(""), server.Url("/")), "direct");
  const Variable near("no_proxy", "other.invalid,127.0.0.1");
  EXPECT_EQ(get(*ClientVia(std::nullopt), server.Url("/")), "direct");
  EXPECT_EQ(get(*ClientVia(proxy.Url("")), server.Url("/")), "direct");
  EXPECT_EQ(get(*ClientVia(proxy.Url("")), "http://bucket.invalid/"), "by proxy");
}

// A proxy that gives no tunnel has seen nothing of the request: it was never sent.
TEST(HttpProxy, ARefusedTunnelIsNotSent) {
  ScriptedServer proxy([](const ScriptedRequest&) { return Answer(403, "<html>"); });
  HttpRequest request =
      Request(HttpMethod::kPut, "https://bucket.invalid/a?token=tttt", "bodybody");
  request.authorization = Secret("Bearer hush");
  request.headers = {{"X-Key", "kkkk"}};
  const auto result = ClientVia(proxy.Url(""))->Send(request, Limits());
  ASSERT_EQ(CodeOf(result), Code::kTransient);
  EXPECT_THAT(result.error().message, HasSubstr("not sent"));
  ASSERT_EQ(proxy.Requests().size(), 1u);
  EXPECT_EQ(proxy.Requests()[0].method, "CONNECT");
  EXPECT_EQ(proxy.Requests()[0].target, "bucket.invalid:443");
  EXPECT_EQ(proxy.Requests()[0].headers.count("authorization"), 0u);
  EXPECT_EQ(proxy.Requests()[0].headers.count("x-key"), 0u);
}

// --- bounds, redirects, shapes -------------------------------------------------------------------

TEST(Http, AnswerBodiesAreBounded) {
  ScriptedServer server([](const ScriptedRequest&) { return Answer(200, std::string(1001, 'x')); });
  auto client = Client();
  const auto send = [&](HttpMethod method, int64_t bytes) {
    return client->Send(Request(method, server.Url("/")), Limits(bytes));
  };
  EXPECT_EQ(send(HttpMethod::kGet, 1001)->body.size(), 1001u);
  const auto get = send(HttpMethod::kGet, 1000);
  ASSERT_EQ(CodeOf(get), Code::kLimit);
  EXPECT_THAT(get.error().message, HasSubstr("larger than 1000 bytes"));
  EXPECT_EQ(CodeOf(send(HttpMethod::kPost, 1000)), Code::kUnknownOutcome);
}

TEST(Http, BoundHoldsForWhatGzipUnpacksTo) {
  ScriptedServer server([&](const ScriptedRequest& r) {
    EXPECT_EQ(r.headers.at("accept-encoding"), "gzip");
    // 60,000 times "z".
    const std::string packed(
        "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xed\xc1\x31\x01\x00\x00\x00\xc2\xa0\xde"
        "\x4b\x6f\x0d\x0f\xa0\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        "\x00\x00\x00\xbe\x0c\x06\x48\x0b\x2b\x60\xea\x00\x00",
        93);
    return Answer(200, packed, {{"Content-Encoding", "gzip"}});
  });
  const auto get = [&](int64_t bytes) {
    return Client()->Send(Request(HttpMethod::kGet, server.Url("/")), Limits(bytes));
  };
  EXPECT_EQ(CodeOf(get(59'999)), Code::kLimit);
  EXPECT_EQ(get(60'000)->body, std::string(60'000, 'z'));
}

TEST(Http, ChunkedAndInterimAnswers) {
  ScriptedServer server([](const ScriptedRequest&) {
    return ScriptedAnswer{
        "HTTP/1.1 103 Early Hints\r\nX-Interim: yes\r\n\r\n"
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Final: yes\r\n\r\n"
        "3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\n\r\n"};
  });
  const auto response = Client()->Send(Request(HttpMethod::kGet, server.Url("/")), Limits());
  ASSERT_TRUE(response) << response.error().ToString();
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->body, "abcde");
  EXPECT_EQ(response->Header("x-final"), "yes");
  EXPECT_EQ(response->Header("x-interim"), std::nullopt);
}

TEST(Http, RedirectsAreNotFollowed) {
  ScriptedServer other([](const ScriptedRequest&) { return Answer(200, "stolen"); });
  for (const int status : {301, 302, 303, 307, 308}) {
    ScriptedServer server(
        [&](const ScriptedRequest&) { return Answer(status, "", {{"Location", other.Url("/")}}); });
    HttpRequest request = Request(HttpMethod::kGet, server.Url("/"));
    request.authorization = Secret("Bearer abc");
    const auto response = Client()->Send(request, Limits());
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, status);
    EXPECT_EQ(response->Header("location"), other.Url("/"));
  }
  EXPECT_EQ(other.connections(), 0);
}

TEST(Http, ConnectionsAreKeptAndThreadsDoNotMix) {
  ScriptedServer server([](const ScriptedRequest& r) { return Answer(200, r.target); });
  auto client = Client();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(client->Send(Request(HttpMethod::kGet, server.Url("/")), Limits()));
  }
  EXPECT_EQ(server.connections(), 1);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const std::string target = "/" + std::to_string(t) + "-" + std::to_string(i);
        const auto response = client->Send(Request(HttpMethod::kGet, server.Url(target)), Limits());
        right += response && response->body == target;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 160);
  EXPECT_LE(server.connections(), 8);
}

// --- text ----------------------------------------------------------------------------------------

TEST(HttpText, Encodings) {
  EXPECT_EQ(PercentEncode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(PercentEncode("a b/c\x1f\xc3\xa4%+"), "a%20b%2Fc%1F%C3%A4%25%2B");
  EXPECT_EQ(EncodeForm({{"a", "1&2"}, {"b c", ""}}), "a=1%262&b%20c=");
  EXPECT_EQ(EncodeBase64(""), "");
  EXPECT_EQ(EncodeBase64("f"), "Zg==");
  EXPECT_EQ(EncodeBase64("foobar"), "Zm9vYmFy");
}

TEST(HttpText, UrlsInMessages) {
  EXPECT_EQ(UrlForMessages("https://h:1/p?q=secret#f"), "https://h:1/p");
  EXPECT_EQ(UrlForMessages("https://user:pass@h/p@x"), "https://h/p@x");
  EXPECT_EQ(UrlForMessages("nonsense"), "nonsense");
  EXPECT_EQ(UrlOrigin("HTTPS://Host:443/x").value(), "https://host");
  EXPECT_EQ(UrlOrigin("http://host:80?x").value(), "http://host");
  EXPECT_EQ(UrlOrigin("http://host:8181").value(), "http://host:8181");
}

TEST(HttpText, RetryAfter) {
  const Time now{seconds(784111777)};  // Sun, 06 Nov 1994 08:49:37 GMT.
  EXPECT_EQ(ParseRetryAfter("120", now), Duration(seconds(120)));
  EXPECT_EQ(ParseRetryAfter(" 0 ", now), Duration(0));
  EXPECT_EQ(ParseRetryAfter("99999999999999999999", now), Duration(seconds(999'999'999)));
  EXPECT_EQ(ParseRetryAfter("Sun, 06 Nov 1994 08:49:47 GMT", now), Duration(seconds(10)));
  EXPECT_EQ(ParseRetryAfter("Sun, 06 Nov 1994 08:49:27 GMT", now), Duration(0));
  EXPECT_EQ(ParseRetryAfter("", now), std::nullopt);
  EXPECT_EQ(ParseRetryAfter("soon", now), std::nullopt);
  EXPECT_EQ(ParseRetryAfter("-5", now), std::nullopt);
}

// --- a stop --------------------------------------------------------------------------------------

// Limits that would outlive every test.
HttpLimits Patient() { return HttpLimits(seconds(900), seconds(900), 1 << 20); }

class HttpStopTest : public testing::Test {
 protected:
  HttpStopTest() {
    HttpOptions options;
    options.proxy = "";
    options.stop = [this] { return stop_.load(); };
    options.stop_grace = milliseconds(100);
    options.publish_stop_grace = milliseconds(600);
    client_ = std::move(OpenHttpClient(std::move(options)).value());
  }
  // Stops once `server` has been asked `requests` times.
  void StopAfter(const ScriptedServer& server, size_t requests) {
    while (server.Requests().size() < requests) std::this_thread::yield();
    stop_ = true;
  }
  Error ErrorOf(HttpRequest request) {
    const auto response = client_->Send(request, Patient());
    EXPECT_FALSE(response);
    return response ? Error() : response.error();
  }

  std::atomic<bool> stop_{false};
  std::unique_ptr<HttpClient> client_;
};

TEST_F(HttpStopTest, ARequestThatHangsIsGivenUp) {
  struct Case {
    const char* what;
    HttpMethod method;
    std::string bytes;  // Of the answer, before it hangs.
    Code code;
  };
  const std::string header = "HTTP/1.1 200 OK\r\nContent-Le";
  const std::string body = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf";
  for (const Case& one : {Case{"no answer", HttpMethod::kGet, "", Code::kCancelled},
                          Case{"in the header", HttpMethod::kGet, header, Code::kCancelled},
                          Case{"in the body", HttpMethod::kGet, body, Code::kCancelled},
                          Case{"of a HEAD", HttpMethod::kHead, "", Code::kCancelled},
                          Case{"no answer", HttpMethod::kPut, "", Code::kUnknownOutcome},
                          Case{"in the header", HttpMethod::kPost, header, Code::kUnknownOutcome},
                          Case{"in the body", HttpMethod::kDelete, body, Code::kUnknownOutcome}}) {
    stop_ = false;
    ScriptedServer server(
        [&](const ScriptedRequest&) { return ScriptedAnswer{one.bytes, Then::kHang}; });
    std::jthread stopping([&] { StopAfter(server, 1); });
    const Error error = ErrorOf(Request(one.method, server.Url("/x?hush")));
    EXPECT_EQ(error.code, one.code) << one.what;
    EXPECT_THAT(error.ToString(), HasSubstr("stopped on request"));
    EXPECT_THAT(error.ToString(), Not(HasSubstr("hush")));
  }
}

TEST_F(HttpStopTest, AnUploadThatNobodyReadsIsGivenUp) {
  ScriptedServer server([](const ScriptedRequest&) { return Answer(200, ""); });
  server.OnAccept(Then::kHang);
  std::jthread stopping([&] {
    while (server.connections() < 1) std::this_thread::yield();
    stop_ = true;
  });
  // More than the buffers between them hold.
  const Error error =
      ErrorOf(Request(HttpMethod::kPut, server.Url("/"), std::string(64 << 20, 'x')));
  EXPECT_EQ(error.code, Code::kUnknownOutcome);
}

TEST_F(HttpStopTest, WhatWasNeverSentIsCancelledInAnyCase) {
  // It listens, and its queue of connections is full: nobody answers the next one.
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 0), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::vector<int> queued;
  for (int i = 0; i < 8; ++i) {
    queued.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)connect(queued.back(), reinterpret_cast<sockaddr*>(&address), size);
  }
  stop_ = true;
  const std::string url = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/";
  for (const HttpMethod method : {HttpMethod::kGet, HttpMethod::kPut}) {
    const Error error = ErrorOf(Request(method, url));
    EXPECT_EQ(error.code, Code::kCancelled);
    EXPECT_THAT(error.message, HasSubstr("not sent: stopped on request"));
  }
  for (const int fd : queued) close(fd);
  close(listener);
}

// Who answers is heard after a stop, too. Who was given up on is not asked again, until the stop is
// taken back.
TEST_F(HttpStopTest, AfterAStopWhoAnswersIsHeard) {
  std::atomic<bool> hangs = false;
  ScriptedServer server([&](const ScriptedRequest&) {
    return hangs ? ScriptedAnswer{"", Then::kHang} : Answer(200, "here");
  });
  stop_ = true;
  EXPECT_EQ(client_->Send(Request(HttpMethod::kGet, server.Url("/")), Patient())->body, "here");
  EXPECT_EQ(client_->Send(Request(HttpMethod::kPut, server.Url("/")), Patient())->body, "here");
  hangs = true;
  EXPECT_EQ(ErrorOf(Request(HttpMethod::kGet, server.Url("/"))).code, Code::kCancelled);
  hangs = false;
  const size_t asked = server.Requests().size();
  for (const HttpMethod method : {HttpMethod::kGet, HttpMethod::kPost}) {
    HttpRequest request = Request(method, server.Url("/"));
    request.publishes = method == HttpMethod::kPost;
    EXPECT_EQ(ErrorOf(request).code, Code::kCancelled);
  }
  EXPECT_EQ(server.Requests().size(), asked);
  stop_ = false;
  EXPECT_EQ(client_->Send(Request(HttpMethod::kGet, server.Url("/")), Patient())->body, "here");
}

// What publishes is given longer; but not for ever.
TEST_F(HttpStopTest, WhatPublishesIsGivenLonger) {
  ScriptedServer server([&](const ScriptedRequest& request) {
    if (request.target == "/hangs") return ScriptedAnswer{"", Then::kHang};
    ScriptedAnswer answer = Answer(200, "published");
    answer.before = milliseconds(300);
    return answer;
  });
  const auto publish = [&](const char* target) {
    HttpRequest request = Request(HttpMethod::kPut, server.Url(target), "x");
    request.publishes = true;
    return client_->Send(request, Patient());
  };
  {
    std::jthread stopping([&] { StopAfter(server, 1); });
    const auto published = publish("/late");
    ASSERT_TRUE(published) << published.error().ToString();
    EXPECT_EQ(published->body, "published");
  }
  EXPECT_EQ(publish("/hangs").error().code, Code::kUnknownOutcome);
}

TEST(Base64, AndBack) {
  for (const char* text : {"", "f", "fo", "foo", "foob", "alice:p\xc3\xa4ss\0word"}) {
    EXPECT_EQ(DecodeBase64(EncodeBase64(text)), text);
  }
  for (const char* text :
       {"Zg", "Zg=", "Zg===", "=", "====", "Z===", "Zm9v\n", "Zm 9", "Zm9-", "Z=9v"}) {
    EXPECT_EQ(DecodeBase64(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace lithify::net
