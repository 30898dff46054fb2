// A program for the crash matrix: one of each change of a LocalStore below argv[1], in order. Exits
// with 10 plus the code of the first error.
#include <cstdio>
#include <string>

#include "storage/local_store.h"

using lithify::Result;
using lithify::Status;
using lithify::storage::OpenLocalStore;

namespace {

Status Steps(const std::string& root) {
  LITHIFY_TRY_ASSIGN(auto store, OpenLocalStore(root));
  LITHIFY_TRY(store->PutNew("a/b/m", std::string(10'000, '1')));
  LITHIFY_TRY_ASSIGN(const auto blob, store->Get("a/b/m", 1'000'000));
  LITHIFY_TRY(store->PutIf("a/b/m", std::string(20'000, '2'), blob.version));
  {
    LITHIFY_TRY_ASSIGN(auto writer, store->Create("a/b/data"));
    // So long that a part of it goes past the page cache.
    const std::string chunk(5'500'000, '3');
    for (int i = 0; i < 2; ++i) LITHIFY_TRY(writer->Append(std::as_bytes(std::span(chunk))));
    LITHIFY_TRY(writer->Publish());
    LITHIFY_TRY_ASSIGN(const auto written, store->Get("a/b/data", 20'000'000));
    if (written.bytes != chunk + chunk)
      return lithify::Fail(lithify::Code::kCorrupt, "other bytes");
  }
  {
    LITHIFY_TRY_ASSIGN(auto dropped, store->Create("a/b/dropped"));
    const std::string chunk(3'000'000, '4');
    LITHIFY_TRY(dropped->Append(std::as_bytes(std::span(chunk))));
  }
  return store->Remove("a/b/data");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const Status done = Steps(argv[1]);
  if (!done) std::fprintf(stderr, "%s\n", done.error().ToString().c_str());
  return done ? 0 : 10 + static_cast<int>(done.error().code);
}
