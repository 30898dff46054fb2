#include "storage/read_whole.h"

#include <fstream>
#include <iterator>

namespace lithify::storage {

Result<std::string> ReadWhole(const std::string& path, std::string_view what) {
  constexpr size_t kBytesMax = size_t{4} << 20;
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad() || text.empty() || text.size() > kBytesMax) {
    return Fail(Code::kInvalid, "cannot be read, is empty, or is larger than 4 MiB",
                std::string(what) + " = \"" + path + "\"");
  }
  return text;
}

}  // namespace lithify::storage
