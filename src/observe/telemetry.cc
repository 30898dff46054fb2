#include "observe/telemetry.h"

#define ZLIB_CONST  // Input is read only.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "net/http.h"

namespace lithify::observe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kShutdownMax = seconds(2);
constexpr Duration kFirstBackOff = seconds(1);
constexpr Duration kBackOffMax = seconds(16);
// Of the last tries before the end.
constexpr Duration kClosingBackOff = milliseconds(100);
constexpr int64_t kResponseBytesMax = 64 << 10;

constexpr const char* kQueueFull = "queue_full";
constexpr const char* kRefused = "refused";
constexpr const char* kUnreachable = "unreachable";

std::string Hex(uint64_t word) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(word));
  return text.data();
}

std::optional<std::string> Gzip(const std::string& bytes) {
  z_stream stream{};
  constexpr int kGzipWindow = 15 + 16;
  if (deflateInit2(&stream, 1, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    return std::nullopt;
  }
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<const Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int done = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (done != Z_STREAM_END) return std::nullopt;
  return out;
}

bool MayComeThrough(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

struct Batch {
  std::string body;
  size_t items = 0;
};

// One signal: a thread that asks for batches when they are due, and sends them.
class Channel {
 public:
  // Gives the next batch, nullopt if there is none that is worth a request; with `all`, any is.
  using Next = std::function<std::optional<Batch>(bool all)>;

  Channel(Signal signal, const SignalOptions& options, const Telemetry::Services& services)
      : signal_(signal), options_(options), services_(services) {}

  Status Open() {
    auto client = net::OpenHttpClient({.ca_file = options_.ca_file,
                                       .proxy = std::nullopt,
                                       .stop = [this] { return PastEnd(); },
                                       .stop_grace = milliseconds(1),
                                       .publish_stop_grace = milliseconds(1)});
    if (!client) return Fail(std::move(client.error()).In("telemetry"));
    client_ = std::move(*client);
    return {};
  }

  void Run(Next next) {
    // Signals are for the program's own threads, one of which may wait for them.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this, next = std::move(next)] { Loop(next); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  // There is a whole batch.
  void Wake() {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    wake_.notify_one();
  }

  // At `end` nothing more is tried.
  void Close(Duration end) {
    {
      const std::lock_guard lock(mutex_);
      end_ = end.count();
      closing_ = true;
    }
    wake_.notify_one();
  }
  void Join() {
    if (thread_.joinable()) thread_.join();
  }

  void Dropped(size_t items, const char* reason) {
    if (items == 0) return;
    services_.metrics.Add(metric::kLithifyTelemetryDropped, static_cast<double>(items),
                          {{attribute::kLithifyTelemetrySignal, std::string(SignalName(signal_))},
                           {attribute::kLithifyReason, reason}});
  }

 private:
  bool PastEnd() const { return services_.clock.Monotonic().count() >= end_; }

  void Loop(const Next& next) {
    for (bool last = false; !last;) {
      bool due = false;
      {
        std::unique_lock lock(mutex_);
        due = !wake_.wait_for(lock, options_.delay, [&] { return woken_ || closing_; });
        woken_ = false;
        last = closing_;
      }
      while (auto batch = next(due || last)) Deliver(*batch);
    }
  }

  void Deliver(const Batch& batch) {
    net::HttpRequest request;
    request.method = net::HttpMethod::kPost;
    request.url = options_.url;
    request.headers = options_.headers;
    request.authorization = options_.authorization;
    request.headers.emplace_back("Content-Type", "application/x-protobuf");
    // Twice is as good as once but for a few points that are there twice.
    request.may_repeat = true;
    auto packed = options_.gzip ? Gzip(batch.body) : std::nullopt;
    if (packed) request.headers.emplace_back("Content-Encoding", "gzip");
    request.body = packed ? std::move(*packed) : batch.body;
    const Duration end = services_.clock.Monotonic() + options_.export_timeout;
    Duration back_off = kFirstBackOff;
    for (;;) {
      Duration wait = back_off + Jitter(back_off);
      const auto answer = Send(request, end);
      if (answer && answer->status / 100 == 2) {
        troubled_ = false;
        return Dropped(static_cast<size_t>(RejectedItems(answer->body)), kRefused);
      }
      const std::string what =
          answer ? "HTTP " + std::to_string(answer->status) : answer.error().ToString();
      const bool again = answer ? MayComeThrough(answer->status) : IsPassing(answer.error().code);
      if (!again) return GiveUp(batch, answer ? kRefused : kUnreachable, what);
      if (answer) {
        const auto after = answer->Header("retry-after");
        const auto asked =
            after ? net::ParseRetryAfter(*after, services_.clock.Now()) : std::nullopt;
        if (asked) wait = std::max(*asked, Duration(milliseconds(1)));
      }
      if (!WaitUnless(wait, end)) {
        return GiveUp(batch, answer ? kRefused : kUnreachable, what);
      }
      back_off = std::min(2 * back_off, kBackOffMax);
    }
  }

  Result<net::HttpResponse> Send(const net::HttpRequest& request, Duration end) {
    const Duration now = services_.clock.Monotonic();
    const Duration left = std::min(end, Duration(end_.load())) - now;
    if (left <= Duration::zero()) return Fail(Code::kCancelled, "there was no time left for it");
    const Duration most = std::min(options_.timeout, std::max<Duration>(left, milliseconds(10)));
    return client_->Send(request, net::HttpLimits(most, most, kResponseBytesMax));
  }

  static bool IsPassing(Code code) {
    return code == Code::kTransient || code == Code::kUnknownOutcome;
  }

  Duration Jitter(Duration most) const {
    const auto share = static_cast<int64_t>(services_.random.Next() % 256);
    return most / 4 * share / 256;
  }

  // False where there is no time for another try.
  bool WaitUnless(Duration wait, Duration end) {
    std::unique_lock lock(mutex_);
    if (!closing_) {
      if (services_.clock.Monotonic() + wait >= end) return false;
      wake_.wait_for(lock, wait, [&] { return closing_; });
    }
    if (!closing_) return true;
    lock.unlock();
    services_.clock.Sleep(kClosingBackOff);
    return !PastEnd();
  }

  void GiveUp(const Batch& batch, const char* reason, const std::string& what) {
    Dropped(batch.items, reason);
    if (troubled_ || !services_.on_trouble) return;
    troubled_ = true;
    services_.on_trouble(std::string(SignalName(signal_)) + " do not get through to " +
                         net::UrlForMessages(options_.url) + ": " + what);
  }

  const Signal signal_;
  const SignalOptions options_;
  const Telemetry::Services services_;
  std::unique_ptr<net::HttpClient> client_;
  std::atomic<int64_t> end_{std::numeric_limits<int64_t>::max()};  // Duration::count().
  bool troubled_ = false;                                          // Of the thread alone.
  std::mutex mutex_;
  std::condition_variable wake_;
  bool woken_ = false;
  bool closing_ = false;
  std::thread thread_;
};

// Items that wait to be sent.
template <typename Item>
class Queue {
 public:
  Queue(size_t most, size_t batch) : most_(most), batch_(batch) {}

  enum class Put { kKept, kFull, kBatch };  // kBatch: kept, and there is a whole batch now.
  Put Add(Item item) {
    const std::lock_guard lock(mutex_);
    if (closed_ || items_.size() >= most_) return Put::kFull;
    items_.push_back(std::move(item));
    return items_.size() % batch_ == 0 ? Put::kBatch : Put::kKept;
  }
  std::vector<Item> Take(bool all) {
    const std::lock_guard lock(mutex_);
    if (!all && items_.size() < batch_) return {};
    const auto end = items_.begin() + static_cast<long>(std::min(batch_, items_.size()));
    std::vector<Item> out(std::make_move_iterator(items_.begin()), std::make_move_iterator(end));
    items_.erase(items_.begin(), end);
    return out;
  }
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

 private:
  const size_t most_;
  const size_t batch_;
  std::mutex mutex_;
  std::deque<Item> items_;
  bool closed_ = false;
};

// What came since the last time: of counters and histograms, what was there then is taken off.
class Deltas {
 public:
  std::vector<MetricPoint> Take(std::vector<MetricPoint> points) {
    for (MetricPoint& point : points) {
      const metric::Kind kind = point.instrument->kind;
      if (kind != metric::Kind::kCounter && kind != metric::Kind::kHistogram) continue;
      MetricPoint& last = last_[{point.name, point.attributes}];
      const MetricPoint whole = point;
      point.value -= last.value;
      point.count -= last.count;
      for (size_t i = 0; i < last.bucket_counts.size(); ++i) {
        point.bucket_counts[i] -= last.bucket_counts[i];
      }
      last = whole;
    }
    return points;
  }

 private:
  std::map<std::pair<std::string, Attributes>, MetricPoint> last_;
};

class OtlpTelemetry final : public Telemetry {
 public:
  OtlpTelemetry(TelemetryOptions options, Services services)
      : options_(std::move(options)),
        services_(std::move(services)),
        scope_{.resource = options_.resource, .version = services_.version},
        spans_(Of(Signal::kTraces).queue_max, Of(Signal::kTraces).batch_max),
        records_(Of(Signal::kLogs).queue_max, Of(Signal::kLogs).batch_max),
        start_(services_.clock.Now()) {
    PutProcess();
  }
  ~OtlpTelemetry() override { Shutdown(kShutdownMax); }

  Status Open() {
    for (const Signal signal : kSignals) {
      if (Of(signal).url.empty()) continue;
      auto channel = std::make_unique<Channel>(signal, Of(signal), services_);
      LITHIFY_TRY(channel->Open());
      At(signal) = std::move(channel);
    }
    if (Channel* channel = At(Signal::kMetrics).get()) {
      channel->Run([this](bool all) { return NextMetrics(all); });
    }
    if (Channel* channel = At(Signal::kTraces).get()) {
      channel->Run([this](bool all) { return NextOf(spans_, all, EncodeSpans); });
    }
    if (Channel* channel = At(Signal::kLogs).get()) {
      channel->Run([this](bool all) { return NextOf(records_, all, EncodeLogs); });
    }
    return {};
  }

  void Emit(SpanData span) override {
    if (span.context.sampled) Put(Signal::kTraces, spans_, std::move(span));
  }
  void Emit(LogRecord record) override { Put(Signal::kLogs, records_, std::move(record)); }

  TraceContext MakeContext(const TraceContext& parent) override {
    TraceContext out{.trace_id = parent.trace_id, .span_id = NewId(), .sampled = parent.sampled};
    if (!parent.valid()) out.trace_id = NewId() + NewId();
    if (!parent.valid() || !options_.parent_based) out.sampled = IsSampled(out.trace_id);
    return out;
  }

  Time Now() const override { return services_.clock.Now(); }

  void Shutdown(Duration most) override {
    spans_.Close();
    records_.Close();
    const Duration end = services_.clock.Monotonic() + most;
    for (auto& channel : channels_) {
      if (channel) channel->Close(end);
    }
    for (auto& channel : channels_) {
      if (channel) channel->Join();
    }
  }

 private:
  const SignalOptions& Of(Signal signal) const { return options_.Of(signal); }
  std::unique_ptr<Channel>& At(Signal signal) { return channels_[static_cast<size_t>(signal)]; }

  // What is known of this process, where the environment does not say otherwise.
  void PutProcess() {
    std::array<char, 256> host{};
    if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
    const auto put = [&](const char* key, AttributeValue value) {
      if (std::ranges::find(scope_.resource, key, &AttributeList::value_type::first) ==
          scope_.resource.end()) {
        scope_.resource.emplace_back(key, std::move(value));
      }
    };
    put("service.version", services_.version);
    put("service.instance.id", MakeUuidV7(services_.clock, services_.random));
    put("host.name", std::string(host.data()));
    put("process.pid", int64_t{getpid()});
    put("telemetry.sdk.name", std::string("lithify"));
    put("telemetry.sdk.language", std::string("cpp"));
    put("telemetry.sdk.version", services_.version);
  }

  std::string NewId() const {
    for (;;) {
      if (const uint64_t id = services_.random.Next(); id != 0) return Hex(id);
    }
  }

  // By the trace's id alone, so that all processes of a trace decide alike.
  bool IsSampled(const std::string& trace_id) const {
    if (options_.sampled_share >= 1) return true;
    const uint64_t low = std::stoull(trace_id.substr(18), nullptr, 16);  // 56 bits.
    constexpr auto kAll = static_cast<double>(uint64_t{1} << 56);
    return static_cast<double>(low) < options_.sampled_share * kAll;
  }

  template <typename Item>
  void Put(Signal signal, Queue<Item>& queue, Item item) {
    Channel* const channel = At(signal).get();
    if (channel == nullptr) return;
    switch (queue.Add(std::move(item))) {
      case Queue<Item>::Put::kKept: break;
      case Queue<Item>::Put::kBatch: channel->Wake(); break;
      case Queue<Item>::Put::kFull: channel->Dropped(1, kQueueFull); break;
    }
  }

  template <typename Item>
  std::optional<Batch> NextOf(Queue<Item>& queue, bool all,
                              std::string (*encode)(const ExportScope&, std::span<const Item>)) {
    const std::vector<Item> items = queue.Take(all);
    if (items.empty()) return std::nullopt;
    return Batch{.body = encode(scope_, items), .items = items.size()};
  }

  // Once each time it is asked for.
  std::optional<Batch> NextMetrics(bool all) {
    if (!all || std::exchange(told_metrics_, !told_metrics_)) return std::nullopt;
    std::vector<MetricPoint> points = services_.metrics.Points();
    const Time now = Now();
    const Time start = start_;
    if (options_.temporality == Temporality::kDelta) {
      points = deltas_.Take(std::move(points));
      start_ = now;
    }
    if (points.empty()) {
      told_metrics_ = false;
      return std::nullopt;
    }
    return Batch{.body = EncodeMetrics(scope_, points, options_.temporality, start, now),
                 .items = points.size()};
  }

  const TelemetryOptions options_;
  const Services services_;
  ExportScope scope_;
  Queue<SpanData> spans_;
  Queue<LogRecord> records_;
  // Of the thread of metrics alone.
  Time start_;
  Deltas deltas_;
  bool told_metrics_ = false;
  std::array<std::unique_ptr<Channel>, kSignals.size()> channels_;
};

}  // namespace

Result<std::unique_ptr<Telemetry>> Telemetry::Start(TelemetryOptions options, Services services) {
  if (!options.on()) return std::unique_ptr<Telemetry>();
  auto telemetry = std::make_unique<OtlpTelemetry>(std::move(options), std::move(services));
  LITHIFY_TRY(telemetry->Open());
  return std::unique_ptr<Telemetry>(std::move(telemetry));
}

}  // namespace lithify::observe
