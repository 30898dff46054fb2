#include "maintain/query_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "catalog/catalog.h"

namespace lithify::maintain {
namespace {

int64_t DayOf(Time t) {
  return std::chrono::floor<std::chrono::days>(t).time_since_epoch().count();
}

class File {
 public:
  explicit File(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

std::unexpected<Error> FailRead(const std::string& path) {
  const int error = errno;
  return Fail(error == EACCES ? Code::kDenied : Code::kTransient,
              std::string("cannot read the query log: ") +
                  std::strerror(error),  // NOLINT(concurrency-mt-unsafe)
              path);
}

}  // namespace

Status QueryLog::Refresh(Time now) {
  const std::lock_guard lock(mutex_);
  now_ = now;
  const File file(path_);
  if (file.fd() < 0) {
    if (errno == ENOENT) return {};
    return FailRead(path_);
  }
  struct stat info{};
  if (fstat(file.fd(), &info) != 0) return FailRead(path_);
  if (static_cast<int64_t>(info.st_ino) != file_ || info.st_size < offset_) {
    file_ = static_cast<int64_t>(info.st_ino);
    offset_ = 0;
  }
  std::string bytes(static_cast<size_t>(std::clamp<int64_t>(info.st_size - offset_, 0, kBytesMax)),
                    '\0');
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t n = pread(file.fd(), bytes.data() + got, bytes.size() - got,
                            offset_ + static_cast<int64_t>(got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FailRead(path_);
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  // A line that is not ended yet is taken when it is.
  std::string_view rest(bytes.data(), got);
  for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    Take(rest.substr(0, end));
    rest.remove_prefix(end + 1);
    offset_ += static_cast<int64_t>(end) + 1;
  }
  const int64_t oldest = DayOf(now) - kDays;
  for (auto& [table, days] : reads_) {
    std::erase_if(days, [&](const auto& day) { return day.first < oldest; });
  }
  std::erase_if(reads_, [](const auto& table) { return table.second.empty(); });
  return {};
}

void QueryLog::Take(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return;
  const auto text = [](const nlohmann::json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const auto time = ParseTime(text(json, "time"));
  if (!time) return;
  if (!first_ || *time < *first_) first_ = *time;
  if (text(json, "kind") != "query" || text(json, "status") != "success") return;
  // A CALL has its table on record, too, and is no read that a rewrite would make shorter.
  if (text(json, "statement_type") != "select") return;
  const auto resources = json.find("resources");
  if (resources == json.end() || !resources->is_array()) return;
  for (const auto& resource : *resources) {
    if (!resource.is_object() || text(resource, "object_type") != "table") continue;
    catalog::TableIdent ident;
    ident.name = text(resource, "name");
    const auto parts = resource.find("namespace");
    if (parts == resource.end() || !parts->is_array()) continue;
    for (const auto& part : *parts) {
      if (part.is_string()) ident.namespace_parts.push_back(part.get<std::string>());
    }
    ++reads_[text(resource, "catalog") + "." + ident.ToString()][DayOf(*time)];
  }
}

job::TableReads QueryLog::Of(const std::string& table) const {
  const std::lock_guard lock(mutex_);
  job::TableReads count;
  if (!first_ || !now_) return count;
  const double days = std::chrono::duration<double>(*now_ - *first_).count() / 86'400.0;
  count.days = std::clamp(days, 0.0, static_cast<double>(kDays));
  const auto found = reads_.find(table);
  if (found == reads_.end()) return count;
  for (const auto& [day, reads] : found->second) count.reads += static_cast<double>(reads);
  return count;
}

}  // namespace lithify::maintain
