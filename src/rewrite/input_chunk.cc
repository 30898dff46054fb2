#include "rewrite/input_chunk.h"

#include <utility>

namespace lithify::rewrite {

using parquet::Type;

std::optional<int> PlainBytesOf(const OutputLeaf& leaf) {
  switch (leaf.physical) {
    case Type::INT32:
    case Type::FLOAT: return 4;
    case Type::INT64:
    case Type::DOUBLE: return 8;
    case Type::INT96: return 12;
    case Type::BYTE_ARRAY: return DictionaryUnion::kByteArray;
    case Type::FIXED_LEN_BYTE_ARRAY:
      if (leaf.type_length > 0) return leaf.type_length;
      return std::nullopt;
    default: return std::nullopt;
  }
}

std::unexpected<Error> Leave(std::string why) { return Fail(Code::kUnsupported, std::move(why)); }

Error Changed() {
  return Error{Code::kCorrupt, "the file changed while it was read", "",
               "find out who writes to it; files of a table are never changed in place"};
}

}  // namespace lithify::rewrite
